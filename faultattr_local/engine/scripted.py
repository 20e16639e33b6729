"""An engine that answers from a script: for tests of the loops, never for verdicts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from faultattr_local.engine.base import ModelCard, Reply, Request, parse_answer
from faultattr_local.errors import LogTooLong

Script = Callable[[Request], "str | Mapping[str, Any] | Exception"]


class ScriptedEngine:
    """Answers each request with what the script returns for it.

    Replies go through the same validation as those of a real engine, and time passes, so
    that what overlaps can be seen.

    Args:
        script: Returns an answer as a mapping or raw text, or an exception to raise.
        context_tokens: The context to enforce, at four characters a token.
        kv_tokens: The KV capacity to report.
        delay: Seconds that each call takes.
    """

    def __init__(
        self,
        script: Script,
        *,
        context_tokens: int = 1_000_000,
        kv_tokens: int | None = None,
        delay: float = 0.0,
    ) -> None:
        self.script = script
        self.delay = delay
        self.card = ModelCard("scripted", "scripted", context_tokens, kv_tokens)
        self.requests: list[Request] = []
        self.running = 0
        self.most_running = 0

    async def start(self) -> ModelCard:
        """Nothing to load; a script needs no canary, since every reply is validated."""
        return self.card

    async def stop(self) -> None:
        """Nothing to give back."""

    def count_tokens(self, text: str) -> int:
        """One token for four characters, rounded up."""
        return -(-len(text) // 4)

    async def generate(self, request: Request) -> Reply:
        """Answer from the script."""
        self.requests.append(request)
        prompt = sum(self.count_tokens(message.content) for message in request.messages)
        if prompt + request.max_tokens > self.card.context_tokens:
            raise LogTooLong(f"{prompt} tokens of prompt and {request.max_tokens} of answer")
        started = time.time()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.delay)
            scripted = self.script(request)
        finally:
            self.running -= 1
        if isinstance(scripted, Exception):
            raise scripted
        text = scripted if isinstance(scripted, str) else json.dumps(scripted)
        answer = parse_answer(request, text, "stop")
        output = self.count_tokens(text)
        return Reply(answer, text, "stop", prompt, 0, output, started, time.time() - started)
