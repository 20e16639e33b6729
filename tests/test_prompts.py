from __future__ import annotations

import pytest

from faultattr_local.errors import PromptError
from faultattr_local.prompts import Prompts, shipped_folder


def test_a_value_that_is_missing_is_told():
    with pytest.raises(PromptError, match=r"prompt raffles/evaluator.md.j2: does not render"):
        Prompts().render("raffles/evaluator")


def test_a_template_that_is_missing_is_told_with_where_it_was_looked_for():
    with pytest.raises(PromptError, match=r"prompt raffles/nobody.md.j2.*looked for in"):
        Prompts().render("raffles/nobody")


def test_a_folder_wins_over_the_shipped_templates_and_may_hold_one(tmp_path):
    (tmp_path / "raffles").mkdir()
    (tmp_path / "raffles" / "judge.md.j2").write_text("Ours: {{ limits }}")
    prompts = Prompts(tmp_path)
    assert prompts.render("raffles/judge", limits=3) == "Ours: 3"
    shipped = Prompts()
    assert prompts.render("system", first_error=False) == shipped.render(
        "system", first_error=False
    )
    changed = {name for name, of in prompts.digests().items() if of != shipped.digests()[name]}
    assert changed == {"raffles/judge"}


def test_a_template_that_no_method_uses_is_refused_with_the_known_names(tmp_path):
    (tmp_path / "jugde.md.j2").write_text("")
    with pytest.raises(PromptError, match=r"no method uses jugde.md.j2. Known .*raffles/judge"):
        Prompts(tmp_path)


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_folder_without_templates_is_refused(tmp_path, name):
    with pytest.raises(PromptError, match=r"is not a folder|holds no"):
        Prompts(tmp_path / name)


def test_broken_syntax_is_told(tmp_path):
    (tmp_path / "system.md.j2").write_text("{% if %}")
    with pytest.raises(PromptError, match=r"prompt system.md.j2: does not render: Expected"):
        Prompts(tmp_path).render("system", first_error=False)


def test_text_of_a_trace_is_never_taken_for_a_template(setup_of, trajectory):
    hostile = trajectory.model_copy(update={"task": "{{ 7 * 7 }} {% raise %}"})
    text = Prompts().render(
        "log",
        task=hostile.task,
        reference_answer=None,
        steps=1,
        first=0,
        last=0,
        agents=["A"],
        mark="ab12",
        log="{{ log }}",
    )
    assert "{{ 7 * 7 }} {% raise %}" in text
    assert "{{ log }}" in text


def test_every_template_is_plain_text_without_a_hint_of_place():
    for path in shipped_folder().rglob("*.md.j2"):
        words = path.read_text(encoding="utf-8").casefold()
        for hint in ("early step", "late step", "beginning of the", "usually", "often"):
            assert hint not in words, f"{path}: {hint}"
