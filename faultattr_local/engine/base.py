"""What a method asks for and what an engine gives back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from faultattr_local.engine.bounds import answer_schema, token_bound
from faultattr_local.errors import InvalidReply

RETRY_TEMPERATURE = 0.4
"""Temperature of the one retry after an invalid reply; a greedy retry would repeat it."""


class Answer(BaseModel):
    """Base of every answer model: closed, and validated as strictly as it is decoded."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Sampling:
    """How to decode. At temperature 0 no seed is sent to an engine.

    Attributes:
        temperature: 0 is greedy.
        seed: Recorded always; sent only with a temperature above 0.
    """

    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class Request:
    """One call. The shared messages come first, so that their prefix is computed once.

    Attributes:
        trajectory: Id of the trajectory; all its calls go to one replica.
        role: Who is asked: "judge", "evaluator:primacy", "investigator", ...
        shared: The messages that other calls of the trajectory begin with too.
        ask: What this role must do; joined to the last shared message when that is the
            user's, since many chat templates refuse two user messages in a row.
        answer: The model of the answer; its JSON schema is the grammar.
        sampling: How to decode.
        attempt: 0, or the number of the retry after an invalid reply.
    """

    trajectory: str
    role: str
    shared: tuple[Message, ...]
    ask: str
    answer: type[Answer]
    sampling: Sampling = Sampling()
    attempt: int = 0

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as sent; the last message is the user's."""
        if self.shared and self.shared[-1].role == "user":
            last = self.shared[-1]
            return (*self.shared[:-1], replace(last, content=f"{last.content}\n\n{self.ask}"))
        return (*self.shared, Message("user", self.ask))

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the answer."""
        return answer_schema(self.answer)

    @property
    def max_tokens(self) -> int:
        """Tokens within which every legal answer ends."""
        return token_bound(self.answer)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that decides the reply, the model aside."""
        seen = hashlib.sha256()
        for message in self.messages:
            seen.update(f"{message.role}\0{message.content}\0".encode())
        rest = [self.schema, self.sampling.temperature, self.sampling.seed, self.attempt]
        seen.update(json.dumps(rest, sort_keys=True).encode())
        return seen.hexdigest()

    def again(self, temperature: float) -> Request:
        """The same request once more, at a temperature, after an invalid reply."""
        attempt = self.attempt + 1
        seed = None if self.sampling.seed is None else self.sampling.seed + attempt
        sampling = Sampling(max(temperature, self.sampling.temperature), seed)
        return replace(self, sampling=sampling, attempt=attempt)


@dataclass(frozen=True)
class Reply:
    """What came back, already validated.

    Attributes:
        answer: An instance of the request's answer model.
        text: The model's own JSON.
        finish_reason: Always "stop"; anything else is an InvalidReply.
        prompt_tokens: Tokens of the prompt.
        cached_tokens: Those of them found in the prefix cache.
        output_tokens: Tokens generated.
        started: Unix time at which the call was sent.
        seconds: Wall time of the call.
        replayed: It came from the record and cost nothing now.
    """

    answer: Answer
    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    started: float = 0.0
    seconds: float = 0.0
    replayed: bool = False


@dataclass(frozen=True)
class ModelCard:
    """What an engine serves.

    Attributes:
        name: As the config or the server names it.
        digest: Tells one set of weights from another as well as the engine can.
        context_tokens: Most tokens of prompt and answer together.
        kv_tokens: Tokens that fit its KV cache; None when it cannot say.
    """

    name: str
    digest: str
    context_tokens: int
    kv_tokens: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Where replies come from. Every engine decodes under the schema or refuses to start."""

    async def start(self) -> ModelCard:
        """Load or connect, prove the constraint with a canary, and say what is served.

        Raises:
            EngineUnavailable: It cannot start.
            ConstraintError: It does not decode under a grammar.
        """
        ...

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            LogTooLong: Prompt and answer do not fit the context.
            InvalidReply: Cut, empty or invalid.
            EngineDied: The engine stopped.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text under the served model's tokenizer, without special tokens."""
        ...

    async def stop(self) -> None:
        """Give back every process and byte; safe to call twice."""
        ...


def parse_answer(request: Request, text: str, finish_reason: str, output_tokens: int = 0) -> Answer:
    """Turn what the model wrote into an answer.

    Raises:
        InvalidReply: It did not stop by itself, is empty, or breaks the schema.
    """
    where = f"{request.trajectory}, {request.role}"
    if finish_reason != "stop":
        cut = finish_reason == "length"
        raise InvalidReply(
            f"the answer was cut at {output_tokens} tokens"
            if cut
            else f"the engine ended the answer with {finish_reason!r}",
            where=where,
            fix="Lower the `answer` limits or raise the served context." if cut else "",
            text=text,
            finish_reason=finish_reason,
        )
    if not text.strip():
        raise InvalidReply("the answer is empty", where=where, finish_reason=finish_reason)
    try:
        return request.answer.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "answer"
        raise InvalidReply(
            f"the answer breaks its schema at {place}: {first['msg']}",
            where=where,
            text=text,
            finish_reason=finish_reason,
        ) from error
