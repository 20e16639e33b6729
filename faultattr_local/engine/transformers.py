"""transformers and outlines in this process, for a machine without vLLM."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from faultattr_local.engine.base import ModelCard, Reply, Request, parse_answer
from faultattr_local.engine.canary import prove_constraint
from faultattr_local.engine.length import refuse_if_too_long
from faultattr_local.engine.model_folder import digest_of, model_folder
from faultattr_local.engine.tokenizer import ChatTokenizer, load_tokenizer
from faultattr_local.engine.transformers_batch import Row, decode_batch
from faultattr_local.engine.transformers_model import (
    LoadedModel,
    load_model,
    release_memory,
)
from faultattr_local.errors import EngineDied, first_line
from faultattr_local.settings import Section

LINGER_S = 0.01
"""Seconds that a batch waits for calls made at the same time; a batch takes many more."""


class TransformersConfig(Section):
    """transformers and outlines in this process."""

    kind: Literal["transformers"] = "transformers"
    """Which engine."""
    model: str
    """Folder of the weights, in the Hugging Face layout, with tokenizer and chat template."""
    dtype: str = "auto"
    """Number format of weights and activations, e.g. bfloat16; auto takes the model's own."""
    max_model_len: int | None = Field(default=None, ge=256)
    """Tokens of prompt and answer together; the model's own limit when not set."""
    max_batch: int = Field(default=8, ge=1)
    """Answers generated at the same time; fewer need less memory."""

    def make(self) -> TransformersEngine:
        """The engine, not started."""
        return TransformersEngine(self)


@dataclass
class _Call:
    request: Request
    prompt: list[int]
    row: asyncio.Future[Row]


class TransformersEngine:
    """Serves one model with `generate`, one batch of what waits after the other.

    There is no prefix cache: every call computes its whole prompt. Start, generate and stop
    belong on one event loop; `start` works again after `stop`.
    """

    def __init__(self, config: TransformersConfig) -> None:
        self.config = config
        self._tokenizer: ChatTokenizer | None = None
        self._loaded: LoadedModel | None = None
        self._waiting: deque[_Call] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._worker: asyncio.Task[None] | None = None

    async def start(self) -> ModelCard:
        """Load the weights and prove the constraint.

        Raises:
            EngineUnavailable: A library is missing, or the model does not load.
            ConstraintError: It does not decode under a grammar.
        """
        folder = model_folder(self.config.model)
        await self.stop()
        self._tokenizer = load_tokenizer(folder)
        loaded = await asyncio.to_thread(
            load_model, folder, self._tokenizer, self.config.dtype, self.config.max_model_len
        )
        self._loaded = loaded
        self._wake, self._stopping = asyncio.Event(), False
        self._worker = asyncio.create_task(self._serve(loaded))
        try:
            await prove_constraint(
                self.generate,
                where=str(folder),
                fix="Use another version of outlines and llguidance.",
                compact="Use another version of llguidance.",
            )
        except BaseException:
            await self.stop()
            raise
        return ModelCard(
            name=folder.name,
            digest=digest_of(folder),
            context_tokens=loaded.context_tokens,
            details={
                "engine": "transformers",
                **loaded.details,
                "seed": "used above temperature 0",
                "prefix_cache": "none",
            },
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special tokens."""
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(model_folder(self.config.model))
        return self._tokenizer.count(text)

    async def generate(self, request: Request) -> Reply:
        """Answer one request; a cancelled call ends its row of the batch.

        Raises:
            LogTooLong: Prompt and answer do not fit the context.
            InvalidReply: Cut, empty or invalid.
            EngineDied: The engine was stopped, or failed, e.g. for want of memory.
        """
        tokenizer = self._tokenizer
        if self._loaded is None or tokenizer is None or not self._is_serving():
            raise EngineDied("the engine is not running", where=self.config.model)
        started = time.time()
        prompt = tokenizer.chat(request.messages)
        refuse_if_too_long(request, len(prompt), self._loaded.context_tokens)
        # No local name for the model: an error of this call, kept, would keep it in memory.
        call = _Call(request, prompt, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        self._wake.set()
        row = await call.row
        text = tokenizer.pretrained.decode(
            row.written, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return Reply(
            answer=parse_answer(request, text, row.finish_reason, len(row.written)),
            text=text,
            finish_reason=row.finish_reason,
            prompt_tokens=len(prompt),
            output_tokens=len(row.written),
            started=started,
            seconds=time.time() - started,
        )

    def _is_serving(self) -> bool:
        return self._worker is not None and not self._worker.done()

    async def _serve(self, loaded: LoadedModel) -> None:
        """Answer what waits until `stop`; at the end nobody is left waiting."""
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(LINGER_S)
                if self._stopping:
                    return
                size = min(self.config.max_batch, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(size)]
                if not self._waiting:
                    self._wake.clear()
                if wanted := [call for call in batch if not call.row.done()]:
                    await self._answer(loaded, wanted)
        finally:
            while self._waiting:
                self._fail(self._waiting.popleft(), "the engine was stopped")

    async def _answer(self, loaded: LoadedModel, batch: list[_Call]) -> None:
        rows = [self._row(loaded, call) for call in batch]
        why, fix = "the engine was stopped", ""
        try:
            await asyncio.to_thread(decode_batch, loaded.model, rows, loaded.end)
            for call, row in zip(batch, rows, strict=True):
                if row.finish_reason != "abort" and not call.row.done():
                    call.row.set_result(row)
        except RuntimeError as error:
            # torch has no other type for a want of memory on a CPU.
            why = f"the model failed on a batch of {len(batch)} ({first_line(error)})"
            fix = "Lower engine.max_batch if memory ran out."
        finally:
            for call in batch:
                self._fail(call, why, fix)

    def _row(self, loaded: LoadedModel, call: _Call) -> Row:
        request = call.request
        warm = request.sampling.temperature > 0
        return Row(
            prompt=call.prompt,
            grammar=loaded.grammar(request.schema),
            max_tokens=request.max_tokens,
            temperature=request.sampling.temperature,
            seed=request.sampling.seed if warm else None,
            wanted=lambda: not (self._stopping or call.row.done()),
        )

    def _fail(self, call: _Call, why: str, fix: str = "") -> None:
        if not call.row.done():
            call.row.set_exception(EngineDied(why, where=self.config.model, fix=fix))

    async def stop(self) -> None:
        """End what is being generated and free the model; safe to call twice."""
        worker, self._worker, self._loaded = self._worker, None, None
        if worker is None:
            return
        self._stopping = True
        self._wake.set()
        try:
            await worker
        finally:
            del worker
            await asyncio.to_thread(release_memory)
