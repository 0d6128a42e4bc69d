"""Spans of real runs of the example agents become tasks that the loader of `--tasks` takes."""

import asyncio
import importlib
import json
import os
import random
import re
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
from agentflow.rl.apps.agent import read_tasks, trainable_agent
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.rollout import run
from agentflow.rl.rollout.template import load_tokenizer
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


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("OTEL_", "LANGSMITH_", "LANGCHAIN_", "TRACEPARENT")):
            monkeypatch.delenv(name)


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


def test_runs_of_three_agents_become_tasks(tmp_path: Path) -> None:
    source, made = recorded(tmp_path / "spans.jsonl", 60)
    assert made >= 60
    convert(source, tmp_path / "tasks")
    tasks = read_tasks(tmp_path / "tasks" / "tasks.jsonl", graded=True)
    assert tasks
    assert all(SUM.search(one.question) for one in tasks)
    sft = rows(tmp_path / "tasks" / "sft.jsonl")
    assert {row["node"] for row in sft} <= set.union(*AGENTS.values())
    assert any("tool_calls" in message for row in sft for message in row["messages"])
    assert all(row["tools"] and row["reward"] == 1 for row in sft)
    assert all(row["messages"][-1]["role"] == "assistant" for row in sft)
    asked = [row for name in ("tasks", "questions") for row in rows(tmp_path / "tasks" / f"{name}.jsonl")]
    outermost = ["parentSpanId" not in span for line in rows(source) for span in spans_of(line)]
    assert sum(row["runs"] for row in asked) == sum(outermost), "no run is lost"
