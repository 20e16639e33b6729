import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultattr_local.errors import FormatError
from faultattr_local.formats.read import ReadResult, read_file
from faultattr_local.trajectory import ToolCall

Read = Callable[..., ReadResult]


def steps(result: ReadResult) -> list[tuple[str, str, str]]:
    (found,) = result.trajectories
    return [(step.agent, step.kind, step.content) for step in found.trajectory.steps]


def test_a_real_magentic_list(data: Path) -> None:
    (path,) = (data / "traces" / "magentic_agentrx").glob("*.json")
    result = read_file(path)
    raw = json.loads(path.read_bytes())
    trajectory = result.trajectories[0].trajectory
    assert (result.format, result.warnings) == ("role-list", ())
    assert [step.content for step in trajectory.steps] == [entry["content"] for entry in raw]
    assert trajectory.agents == ("human", "Orchestrator", "WebSurfer", "Assistant")
    assert trajectory.task == raw[0]["content"]
    assert {step.to for step in trajectory.steps} == {None, "WebSurfer", "Assistant"}
    assert trajectory.steps[1].source_ref == "[1]"


def test_a_real_chat_with_calls(data: Path) -> None:
    result = read_file(data / "traces" / "generated" / "langgraph_openai_messages.json")
    assert (result.format, result.warnings) == ("openai-chat", ())
    assert steps(result) == [
        ("user", "message", "What do two pears cost?"),
        ("shopper", "tool call", ""),
        ("get_price", "tool result", "3.50"),
        ("shopper", "message", "Two pears cost 7.00"),
    ]
    step = result.trajectories[0].trajectory.steps[1]
    assert step.tool_calls == (
        ToolCall(name="get_price", arguments='{"item": "apple"}', id="call_1"),
    )
    assert step.source_ref == "[1]"


def test_real_json_lines_of_conversations(data: Path) -> None:
    path = data / "traces" / "chat_jsonl" / "llamafactory_v1_sft_demo.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    result = read_file(path)
    told = {note.what: note.count for note in result.warnings}
    again = told["trajectory read before, skipped"]
    assert len(result.trajectories) + again == len(rows) == 500
    assert told["key 'loss_weight' not read"] == sum(len(row["messages"]) for row in rows)
    assert result.trajectories[0].trajectory.id == "chat_jsonl/llamafactory_v1_sft_demo#1"
    first = result.trajectories[0].trajectory
    assert first.task == rows[0]["messages"][0]["content"][0]["value"]
    assert first.steps[0].source_ref == "messages[0]"


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is in the box?"},
    {"role": "assistant", "content": None, "function_call": {"name": "open", "arguments": "{"}},
    {"role": "function", "name": "open", "content": "a hat"},
]
AS_STEPS = [
    ("system", "system", "Be brief."),
    ("user", "message", "What is in the box?"),
    ("assistant", "tool call", ""),
    ("open", "tool result", "a hat"),
]


@pytest.mark.parametrize(
    ("content", "ref"),
    [
        (json.dumps(MESSAGES), "[1]"),
        (json.dumps({"messages": MESSAGES}), "messages[1]"),
        ("\n".join(map(json.dumps, MESSAGES)), "line 2"),
    ],
)
def test_the_three_ways_of_writing_a_chat(read_bytes: Read, content: str, ref: str) -> None:
    result = read_bytes(content.encode())
    trajectory = result.trajectories[0].trajectory
    assert steps(result) == AS_STEPS
    assert result.warnings == ()
    assert trajectory.task == "What is in the box?"
    assert trajectory.steps[1].source_ref == ref
    assert trajectory.id.endswith("/run")


def test_a_result_belongs_to_the_latest_call_of_its_id(read_bytes: Read) -> None:
    def call(name: str) -> dict[str, Any]:
        inner = {"name": name, "arguments": {"é": 1}}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": "0", "function": inner}]}

    answer = {"role": "tool", "tool_call_id": "0", "content": "ok"}
    lost = {"role": "tool", "tool_call_id": "7", "content": "ok"}
    chat = [MESSAGES[1], call("one"), answer, call("two"), answer, lost]
    result = read_bytes(json.dumps(chat).encode())
    assert [agent for agent, _, _ in steps(result)] == [
        "user",
        "assistant",
        "one",
        "assistant",
        "two",
        "agent-tool",
    ]
    assert result.trajectories[0].trajectory.steps[1].tool_calls[0].arguments == '{"é": 1}'
    assert [note.count for note in result.warnings] == [1]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        (
            ["a", {"type": "text", "text": "b"}, {"type": "output_text", "output_text": "c"}],
            "a\nb\nc",
        ),
        ({"text": "a"}, "a"),
        ({"rows": [1, "é"]}, '{"rows": [1, "é"]}'),
        (3, "3"),
    ],
)
def test_content_is_brought_to_text(read_bytes: Read, content: Any, text: str) -> None:
    chat = [MESSAGES[1], {"role": "assistant", "content": content}]
    result = read_bytes(json.dumps(chat).encode())
    assert steps(result)[1] == ("assistant", "message", text)
    assert result.warnings == ()


def test_an_image_becomes_a_placeholder_and_is_told(read_bytes: Read) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 999}}
    result = read_bytes(json.dumps([{"role": "user", "content": [image, "see"]}]).encode())
    (_, _, content) = steps(result)[0]
    assert content.startswith("[image_url: 4")
    assert content.endswith("]\nsee")
    assert "QUJD" not in content
    assert [note.count for note in result.warnings] == [1]


def test_reasoning_and_refusals_are_kept(read_bytes: Read) -> None:
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": "no"}
    result = read_bytes(json.dumps([MESSAGES[1], message]).encode())
    assert steps(result)[1][2] == "(thinking) hm\nno"


def test_a_chat_nobody_asked_for_says_what_its_task_is(read_bytes: Read) -> None:
    result = read_bytes(json.dumps([{"role": "assistant", "content": "Hello"}]).encode())
    assert result.trajectories[0].trajectory.task == "Hello"
    assert len(result.warnings) == 1


def test_one_unknown_role_makes_a_list_of_agents(read_bytes: Read) -> None:
    mixed = [*MESSAGES[1:2], {"role": "Planner (-> Coder)", "content": "go"}]
    content = json.dumps(mixed).encode()
    assert read_bytes(content).format == "role-list"
    assert steps(read_bytes(content)) == [
        ("user", "message", "What is in the box?"),
        ("Planner", "message", "go"),
    ]
    forced = read_bytes(content, format="openai-chat")
    assert [agent for agent, _, _ in steps(forced)] == ["user", "Planner (-> Coder)"]


def test_a_message_that_is_no_object_is_an_error_with_its_place(read_bytes: Read) -> None:
    content = json.dumps({"messages": [*MESSAGES, "stray"]}).encode()
    with pytest.raises(FormatError, match=r"messages\[4\]: is not a message"):
        read_bytes(content, format="openai-chat")
