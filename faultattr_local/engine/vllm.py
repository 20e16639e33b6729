"""vLLM in this process: many calls at once, one prefill for each shared prefix."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from faultattr_local.engine.base import ModelCard, Reply, Request, parse_answer
from faultattr_local.engine.canary import prove_constraint
from faultattr_local.engine.length import refuse_if_too_long
from faultattr_local.engine.model_folder import digest_of, model_folder
from faultattr_local.engine.sentinel import Sentinel
from faultattr_local.engine.tokenizer import ChatTokenizer, load_tokenizer
from faultattr_local.engine.vllm_load import kv_tokens, load
from faultattr_local.errors import (
    EngineDied,
    InvalidReply,
    TrajectoryError,
    first_line,
)
from faultattr_local.settings import Section

SHUTDOWN_S = 30.0
"""Seconds in which the engine process may end by itself before it is killed."""


class VllmConfig(Section):
    """vLLM in this process."""

    kind: Literal["vllm"] = "vllm"
    """Which engine."""
    model: str
    """Folder of the weights, in the Hugging Face layout, with tokenizer and chat template."""
    dtype: str = "auto"
    """Number format of weights and activations, e.g. bfloat16; auto takes the model's own."""
    max_model_len: int | None = Field(default=None, ge=256)
    """Tokens of prompt and answer together; the model's own limit when not set."""
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """Share of the GPU's memory for weights, activations and KV cache; unused on a CPU."""
    kv_cache_gib: float | None = Field(default=None, gt=0)
    """GiB of KV cache; when not set, what the share of memory leaves (a part on a CPU)."""
    kv_cache_dtype: str = "auto"
    """Number format of the KV cache; fp8 holds twice the tokens of bfloat16."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs that share one copy of the model."""
    max_num_batched_tokens: int = Field(default=2048, ge=128)
    """Tokens computed in one step; more speeds up prefill and needs more memory."""
    max_num_seqs: int = Field(default=128, ge=1)
    """Answers decoded at the same time."""
    enforce_eager: bool = False
    """Start without compiling: faster to start, slower to run on a GPU."""
    grammar_backend: Literal["guidance", "xgrammar"] = "guidance"
    """What holds answers to their schema; guidance compiles new schemas in a millisecond."""

    def make(self) -> VllmEngine:
        """The engine, not started."""
        return VllmEngine(self)


class VllmEngine:
    """Serves one model with `AsyncLLM`, which batches whatever waits.

    Start, generate and stop belong on one event loop. After `stop`, and after the engine
    died, `start` brings up a new one in the same process.

    On a CPU no seed is sent: vLLM's CPU sampler stops the whole engine on a seeded request
    over a long prompt. The card's details say so.
    """

    def __init__(self, config: VllmConfig) -> None:
        self.config = config
        self._llm: Any = None
        self._sentinel: Sentinel | None = None
        self._tokenizer: ChatTokenizer | None = None
        self._context = 0
        self._seeds = True
        self._ids = itertools.count()
        self.card: ModelCard | None = None

    @property
    def unfinished(self) -> int:
        """Calls that the engine is working on."""
        return 0 if self._llm is None else int(self._llm.get_num_unfinished_requests())

    async def start(self) -> ModelCard:
        """Load the weights and prove the constraint.

        Raises:
            EngineUnavailable: vLLM is missing, or the model does not load.
            ConstraintError: It does not decode under a grammar.
        """
        folder = model_folder(self.config.model)
        await self.stop()
        self._tokenizer = load_tokenizer(folder)
        self._sentinel = Sentinel()
        try:
            self._llm = load(self.config, folder)
            self.card = await self._prove_and_describe(folder)
        except BaseException:
            await self.stop()
            raise
        return self.card

    async def _prove_and_describe(self, folder: Path) -> ModelCard:
        from vllm import __version__
        from vllm.platforms import current_platform

        self._context = self._llm.model_config.max_model_len
        self._seeds = not current_platform.is_cpu()
        await prove_constraint(
            self.generate,
            where=str(folder),
            fix="Use another `grammar_backend`, or another version of vLLM.",
            compact="Use grammar_backend: guidance.",
        )
        return ModelCard(
            name=folder.name,
            digest=digest_of(folder),
            context_tokens=self._context,
            kv_tokens=kv_tokens(self._llm.vllm_config.cache_config),
            details={
                "engine": "vllm",
                "vllm": __version__,
                "device": current_platform.device_type,
                "grammar": self.config.grammar_backend,
                "seed": "sent above temperature 0" if self._seeds else "not sent on a CPU",
            },
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special tokens."""
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(model_folder(self.config.model))
        return self._tokenizer.count(text)

    async def generate(self, request: Request) -> Reply:
        """Answer one request; a cancelled call is aborted in the engine too.

        Raises:
            LogTooLong: Prompt and answer do not fit the context.
            InvalidReply: Cut, empty or invalid.
            TrajectoryError: vLLM refuses the request.
            EngineDied: The engine stopped.
        """
        if self._llm is None or self._tokenizer is None:
            raise EngineDied("the engine is not started", where=self.config.model)
        started = time.time()
        prompt = await asyncio.to_thread(self._tokenizer.chat, request.messages)
        refuse_if_too_long(request, len(prompt), self._context)
        output = await self._finish(self._llm, request, prompt)
        completion = output.outputs[0]
        written = len(completion.token_ids)
        reason = str(completion.finish_reason)
        return Reply(
            answer=parse_answer(request, completion.text, reason, written),
            text=completion.text,
            finish_reason=reason,
            prompt_tokens=len(prompt),
            cached_tokens=output.num_cached_tokens or 0,
            output_tokens=written,
            started=started,
            seconds=time.time() - started,
        )

    async def _finish(self, llm: Any, request: Request, prompt: list[int]) -> Any:
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        if llm is None:
            raise EngineDied("the engine was stopped meanwhile", where=self.config.model)
        where = f"{request.trajectory}, {request.role}"
        name = f"{request.trajectory}/{next(self._ids)}"
        tokens = {"type": "token", "prompt_token_ids": prompt}
        try:
            stream = llm.generate(tokens, self._sampling(request), name)
            outputs = [output async for output in stream]
        except EngineDeadError as error:
            raise EngineDied("vLLM's engine process ended", where=self.config.model) from error
        except VLLMClientError as error:
            raise TrajectoryError(
                f"vLLM refuses the request ({first_line(error)})", where=where
            ) from error
        except EngineGenerateError as error:
            cause = error.__cause__ or error
            raise InvalidReply(
                f"vLLM failed on the request ({first_line(cause)})",
                where=where,
                finish_reason="error",
            ) from error
        if not outputs:
            raise InvalidReply("vLLM gave no output", where=where, finish_reason="error")
        return outputs[-1]

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        warm = request.sampling.temperature > 0
        return SamplingParams(
            temperature=request.sampling.temperature,
            seed=request.sampling.seed if warm and self._seeds else None,
            max_tokens=request.max_tokens,
            structured_outputs=StructuredOutputsParams(json=request.schema),
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    async def stop(self) -> None:
        """End the engine's processes; safe to call twice."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.shutdown(timeout=SHUTDOWN_S)
            # The cancelled output handler ends within this turn of the loop.
            await asyncio.sleep(0)
        sentinel, self._sentinel = self._sentinel, None
        if sentinel is not None:
            sentinel.dismiss()
