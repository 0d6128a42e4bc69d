"""skills/train-my-agent/SKILL.md, command by command, as a coding agent follows it in a LangGraph repository."""

import json
from pathlib import Path

import pytest
import yaml

from tests.integration.test_first_hour import walking
from tests.pages import ROOT, blocks, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SKILL = ROOT / "skills/train-my-agent/SKILL.md"

AGENT = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

model = ChatOpenAI(model="gpt-4o-mini", api_key="none")


async def answer(state: MessagesState) -> MessagesState:
    return {"messages": [await model.ainvoke(state["messages"])]}


agent = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
"""
SHORT = 'def score(task, state) -> float:\n    return 1 / (1 + len(state["messages"][-1].text))\n'
"""A reward that the included model can learn."""


def test_its_commands_take_a_repository_to_a_trained_model(tmp_path: Path) -> None:
    with walking(tmp_path) as walk:
        (walk.folder / "my_agent.py").write_text(AGENT)
        served = {"dependencies": ["."], "graphs": {"agent": "./my_agent.py:agent"}}
        (walk.folder / "langgraph.json").write_text(json.dumps(served))
        for step in (step for block in blocks(SKILL) if block.language == "console" for step in steps(block)):
            assert not (problem := walk.take(step)), f"{step.command}\n{problem}"
            if " init " in step.command:
                [columns] = {tuple(json.loads(row)) for row in (walk.folder / "tasks.jsonl").read_text().splitlines()}
                tasks = [dict(zip(columns, (f"What is {n} plus 2?", str(n + 2)), strict=True)) for n in range(10)]
                (walk.folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
                assert "def score(task, state)" in (walk.folder / "reward.py").read_text()
                (walk.folder / "reward.py").write_text(SHORT)
        assert (walk.folder / "policy/README.md").is_file()


def test_a_coding_agent_finds_it() -> None:
    front = yaml.safe_load(SKILL.read_text().split("---")[1])
    assert front["name"] == SKILL.parent.name
    assert len(front["description"]) <= 1024
    assert "skills/train-my-agent/SKILL.md" in (ROOT / "AGENTS.md").read_text()
