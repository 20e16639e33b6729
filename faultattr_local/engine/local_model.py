"""A model loaded with transformers that writes a batch, each row under its own grammar."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faultattr_local.engine.base import Request
from faultattr_local.engine.transformers import Written

COMPACT = {"x-guidance": {"whitespace_flexible": False}}
"""Read by llguidance at the root of a schema: no free whitespace."""


class LocalModel:
    """The weights, on the GPU where there is one.

    Args:
        folder: Of the model.
        tokenizer: As transformers loads it.
        dtype: Number format, or "auto".

    Attributes:
        context_tokens: Most tokens of prompt and answer that the model was made for.
        details: Versions and device, for the record.

    Raises:
        ImportError: torch, transformers or outlines is missing.
        OSError, ValueError, RuntimeError: The model does not load.
    """

    def __init__(self, folder: Path, tokenizer: Any, dtype: str) -> None:
        import outlines
        import torch
        import transformers
        from outlines.backends.llguidance import LLGuidanceBackend

        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True
        )
        self._model = model.to(device).eval()
        self._tokenizer = tokenizer
        self._grammars = LLGuidanceBackend(outlines.from_transformers(self._model, tokenizer))
        self._closing = threading.Event()
        self._writing = threading.Lock()
        ends = self._model.generation_config.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        self._ends = {end for end in [*listed, tokenizer.eos_token_id] if end is not None}
        self._pad = tokenizer.pad_token_id
        self.context_tokens = int(model.config.get_text_config().max_position_embeddings)
        self.details = {
            "device": device,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "grammar": "llguidance through outlines",
        }

    def write(self, requests: Sequence[Request], prompts: Sequence[list[int]]) -> list[Written]:
        """Answer requests of one sampling, in their order; blocks.

        Raises:
            RuntimeError: Out of memory, or the library failed.
        """
        with self._writing:
            return self._write(requests, prompts)

    def _write(self, requests: Sequence[Request], prompts: Sequence[list[int]]) -> list[Written]:
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        width = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (width - len(one)) + one for one in prompts])
        mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts])
        grammars = [self._grammar(request) for request in requests]
        with torch.inference_mode():
            rows = self._model.generate(
                input_ids=ids.to(self._model.device),
                attention_mask=mask.to(self._model.device),
                generation_config=self._sampling(requests),
                logits_processor=LogitsProcessorList([self._each_row(grammars, width)]),
                stopping_criteria=StoppingCriteriaList([self._stop_when_closing]),
            )
        return [
            self._written(row[width:].tolist(), request.max_tokens)
            for row, request in zip(rows, requests, strict=True)
        ]

    def _grammar(self, request: Request) -> Any:
        return self._grammars.get_json_schema_logits_processor(json.dumps(request.schema | COMPACT))

    def _each_row(self, grammars: Sequence[Any], width: int) -> Any:
        """Apply each row's grammar to its row, until the row has ended."""
        ended = [False] * len(grammars)

        def apply(ids: Any, logits: Any) -> Any:
            for row, grammar in enumerate(grammars):
                begun = ids.shape[1] > width
                ended[row] = ended[row] or (begun and int(ids[row, -1]) in self._ends)
                if not ended[row]:
                    logits[row : row + 1] = grammar(ids[row : row + 1], logits[row : row + 1])
            return logits

        return apply

    def _sampling(self, requests: Sequence[Request]) -> Any:
        import torch
        from transformers import GenerationConfig

        sampling = requests[0].sampling
        warm = sampling.temperature > 0
        if warm and sampling.seed is not None:
            torch.manual_seed(sampling.seed)
        chosen = {"temperature": sampling.temperature, "top_k": 0, "top_p": 1.0} if warm else {}
        return GenerationConfig(
            do_sample=warm,
            max_new_tokens=max(request.max_tokens for request in requests),
            eos_token_id=sorted(self._ends),
            pad_token_id=self._pad,
            **chosen,
        )

    def _stop_when_closing(self, ids: Any, scores: Any, **kwargs: Any) -> Any:
        import torch

        return torch.full((ids.shape[0],), self._closing.is_set(), device=ids.device)

    def _written(self, ids: list[int], most: int) -> Written:
        end = next((place for place, token in enumerate(ids) if token in self._ends), len(ids))
        ended = end < len(ids) and end <= most
        text = self._tokenizer.decode(
            ids[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return Written(text, "stop" if ended else "length", min(end + 1, len(ids)))

    def close(self) -> None:
        """End what is being written, and wait for that."""
        self._closing.set()
        with self._writing:
            pass
