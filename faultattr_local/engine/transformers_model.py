"""A model of transformers in memory, with the grammars of outlines over its vocabulary."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultattr_local.engine.offline import go_offline
from faultattr_local.engine.tokenizer import ChatTokenizer
from faultattr_local.errors import EngineUnavailable, first_line

COMPACT = {"x-guidance": {"whitespace_flexible": False}}
"""Read by llguidance at the root of a schema: no free whitespace."""


@dataclass(frozen=True)
class LoadedModel:
    """The weights and what is needed to decode with them.

    Attributes:
        model: A causal language model of transformers, on its device.
        grammars: outlines' llguidance backend.
        end: The token that ends an answer.
        context_tokens: Most tokens of prompt and answer together.
        details: Versions and device, for the record.
    """

    model: Any
    grammars: Any
    end: int
    context_tokens: int
    details: Mapping[str, Any]

    def grammar(self, schema: Mapping[str, Any]) -> Any:
        """A logits processor that holds one answer to a schema, without free whitespace."""
        return self.grammars.get_json_schema_logits_processor(json.dumps({**schema, **COMPACT}))


def load_model(
    folder: Path, tokenizer: ChatTokenizer, dtype: str, max_model_len: int | None
) -> LoadedModel:
    """Read the weights, onto the accelerator where there is one.

    Raises:
        EngineUnavailable: A library is missing, the model does not load, or its context
            is unknown or shorter than asked for.
    """
    go_offline()
    try:
        import llguidance.torch
        import outlines
        import torch
        import transformers
        from outlines.backends.llguidance import LLGuidanceBackend
        from safetensors import SafetensorError
    except ImportError as error:
        raise EngineUnavailable(
            f"transformers and outlines do not import ({error})",
            fix="Install faultattr-local[transformers], or use another engine.",
        ) from error
    transformers.logging.disable_progress_bar()
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True
        )
        context = _context(model, folder, max_model_len)
        model = model.to(device).eval()
        grammars = LLGuidanceBackend(outlines.from_transformers(model, tokenizer.pretrained))
    except (ImportError, OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise EngineUnavailable(
            f"the model does not load ({first_line(error)})", where=str(folder)
        ) from error
    end = tokenizer.pretrained.eos_token_id
    # The model's own sampling settings would otherwise apply where none are given.
    model.generation_config = transformers.GenerationConfig(
        do_sample=False, eos_token_id=end, pad_token_id=end
    )
    versions = {one.__name__: str(one.__version__) for one in (torch, transformers, llguidance)}
    details = {"device": str(device), "grammar": "llguidance through outlines", **versions}
    return LoadedModel(model, grammars, end, context, details)


def _context(model: Any, folder: Path, asked: int | None) -> int:
    own: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    context = asked or own
    if context is None:
        raise EngineUnavailable(
            "the model does not say how long its context is",
            where=str(folder),
            fix="Set engine.max_model_len.",
        )
    if own is not None and context > own:
        raise EngineUnavailable(
            f"engine.max_model_len is {context}, the model's own limit {own}",
            where=str(folder),
            fix=f"Set it to {own} or less.",
        )
    return context


def release_memory() -> None:
    """Give back what a model held that nobody refers to any more."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
