"""Spans of real runs of the example agents become tasks that the loader of `--tasks` and `agentflow try` take."""

import asyncio
import importlib
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("verl")
pytest.importorskip("langchain.agents")
pytest.importorskip("langgraph_supervisor")
pytest.importorskip("langgraph_swarm")
pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from agentflow import tracing
from agentflow.graph.run.task import Task
from agentflow.rl.agent import read_tasks, trainable_agent
from agentflow.rl.chat_format import ChatFormat
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.preview import obstacles, play
from agentflow.rl.rollout import run
from agentflow.rl.template import load_tokenizer
from agentflow.rl.traces.convert import convert
from examples.agents.oracle import SUM, Oracle
from examples.agents.sums import example
from tests.otlp import Receiver
from tests.unit.rl.traces.spans import Json, attributes, exported, rows, spans_of, write

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor

AGENTS = {
    "tools": {"model"},
    "supervisor": {"supervisor/agent", "adder/model", "multiplier/model"},
    "swarm": {"adder/model", "multiplier/model"},
}
"""Example agents, and the paths of their model calls."""

SECONDS = 60.0


@pytest.fixture(autouse=True, scope="module")
def _nothing_set() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in [*os.environ]:
            if name.startswith(("OTEL_", "LANGSMITH_", "LANGCHAIN_", "TRACEPARENT")):
                monkeypatch.delenv(name)
        yield


def oracle(mistakes: float) -> Oracle:
    tokenizer = load_tokenizer(SEED)
    tokenizer.chat_template = TOOL_TEMPLATE
    return Oracle(ChatFormat(tokenizer), mistakes, seed="traces")


def recorded(path: Path, spans: int) -> tuple[Path, int]:
    """Run the agents in turn until they have made so many spans; return the file of all and their number."""
    apps = {
        name: trainable_agent(name, importlib.import_module(f"examples.agents.{name}").agent, tasks="none.jsonl")
        for name in AGENTS
    }
    rng, policy, number = random.Random(0), oracle(0.3), 0
    with Receiver() as receiver:
        while len(receiver.spans) < spans:
            with tracing(f"otel:{receiver.url}", content=True):
                for name, app in apps.items():
                    for _ in range(4):
                        question, result = example(rng)
                        task, number = Task(id=str(number), question=question, gold=str(result)), number + 1
                        asyncio.run(run(app, app.built(), task, policy, id=f"{name}/{number}", seconds=SECONDS))
    requests = exported(receiver.bodies)
    spans_made = [span for one in requests for span in spans_of(one)]
    for span in spans_made:
        scored(span)
    return write(path, requests), len(spans_made)


def scored(span: Json) -> None:
    """Add the score of an evaluator to the span of a whole run: whether the last number is the sum."""
    texts = {one["key"]: one["value"].get("stringValue", "") for one in span["attributes"]}
    task = SUM.search(texts.get("gen_ai.input.messages", ""))
    if "parentSpanId" in span or task is None:
        return
    a, operator, b, c = int(task[1]), task[2], int(task[3]), int(task[4] or 1)
    result = (a * b if operator == "times" else a + b) * c
    numbers = re.findall(r"\d+", json.loads(texts["gen_ai.output.messages"])[-1]["parts"][0].get("content", ""))
    score = {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": float([str(result)] == numbers[-1:])}}
    named = attributes({"gen_ai.evaluation.name": "sum"})
    span["events"] = [{"name": "gen_ai.evaluation.result", "attributes": [*named, score]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the spans of some runs, and what they became."""
    return converted(tmp_path_factory.mktemp("runs"), spans=60)


def converted(folder: Path, spans: int) -> Path:
    source, made = recorded(folder / "spans.jsonl", spans)
    assert made >= spans
    convert(source, folder / "tasks")
    return folder


def check(folder: Path) -> None:
    tasks = read_tasks(folder / "tasks" / "tasks.jsonl", graded=True)
    assert tasks
    assert all(SUM.search(one.question) for one in tasks)
    sft = rows(folder / "tasks" / "sft.jsonl")
    assert {row["node"] for row in sft} <= set.union(*AGENTS.values())
    assert any("tool_calls" in message for row in sft for message in row["messages"])
    assert all(row["tools"] and row["reward"] == 1 for row in sft)
    assert all(row["messages"][-1]["role"] == "assistant" for row in sft)
    asked = [row for name in ("tasks", "questions") for row in rows(folder / "tasks" / f"{name}.jsonl")]
    requests = [span for line in rows(folder / "spans.jsonl") for span in spans_of(line)]
    assert sum(row["runs"] for row in asked) == sum("parentSpanId" not in span for span in requests), "none is lost"


def test_runs_of_three_agents_become_tasks(folder: Path) -> None:
    check(folder)


def test_the_tasks_can_be_tried(folder: Path) -> None:
    graph = importlib.import_module("examples.agents.tools").agent
    app = trainable_agent("tools", graph, tasks=str(folder / "tasks" / "tasks.jsonl"))
    asked = app.tasks("train", 4)
    preview = asyncio.run(play(app, app.built(), asked, oracle(0.0), rollouts=2, seconds=SECONDS))
    assert obstacles(preview, ["model"]) != [], "an oracle without mistakes leaves nothing to learn"
    assert {one.reward for one in preview.trajectories} == {1.0}


@pytest.mark.slow
def test_a_thousand_spans(tmp_path: Path) -> None:
    check(converted(tmp_path, spans=1_000))
