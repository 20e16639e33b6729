"""A run's config: read from YAML files and key=value, closed, with help for a wrong key."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from faultattr_local.engine import EngineConfig
from faultattr_local.engine.base import Sampling
from faultattr_local.errors import ConfigError
from faultattr_local.methods.answers import AnswerLimits
from faultattr_local.methods.registry import MethodSections
from faultattr_local.settings import Section

_INSTALLED = Path(__file__).parent.parent / "_configs"
_CHECKOUT = Path(__file__).parent.parent.parent / "configs"

MethodName = Literal[
    "raffles", "safari", "auto", "one_shot", "step_by_step", "binary_search", "tool_caller"
]


class SamplingConfig(Section):
    """How the model decodes."""

    temperature: float = Field(default=0.0, ge=0, le=2)
    """0 is greedy."""
    seed: int | None = None
    """Recorded with every call; sent only above temperature 0."""

    @property
    def sampling(self) -> Sampling:
        """As requests carry it."""
        return Sampling(self.temperature, self.seed)


class Config(MethodSections):
    """Everything that a run is told."""

    method: MethodName = "raffles"
    """Which method attributes."""
    engine: EngineConfig | None = None
    """Where the replies come from."""
    answer: AnswerLimits = AnswerLimits()
    """Bounds of what the model may write."""
    sampling: SamplingConfig = SamplingConfig()
    """How the model decodes."""
    prompts: Path | None = None
    """A folder of templates that are used before the shipped ones."""
    show_reference_answer: bool = False
    """Show the right answer to the model, where the trace has it; the run says so."""

    @model_validator(mode="after")
    def _citations_to_check(self) -> Config:
        if self.raffles.cite_check and not self.answer.citations:
            raise ValueError("raffles.cite_check needs citations, and answer.citations is 0")
        return self


def configs_folder() -> Path:
    """The configs that come with the package: in the wheel, or in the checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def default_config() -> str:
    """Name of the config for this machine: the small model where no GPU is found."""
    has_gpu = any(Path("/dev").glob("nvidia[0-9]*"))
    return "llama-3.3-70b-fp8.yaml" if has_gpu else "smollm2-cpu.yaml"


def load_config(specs: Sequence[str], overrides: Mapping[str, Any] | None = None) -> Config:
    """Read a config.

    Args:
        specs: In order: YAML files (or names of shipped ones) and `key.subkey=value`; later
            ones win. See `files_of` for what is used when no file is given.
        overrides: Values that win over all, under dotted keys.

    Raises:
        ConfigError: A file is missing or not YAML, or a key or value is not known.
    """
    merged: dict[str, Any] = {}
    files = files_of(specs)
    for file in files:
        merged = _merge(merged, _read(file))
    for spec in specs:
        if _is_assignment(spec):
            key, _, value = spec.partition("=")
            merged = _merge(merged, _nested(key.strip(), _parse(value, spec)))
    for key, value in (overrides or {}).items():
        merged = _merge(merged, _nested(key, value))
    where = ", ".join(files) or "the command line"
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise _explained(error, where) from error


def files_of(specs: Sequence[str]) -> list[str]:
    """The config files of a command.

    Without any it is the shipped default for this machine, unless the engine is named by
    key: that default is made for one model, and its limits are not for another.
    """
    files = [spec for spec in specs if not _is_assignment(spec)]
    names_engine = any(
        spec.partition("=")[0].strip() in ("engine", "engine.kind")
        for spec in specs
        if _is_assignment(spec)
    )
    return files or ([] if names_engine else [default_config()])


def _is_assignment(spec: str) -> bool:
    return "=" in spec and not Path(spec).is_file()


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    if not path.is_file():
        shipped = configs_folder() / (name if name.endswith(".yaml") else f"{name}.yaml")
        if not shipped.is_file():
            known = ", ".join(sorted(file.name for file in configs_folder().glob("*.yaml")))
            raise ConfigError("no such config", where=name, fix=f"Give a file, or one of: {known}.")
        path = shipped
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"cannot be read as YAML: {told}", where=str(path)) from error
    if not isinstance(content, dict):
        raise ConfigError("holds no keys", where=str(path), fix="It must hold `engine:` at least.")
    return content


def _parse(value: str, spec: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError("the value cannot be read", where=spec, fix="Quote it.") from error


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return typing.cast("dict[str, Any]", value)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` into `base`, section by section; an engine of another kind replaces it whole."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = value
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same_kind = value.get("kind", old.get("kind")) == old.get("kind")
            merged[key] = _merge(old, value) if same_kind else value
    return merged


def _explained(error: ValidationError, where: str) -> ConfigError:
    """The first problem in one line, with the nearest known key."""
    first = error.errors(include_url=False)[0]
    location = [str(part) for part in first["loc"]]
    kinds = {"vllm", "server", "transformers"}
    key = ".".join(part for i, part in enumerate(location) if not (i == 1 and part in kinds))
    if first["type"] != "extra_forbidden":
        given = "" if first["type"] == "missing" else f" (given: {first['input']!r:.80})"
        return ConfigError(f"{key}: {first['msg']}{given}", where=where)
    known = _keys(Config, location[:-1])
    near = difflib.get_close_matches(location[-1], known, n=1)
    fix = f"Did you mean {near[0]}?" if near else f"Known keys there: {', '.join(known)}."
    return ConfigError(f"unknown key {key}", where=where, fix=fix)


def _keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys known under a path of keys (and union tags) from a model down."""
    found: list[type[BaseModel]] = [model]
    for part in path:
        below = [
            _models(one.model_fields[part].annotation) for one in found if part in one.model_fields
        ]
        if below:
            found = [one for models in below for one in models]
        else:
            found = [one for one in found if part in _tags(one)]
    return sorted({key for one in found for key in one.model_fields})


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models(part)]


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    kind = model.model_fields.get("kind")
    return typing.get_args(kind.annotation) if kind else ()
