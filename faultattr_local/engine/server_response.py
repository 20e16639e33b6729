"""What a vLLM server answers, read: its content, its errors, its metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from faultattr_local.errors import EngineDied, LogTooLong, TrajectoryError

if TYPE_CHECKING:
    import httpx

CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
TOO_LONG = ("maximum context length", "max_model_len", "longer than the maximum model length")


def judged(response: httpx.Response, url: str, where: str) -> dict[str, Any]:
    """The JSON object of an answer that is none of an error.

    Args:
        response: Read to its end.
        url: The server, for the error.
        where: Trajectory and role, for the error.

    Raises:
        LogTooLong: The server refuses the length.
        TrajectoryError: It refuses the request otherwise, or answers no JSON object.
        EngineDied: It failed (HTTP 5xx).
    """
    message = _message(response)
    if response.status_code >= 500:
        raise EngineDied(
            f"the server failed with HTTP {response.status_code}: {message}", where=url
        )
    if response.status_code == 400 and any(words in message for words in TOO_LONG):
        raise LogTooLong(
            f"the server refuses the length: {message}",
            where=where,
            fix="Use --method safari or --method auto, or serve a longer context.",
        )
    if not response.is_success:
        raise TrajectoryError(
            f"{url} refuses the request with HTTP {response.status_code}: {message}", where=where
        )
    content = json_object(response)
    if content is None:
        raise TrajectoryError(f"{url} answers no JSON object: {message}", where=where)
    return content


def json_object(response: httpx.Response) -> dict[str, Any] | None:
    """The answer's JSON object; None when it is anything else."""
    try:
        content = response.json()
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def kv_tokens(metrics: str) -> int | None:
    """KV capacity told by a server's metrics, over all its engines; None when it is not."""
    total = 0
    for found in CACHE_INFO.finditer(metrics):
        labels = dict(LABEL.findall(found[1]))
        told = labels.get("kv_cache_size_tokens", "None")
        blocks, size = labels.get("num_gpu_blocks", "None"), labels.get("block_size", "None")
        if told.isdigit():
            total += int(told)
        elif blocks.isdigit() and size.isdigit():
            total += int(blocks) * int(size)
        else:
            return None
    return total or None


def _message(response: httpx.Response) -> str:
    content = json_object(response)
    if content is None:
        told: Any = response.text
    else:
        error = content.get("error", content)
        told = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(told).split())[:300]
