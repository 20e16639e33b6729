"""What a run has done so far, and what its calls cost."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from faultattr_local.engine.base import Reply
from faultattr_local.verdict import Usage


@dataclass
class Progress:
    """Counts of a run as it goes, for whoever shows them."""

    waiting: int = 0
    working: int = 0
    done: int = 0
    unscored: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    replayed: int = 0
    restarts: int = 0
    started: float = field(default_factory=time.monotonic)

    def count(self, reply: Reply) -> None:
        """Add one reply; replayed ones cost nothing now."""
        if reply.replayed:
            self.replayed += 1
            return
        self.prompt_tokens += reply.prompt_tokens
        self.cached_tokens += reply.cached_tokens
        self.output_tokens += reply.output_tokens


def usage_of(replies: Iterable[Reply], invalid: int, seconds: float) -> Usage:
    """What these calls cost together; replayed ones as they were when first made."""
    kept = list(replies)
    return Usage(
        requests=len(kept) + invalid,
        invalid_replies=invalid,
        prompt_tokens=sum(reply.prompt_tokens for reply in kept),
        cached_tokens=sum(reply.cached_tokens for reply in kept),
        output_tokens=sum(reply.output_tokens for reply in kept),
        seconds=round(seconds, 3),
    )
