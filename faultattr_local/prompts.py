"""Finds and fills prompts/<method>/<role>.md.j2. Wording lives there; none lives in Python."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from faultattr_local.errors import PromptError

_INSTALLED = Path(__file__).parent / "_prompts"
_CHECKOUT = Path(__file__).parent.parent / "prompts"


def shipped_folder() -> Path:
    """The templates that come with the package: in the wheel, or in the checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


class Prompts:
    """The templates of a run, compiled once.

    Args:
        folder: Looked in before the shipped templates; it may hold only some of them.

    Raises:
        PromptError: The folder is missing, or holds no template that a method uses.
    """

    def __init__(self, folder: Path | None = None) -> None:
        shipped = shipped_folder()
        if folder is not None:
            _check_override(folder, shipped)
        self.folders = [shipped] if folder is None else [folder, shipped]
        self._environment = Environment(
            loader=FileSystemLoader(self.folders),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            autoescape=False,
        )

    def render(self, name: str, /, **values: Any) -> str:
        """Fill the template `name`, e.g. "raffles/judge".

        Raises:
            PromptError: It is missing, is not a template, or needs a value that it is
                not given.
        """
        try:
            return self._environment.get_template(f"{name}.md.j2").render(values)
        except TemplateError as error:
            raise PromptError(
                f"does not render: {error.message or type(error).__name__}",
                where=f"prompt {name}.md.j2",
                fix=f"Templates are looked for in {', '.join(map(str, self.folders))}.",
            ) from error

    def digests(self) -> dict[str, str]:
        """SHA-256 of the template that is used under each name."""
        loader = self._environment.loader
        assert loader is not None
        return {
            name.removesuffix(".md.j2"): hashlib.sha256(
                loader.get_source(self._environment, name)[0].encode()
            ).hexdigest()
            for name in sorted(loader.list_templates())
            if name.endswith(".md.j2")
        }


def _check_override(folder: Path, shipped: Path) -> None:
    if not folder.is_dir():
        raise PromptError("is not a folder", where=str(folder), fix="Give a folder of templates.")
    known = {path.relative_to(shipped).as_posix() for path in shipped.rglob("*.md.j2")}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md.j2")}
    if unknown := sorted(found - known):
        raise PromptError(
            f"no method uses {', '.join(unknown)}",
            where=str(folder),
            fix=f"Known names: {', '.join(sorted(known))}.",
        )
    if not found:
        raise PromptError("holds no *.md.j2 template", where=str(folder), fix="Add one or drop it.")
