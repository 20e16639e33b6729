from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from faultattr_local.engine.model_folder import digest_of, model_folder
from faultattr_local.errors import EngineUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that is looked for, and weights of 200 kB."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    (tmp_path / "model.safetensors").write_bytes(bytes(range(250)) * 800)
    return tmp_path


def test_a_whole_folder_passes(folder: Path) -> None:
    assert model_folder(folder) == folder


def test_home_is_expanded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert model_folder(f"~/{folder.name}") == folder


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("config.json", "holds no config.json"),
        ("model.safetensors", "holds no weights"),
        ("tokenizer.json", "holds no tokenizer"),
        ("tokenizer_config.json", "no chat template"),
    ],
)
def test_what_is_missing_is_named(folder: Path, gone: str, said: str) -> None:
    (folder / gone).unlink()
    with pytest.raises(EngineUnavailable, match=said) as error:
        model_folder(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="no such folder.*never downloaded"):
        model_folder(tmp_path / "gone")


def test_an_index_must_not_name_absent_shards(folder: Path) -> None:
    weights = {"a": "model.safetensors", "b": "model-2.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weights}))
    with pytest.raises(EngineUnavailable, match=r"1 of 2 weight files .* first model-2"):
        model_folder(folder)


def test_a_template_may_be_a_file_of_its_own(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert model_folder(folder) == folder


def test_broken_json_is_told(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(EngineUnavailable, match=r"tokenizer_config\.json: is not JSON"):
        model_folder(folder)


def test_the_digest_sees_descriptions_and_both_ends_of_the_weights(folder: Path) -> None:
    before = digest_of(folder)
    assert digest_of(folder) == before
    copy = folder / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("copy"))
    assert digest_of(copy) == before

    seen = {before}
    for name, change in [
        ("config.json", b'{"model_type": "qwen"}'),
        ("tokenizer_config.json", b'{"chat_template": "other"}'),
        ("model.safetensors", b"x" + bytes(range(250))[1:] + bytes(range(250)) * 799),
        ("model.safetensors", bytes(range(250)) * 799 + bytes(range(249)) + b"x"),
        ("model.safetensors", bytes(range(250)) * 801),
    ]:
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(change)
        seen.add(digest_of(folder))
        (folder / name).write_bytes(kept)
    assert len(seen) == 6
