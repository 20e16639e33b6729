"""Who may work at once: trajectories are admitted while their logs fit the KV cache.

The log of a trajectory is the prefix of all its calls, and must still be in the cache when
the last of them comes. A fixed number of trajectories cannot know when that holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """Reservations against a capacity, first come first served.

    Args:
        capacity: KV tokens of the engine; None admits up to `most` at once.
        most: The most trajectories at once whatever the capacity, a bound on memory.
    """

    def __init__(self, capacity: int | None, most: int = 256) -> None:
        self.capacity = capacity
        self.most = most
        self.reserved = 0
        self.admitted = 0
        self._changed = asyncio.Condition()
        self._turn = asyncio.Lock()

    def _fits(self, tokens: int) -> bool:
        if self.admitted == 0:
            return True
        within = self.capacity is None or self.reserved + tokens <= self.capacity
        return within and self.admitted < self.most

    @asynccontextmanager
    async def admitted_with(self, tokens: int) -> AsyncIterator[None]:
        """Wait for room for so many tokens, and hold it.

        One that is larger than the whole cache is admitted alone. The one that waits
        longest goes first, so that a large one is not starved by small ones.
        """
        async with self._turn, self._changed:
            await self._changed.wait_for(lambda: self._fits(tokens))
            self.reserved += tokens
            self.admitted += 1
        try:
            yield
        finally:
            async with self._changed:
                self.reserved -= tokens
                self.admitted -= 1
                self._changed.notify_all()
