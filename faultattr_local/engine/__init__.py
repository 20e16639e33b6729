"""Where replies come from: the engines, each in its own module, and how one is chosen."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from faultattr_local.engine.base import Engine
from faultattr_local.engine.server import ServerConfig
from faultattr_local.engine.transformers import TransformersConfig
from faultattr_local.engine.vllm import VllmConfig

EngineConfig = Annotated[
    VllmConfig | ServerConfig | TransformersConfig, Field(discriminator="kind")
]
"""The `engine` section of a config; `kind` says which."""

ENGINES: dict[str, tuple[str, str]] = {
    "vllm": (
        "vLLM in this process, from a folder of weights: the fastest, and the default",
        "vllm (AsyncLLM)",
    ),
    "server": (
        "one or more vLLM servers that run already, by their addresses",
        "vllm serve (chat completions, tokenize, metrics)",
    ),
    "transformers": (
        "for a machine without vLLM; no prefix cache",
        "transformers and outlines (llguidance)",
    ),
}
"""What each engine is, in one line, and the software that it drives."""


def make_engine(config: EngineConfig) -> Engine:
    """The engine that a section describes, not started yet; nothing heavy is imported."""
    return config.make()
