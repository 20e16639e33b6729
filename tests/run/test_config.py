from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultattr_local.engine.server import ServerConfig
from faultattr_local.engine.transformers import TransformersConfig
from faultattr_local.engine.vllm import VllmConfig
from faultattr_local.errors import ConfigError
from faultattr_local.run.config import Config, configs_folder, default_config, load_config


def test_every_shipped_config_loads():
    names = [path.name for path in configs_folder().glob("*.yaml")]
    assert {"smollm2-cpu.yaml", "llama-3.3-70b-fp8.yaml"} <= set(names)
    for name in names:
        config = load_config([name])
        assert isinstance(config.engine, VllmConfig)
        assert config.engine.grammar_backend == "guidance"


@pytest.mark.parametrize("name", ["smollm2-cpu", "llama-3.3-70b-fp8"])
def test_a_shipped_config_is_found_without_its_suffix(name):
    assert load_config([name]) == load_config([f"{name}.yaml"])


def test_later_ones_win_and_keys_are_dotted(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("raffles: {max_iterations: 3}\nanswer: {quote: 50}\n")
    config = load_config(
        ["smollm2-cpu", str(file), "raffles.max_iterations=5", "method=safari"],
        {"method": "raffles", "safari.memory": False},
    )
    assert config.raffles.max_iterations == 5
    assert config.answer.quote == 50
    assert config.answer.rationale == load_config(["smollm2-cpu"]).answer.rationale
    assert config.method == "raffles"
    assert config.safari.memory is False


def test_an_engine_of_another_kind_replaces_the_engine_whole():
    config = load_config(
        ["smollm2-cpu", "engine.kind=server", "engine.urls=[http://127.0.0.1:8000/v1]"]
    )
    assert isinstance(config.engine, ServerConfig)


def test_the_small_models_limits_are_not_for_an_engine_that_is_named_by_key():
    served = load_config(["engine.kind=server", "engine.urls=[http://127.0.0.1:8000/v1]"])
    assert served.answer == Config().answer
    assert served.safari == Config().safari
    assert load_config([]) == load_config([default_config()])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("rafles.max_iterations=3", r"unknown key rafles. Did you mean raffles\?"),
        ("raffles.max_iteration=3", r"unknown key raffles.max_iteration. Did you mean max_iter"),
        ("engine.modle=x", r"unknown key engine.modle. Did you mean model\?"),
        ("safari.zzz=1", r"unknown key safari.zzz. Known keys there: .*max_turns"),
        ("raffles.max_iterations=0", r"raffles.max_iterations: .*greater than or equal to 1"),
        ("raffles.max_iterations=two", r"raffles.max_iterations: .*integer.*'two'"),
        ("method=raffels", r"method: .*'raffels'"),
        ("engine.kind=vlm", r"engine: .*'vlm'"),
        ("answer.quote=[1", r"answer.quote=\[1: the value cannot be read. Quote it"),
    ],
)
def test_a_wrong_key_or_value_is_told_with_the_nearest_known_key(given, told):
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(["smollm2-cpu", given])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "holds no keys"),
        ("- a\n- b\n", "holds no keys"),
        ("engine: {kind: vllm", "cannot be read as YAML"),
        ("engine: {kind: vllm}\n", r"engine.model: Field required"),
    ],
)
def test_a_broken_file_is_told_in_one_line(tmp_path, content, told):
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=told) as caught:
        load_config([str(file)])
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_that_is_not_there_is_told_with_the_shipped_ones():
    with pytest.raises(ConfigError, match=r"nowhere: no such config.*smollm2-cpu.yaml"):
        load_config(["nowhere"])


def test_every_setting_is_described():
    def undescribed(model, where):
        for name, field in model.model_fields.items():
            if not field.description:
                yield f"{where}.{name}"

    kinds = [field.annotation for field in Config.model_fields.values()]
    sections: list[Any] = [one for one in kinds if hasattr(one, "model_fields")]
    sections += [Config, VllmConfig, ServerConfig, TransformersConfig]
    assert len(sections) > 8
    assert [gap for one in sections for gap in undescribed(one, one.__name__)] == []


def test_paths_in_the_shipped_configs_name_no_home_but_the_users():
    for path in Path(configs_folder()).glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert "/root" not in text
        assert "/home/" not in text
