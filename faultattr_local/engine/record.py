"""Every reply on disk as it comes: the audit log, the cache of resume, and replay.

Replies are kept under the digest of the request and of the model. Only replies that were
validated are given again; an invalid one is recorded, marked so, and asked anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from faultattr_local.engine.base import (
    RETRY_TEMPERATURE,
    Answer,
    Engine,
    ModelCard,
    Reply,
    Request,
    parse_answer,
)
from faultattr_local.engine.bounds import answer_schema
from faultattr_local.errors import EngineUnavailable, InvalidReply

Call = dict[str, Any]


class Recorder:
    """An engine that answers from the record first and records what the inner engine says.

    Args:
        inner: The engine asked for what is not on record; None replays only.
        write: Takes one JSON-ready record and makes it durable before returning.
        recorded: The calls of earlier runs.
        card: What was served when the record was made; needed only to replay.
    """

    def __init__(
        self,
        inner: Engine | None,
        write: Callable[[Call], None],
        recorded: Iterable[Call] = (),
        card: ModelCard | None = None,
    ) -> None:
        self._inner = inner
        self._write = write
        self._card = card
        self._recorded: dict[str, Call] = {}
        self._invalid: dict[str, Call] = {}
        for call in recorded:
            kept = self._recorded if call["valid"] else self._invalid
            kept.setdefault(call["key"], call["reply"])

    async def start(self) -> ModelCard:
        """Start the inner engine; replay alone needs none."""
        if self._inner is not None:
            self._card = await self._inner.start()
        if self._card is None:
            raise EngineUnavailable("there is neither an engine nor a record of one")
        return self._card

    async def stop(self) -> None:
        """Stop the inner engine."""
        if self._inner is not None:
            await self._inner.stop()

    def count_tokens(self, text: str) -> int:
        """Count with the inner engine's tokenizer."""
        if self._inner is None:
            raise EngineUnavailable("a record alone has no tokenizer")
        return self._inner.count_tokens(text)

    async def generate(self, request: Request) -> Reply:
        """The recorded reply, or a new one that is on disk before it is used."""
        assert self._card is not None, "start() comes first"
        key = call_key(request, self._card)
        if (known := self._recorded.get(key)) is not None:
            return replay(request, known)
        self._repeat_a_failure_that_was_mended(request, key)
        if self._inner is None:
            raise EngineUnavailable("the record holds no reply to it", where=request.role)
        started = time.time()
        try:
            reply = await self._inner.generate(request)
        except InvalidReply as error:
            told = {"error": str(error), "text": error.text, "finish_reason": error.finish_reason}
            times = {"started": started, "seconds": time.time() - started}
            self._write(call_record(request, key, valid=False, reply=told | times))
            raise
        self._write(call_record(request, key, valid=True, reply=reply_record(reply)))
        return reply

    def _repeat_a_failure_that_was_mended(self, request: Request, key: str) -> None:
        """An invalid reply whose retry is on record is not asked anew.

        Asked anew it might be valid this time, and all that was recorded after it would be
        an answer to other questions.

        Raises:
            InvalidReply: As it was when the call was made.
        """
        failed = self._invalid.get(key)
        if failed is None or self._card is None:
            return
        if call_key(request.again(RETRY_TEMPERATURE), self._card) in self._recorded:
            what = f"as recorded: {failed.get('error', 'the reply was invalid')}"
            raise InvalidReply(what, where=f"{request.trajectory}, {request.role}")


def call_key(request: Request, card: ModelCard) -> str:
    """SHA-256 of model, messages, schema and sampling: all that decides a reply."""
    return hashlib.sha256(f"{card.digest}\0{request.digest}".encode()).hexdigest()


def reply_record(reply: Reply) -> Call:
    """A reply as it is written down; its answer is parsed again from the text."""
    return {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "started": reply.started,
        "seconds": reply.seconds,
    }


def call_record(request: Request, key: str, *, valid: bool, reply: Mapping[str, Any]) -> Call:
    """One line of the calls file.

    The shared messages are kept as a digest, since they are the log, over and over; they can
    be rendered again from the trajectory by templates of the digests in run.json.
    """
    shared = hashlib.sha256()
    for message in request.shared:
        shared.update(f"{message.role}\0{message.content}\0".encode())
    schema = repr(answer_schema(request.answer)).encode()
    return {
        "key": key,
        "trajectory": request.trajectory,
        "role": request.role,
        "attempt": request.attempt,
        "shared": shared.hexdigest(),
        "ask": request.ask,
        "schema": hashlib.sha256(schema).hexdigest(),
        "temperature": request.sampling.temperature,
        "seed": request.sampling.seed,
        "max_tokens": request.max_tokens,
        "valid": valid,
        "reply": dict(reply),
    }


def replay(request: Request, recorded: Mapping[str, Any]) -> Reply:
    """A recorded reply, validated again.

    Raises:
        InvalidReply: The record was changed by hand or is damaged.
    """
    try:
        reply = Reply(answer=Answer(), replayed=True, **recorded)
    except TypeError as error:
        where = f"{request.trajectory}, {request.role}"
        raise InvalidReply(f"the record of the reply is damaged: {error}", where=where) from error
    answer = parse_answer(request, reply.text, reply.finish_reason, reply.output_tokens)
    return replace(reply, answer=answer)
