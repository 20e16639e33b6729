"""Nothing leaves this machine: said to every library before it is imported."""

from __future__ import annotations

import os


def go_offline() -> None:
    """Forbid hub look-ups and usage statistics in this process and its children."""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1",
    )
