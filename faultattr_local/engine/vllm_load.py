"""Builds vLLM's engine: offline, quiet, and under the grammar settings that answers need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultattr_local.engine.offline import go_offline
from faultattr_local.errors import EngineUnavailable, first_line

if TYPE_CHECKING:
    from faultattr_local.engine.vllm import VllmConfig

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    # vLLM's own processes read torch's deprecated names while they start.
    "PYTHONWARNINGS": "ignore::FutureWarning",
}
"""Used unless the user has set them: errors, and nothing on stdout. At vLLM's own level every
start prints some thirty lines of warnings that say nothing about the run."""

GIB = 2**30


def load(config: VllmConfig, folder: Path) -> Any:
    """An `AsyncLLM` on the running loop; blocks until the weights are loaded.

    Raises:
        EngineUnavailable: vLLM is missing, or the model does not load.
    """
    go_offline()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        from vllm import AsyncEngineArgs
        from vllm.exceptions import VLLMError
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise EngineUnavailable(
            f"vLLM does not import ({error})",
            fix="Install faultattr-local[gpu] or faultattr-local[cpu], or use another engine.",
        ) from error
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**_arguments(config, folder)))
    except (VLLMError, RuntimeError, ValueError, OSError) as error:
        raise EngineUnavailable(
            f"vLLM does not start ({first_line(error)})",
            where=str(folder),
            fix="The cause is in vLLM's own messages above; VLLM_LOGGING_LEVEL=INFO shows more. A "
            'script of your own must start the engine under `if __name__ == "__main__":`, since '
            "it is imported once more.",
        ) from error


def _arguments(config: VllmConfig, folder: Path) -> dict[str, Any]:
    memory = None if config.kv_cache_gib is None else int(config.kv_cache_gib * GIB)
    return {
        "model": str(folder),
        "served_model_name": folder.name,
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "kv_cache_memory_bytes": memory,
        "kv_cache_dtype": config.kv_cache_dtype,
        "tensor_parallel_size": config.tensor_parallel_size,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_num_seqs": config.max_num_seqs,
        "enforce_eager": config.enforce_eager,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "structured_outputs_config": {
            "backend": config.grammar_backend,
            "disable_any_whitespace": True,
        },
    }


def kv_tokens(cache: Any) -> int | None:
    """KV capacity of a started engine in tokens, from its `cache_config`."""
    # Models with several kinds of attention fit other counts than blocks times block size.
    told = getattr(cache, "kv_cache_size_tokens", None)
    if told:
        return int(told)
    return cache.num_gpu_blocks * cache.block_size if cache.num_gpu_blocks else None
