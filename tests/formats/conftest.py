from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.formats import read_file
from faultattr_local.formats.read import ReadResult


@pytest.fixture
def examples() -> Path:
    return Path(__file__).parents[2] / "examples"


@pytest.fixture
def read_bytes(tmp_path: Path) -> Callable[..., ReadResult]:
    """Reads bytes as a file of that name would be read."""

    def read(content: bytes, name: str = "run.json", **options: Any) -> ReadResult:
        path = tmp_path / name
        path.write_bytes(content)
        return read_file(path, **options)

    return read
