"""The log: one line of JSON per operation, without prompts and secrets."""

import json
import logging
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from agentflow import Context, TracingError, build_graph, tracing
from agentflow.graph.state import InputState
from agentflow.graph.tracing.log import EVENTS
from tests.cases import table
from tests.failing import fails
from tests.scripted import GUESS, Script, Scripted


def run(script: Scripted) -> None:
    context = Context(model=script.spec, tools=["base_generator"])
    build_graph().invoke(
        InputState(messages=[HumanMessage("a question of mine")]), {"metadata": {"thread_id": "t"}}, context=context
    )


@pytest.fixture
def script(scripted: Script) -> Scripted:
    return scripted(**GUESS, tools="a guess of mine", generator="Answer: an answer of mine")


def test_a_line_says_what_happened_when_and_for_whom(
    script: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with tracing(f"log:{path}"):
        run(script)
    run(script)  # not any more
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines].count("run") == 1
    assert {line["event"] for line in lines} == {"run", "module", "turn", "model_call", "tool_call"}
    assert len({line["run"] for line in lines}) == 1
    assert {line["thread"] for line in lines} == {"t"}
    [turn] = [line for line in lines if line["event"] == "turn"]
    assert (turn["turn"], turn["tool"], turn["signal"], turn["level"]) == (1, "base_generator", "stop", "info")
    assert all(line["seconds"] >= 0 and line["time"].endswith("+00:00") for line in lines)
    assert "of mine" not in path.read_text()
    with caplog.at_level(logging.INFO, EVENTS), tracing("log"):  # an application gets them by its own logging
        run(script)
    assert [record.getMessage() for record in caplog.records if record.name == EVENTS][-1] == "run"


def test_other_records_are_lines_too_and_hold_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PLANTED_KEY", "planted-value-of-a-key")
    path = tmp_path / "log"
    with tracing(f"log:{path}"):
        try:
            raise ValueError("planted-value-of-a-key")
        except ValueError:
            logging.getLogger("agentflow.graph").exception("with %s", "planted-value-of-a-key")
    line = json.loads(path.read_text())
    assert (line["logger"], line["level"], line["error"]) == ("agentflow.graph", "error", "ValueError")
    assert "planted" not in path.read_text()


@pytest.mark.parametrize(("to", "code", "named"), table(__file__, "log.txt"))
def test_what_cannot_be_switched_on(to: str, code: str, named: str) -> None:
    with fails(TracingError, code, named), tracing(to):
        pass
