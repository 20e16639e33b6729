"""Everything this package raises.

FaultattrError
├── UsageError              a command or a setting is wrong; nothing was run
│   ├── ConfigError         a config file or key=value
│   ├── PromptError         a prompt template is missing or does not render
│   └── RunFolderError      a run folder is damaged, in use, or made with another config
├── FormatError             a file cannot be read as trajectories; the other files go on
├── EngineError             the engine cannot serve; the run ends with its state kept
│   ├── EngineUnavailable   it cannot start: no weights, no template, no endpoint
│   ├── ConstraintError     it starts but does not decode under the grammar
│   └── EngineDied          it stopped in the middle of a run
└── TrajectoryError         costs one trajectory, which becomes an `unscored` verdict
    ├── LogTooLong          the prompt does not fit the context of the model
    └── InvalidReply        a reply is cut, empty, or not what the schema demands
"""

from __future__ import annotations

from typing import ClassVar


class FaultattrError(Exception):
    """A problem told in one line: what happened, where, and what to do.

    Args:
        what: What is wrong, without a full stop.
        where: The file, key, step or address it concerns.
        fix: What the reader can do about it.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        line = f"{where}: {what}" if where else what
        super().__init__(" ".join(f"{line}. {fix}".split()) if fix else line)


class UsageError(FaultattrError):
    """A command or a setting is wrong; nothing was run."""


class ConfigError(UsageError):
    """A config file cannot be read, or holds a key or value that is not known."""


class PromptError(UsageError):
    """A prompt template is missing or does not render."""


class RunFolderError(UsageError):
    """A run folder is damaged, in use, or was made with another config."""


class FormatError(FaultattrError):
    """A file cannot be read as trajectories."""


class EngineError(FaultattrError):
    """The engine cannot serve."""


class EngineUnavailable(EngineError):
    """The engine cannot start."""


class ConstraintError(EngineError):
    """The engine does not decode under the grammar it was given."""


class EngineDied(EngineError):
    """The engine stopped in the middle of a run."""


class TrajectoryError(FaultattrError):
    """One trajectory cannot be attributed; the others go on."""


class LogTooLong(TrajectoryError):
    """A prompt does not fit the context of the model."""


class InvalidReply(TrajectoryError):
    """A reply is cut, empty, or not what the schema demands; never a verdict.

    Args:
        what: The cause, e.g. "the answer was cut at 512 tokens".
        text: What the model wrote, for the record.
        finish_reason: Why the engine stopped.
    """

    def __init__(
        self, what: str, *, where: str = "", fix: str = "", text: str = "", finish_reason: str = ""
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.text = text
        self.finish_reason = finish_reason


def first_line(error: BaseException) -> str:
    """The first line of another library's error, or its class where it says nothing."""
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
