"""A graph with files of tasks and a reward as a trainable app."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph

from agentflow.evals.benchmarks import readers
from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import compare, inputs, read_tasks, share_of
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, compiled
from agentflow.rl.policy.node_paths import fits, learns
from tests.cases import table
from tests.failing import fails
from tests.graphs import Server, rollout

GRAPH = "examples.help_desk:build"


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_one_task_in_five_is_held_out(tmp_path: Path) -> None:
    rows = [{"question": f"{n} plus {n}?", "answer": str(2 * n)} for n in range(200)]
    app = load_app(GRAPH, tasks=str(written(tmp_path / "tasks.jsonl", *rows)))
    train, test = ({task.id for task in app.tasks(split, 999)} for split in ("train", "test"))  # type: ignore[arg-type]
    assert not train & test
    assert len(train | test) == 200
    assert 20 < len(test) < 60
    assert len(app.tasks("train", 7)) == 7


def test_a_file_of_too_few_tasks_is_refused(tmp_path: Path) -> None:
    """`try` played nothing, and succeeded."""
    file = written(tmp_path / "tasks.jsonl", {"question": "a", "answer": "1"})
    empty: Any = "test" if share_of(read_tasks(file, graded=True), "train") else "train"
    with pytest.raises(AppError, match=r"too few tasks \(1\) .*--test FILE"):
        load_app(GRAPH, tasks=str(file)).tasks(empty, 4)


def test_test_tasks_of_a_file_of_their_own(tmp_path: Path) -> None:
    train = written(tmp_path / "train.jsonl", {"question": "a", "answer": "1"})
    test = written(tmp_path / "test.jsonl", {"question": "b", "answer": "2"})
    app = load_app(GRAPH, tasks=str(train), test=str(test), nodes="route, other/*")
    assert [[task.question for task in app.tasks(split, 9)] for split in ("train", "test")] == [["a"], ["b"]]  # type: ignore[arg-type]
    assert app.nodes == ["route", "other/*"]


def test_a_row_may_have_the_graphs_input(tmp_path: Path) -> None:
    given = {"request": "What is a refund?"}
    [one] = read_tasks(written(tmp_path / "t.jsonl", {"inputs": given, "answer": "x"}), graded=True)
    assert inputs(one) == given
    assert inputs(Task(id="1", question="q"))["messages"] == [HumanMessage("q")]


@pytest.mark.parametrize("column", ["inputs", "context", "config"])
def test_a_question_is_another_task_where_the_graph_gets_more_with_it(tmp_path: Path, column: str) -> None:
    """All but the first of such rows were dropped in silence: the last questions of conversations are often alike."""
    rows = [{"question": "And in metres?", column: {"before": before}} for before in ("3 feet", "3 yards", "3 feet")]
    assert len(read_tasks(written(tmp_path / "t.jsonl", *rows), graded=False)) == 2


def test_rows_that_only_the_reward_tells_apart_are_tasks_and_are_held_out_together(tmp_path: Path) -> None:
    """All but the first of them were dropped in silence."""
    rows = [{"question": f"Draw {n}.", "style": style} for n in range(50) for style in ("plain", "rich", "plain")]
    found = read_tasks(written(tmp_path / "t.jsonl", *rows), graded=False)
    assert len({one.id for one in found}) == len(found) == 100
    train, test = ({one.question for one in share_of(found, split)} for split in ("train", "test"))  # type: ignore[arg-type]
    assert train
    assert test
    assert not train & test


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"answer": "48 + 24 = 72\n#### 72"}, "72"),
        ({"answer": True}, "Yes."),
        ({"answer": ["Bosphorus", "Bosporus"]}, "Bosporus"),
        ({"answer": "Rome", "aliases": "Roma"}, "Roma"),
        ({"gold": 1.5}, "3/2"),
    ],
)
def test_answers_are_read_as_those_of_benchmarks(tmp_path: Path, row: dict[str, Any], answer: str) -> None:
    [task] = read_tasks(written(tmp_path / "t.jsonl", {"question": "q", **row}), graded=True)
    assert compare(task, {"answer": answer}) == 1.0


@pytest.mark.parametrize(
    ("row", "gold", "aliases"),
    [
        ({"answer": ["14 December 1972 UTC", "December 1972"]}, "14 December 1972 UTC", ["December 1972"]),
        ({"answer": "Rome", "answer_aliases": ["Roma"]}, "Rome", ["Roma"]),
        ({"answer": "48 + 24 = 72\n#### 72"}, "72", []),
        ({"answer": True}, "yes", []),
        ({"answer": None, "aliases": "mine"}, "", "mine"),
        ({"answer": " "}, "", None),
        ({"answer": "a", "gold": "b"}, "a", None),
        ({"label": 3}, "", None),
    ],
)
def test_a_reward_of_ones_own_gets_the_answer_as_benchmarks_read_it(
    tmp_path: Path, row: dict[str, Any], gold: str, aliases: object
) -> None:
    """It got the text of the whole cell, as in "['14 December 1972 UTC', 'December 1972']"."""
    [task] = read_tasks(written(tmp_path / "t.jsonl", {"question": "q", **row}), graded=False)
    assert (task.gold, task.data.get("aliases")) == (gold, aliases)


@pytest.mark.parametrize("column", readers.QUESTIONS)
def test_questions_are_in_the_columns_that_benchmarks_know(tmp_path: Path, column: str) -> None:
    [task] = read_tasks(written(tmp_path / "t.jsonl", {"question": " ", column: "Who?", "label": 3}), graded=False)
    assert task.question == "Who?"


METALS: Any = {"question": "Which is Fe?", "options": ["Gold", "Iron"], "answer": 1, "aliases": "x"}


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("row", [METALS, {**METALS, "options": None, "choices": {"a": "Gold", "b": "Iron"}}])
def test_options_reach_the_graph_and_are_scored_by_their_letter(
    tmp_path: Path, row: dict[str, Any], graded: bool
) -> None:
    """The graph was asked without them, and the answer was the index."""
    [task] = read_tasks(written(tmp_path / "t.jsonl", row), graded=graded)
    assert "A. Gold\nB. Iron" in inputs(task)["messages"][0].content
    assert (task.gold, task.data["letter"], task.data["aliases"]) == ("B. Iron", "B", [])
    said = {"Iron": 1.0, "B": 1.0, "B. Iron": 1.0, "A": 0.0, "Gold": 0.0, "A or B": None}
    assert {answer: compare(task, {"answer": answer}) for answer in said} == said


@pytest.mark.parametrize("row", [{"inputs": {"asked": "?"}, "options": ["x"]}, {"question": "q", "options": None}])
def test_options_of_an_input_of_its_own_and_empty_ones_are_left(tmp_path: Path, row: dict[str, Any]) -> None:
    [task] = read_tasks(written(tmp_path / "t.jsonl", {**row, "answer": "Rome"}), graded=True)
    assert (task.data["options"], compare(task, {"answer": "It is Rome."})) == (row["options"], 1.0)


def test_the_column_of_the_rule_is_obeyed(tmp_path: Path) -> None:
    row = {"question": "How many?", "answer": "1,234"}
    [named] = read_tasks(written(tmp_path / "t.jsonl", {**row, "score_as": "exact"}), graded=True)
    assert (compare(named, {"answer": "1234 men"}), compare(named, {"answer": "1,234"})) == (0.0, 1.0)


@pytest.mark.parametrize("wrong", [{**METALS, "answer": "Lead"}, {"question": "q", "answer": "a", "score_as": "b"}])
def test_a_row_that_cannot_be_scored_is_refused_unless_the_reward_is_ones_own(tmp_path: Path, wrong: Any) -> None:
    file = written(tmp_path / "t.jsonl", wrong)
    with pytest.raises(AppError, match=r"^line 1 of .*(not one of the options|'score_as')"):
        read_tasks(file, graded=True)
    [task] = read_tasks(file, graded=False)
    assert task.data == wrong


@pytest.mark.parametrize(("pattern", "path", "fit"), table(__file__, "patterns.txt"))
def test_patterns_of_paths(pattern: str, path: str, fit: bool) -> None:
    assert fits(pattern, path.split("/")) == fit
    assert learns(path.split("/"), [pattern]) == fit
    assert learns(path.split("/"), [])
    assert not learns((), [])


@pytest.mark.parametrize(("tool", "family"), [("python_coder", "sum"), ("wikipedia_search", "firm")])
async def test_the_example_rewards_the_right_tool_and_nothing_else(tool: str, family: str) -> None:
    app = load_app("examples.help_desk:app")
    for task in app.tasks("train", 20):
        words = task.question.rstrip("?").replace("plus", "+").replace("minus", "-").replace("times", "*").split()
        given = " ".join(words[2:]) if task.family == "sum" else words[5].rstrip(",")
        for said, reward in ((tool, float(task.family == family)), ("base_generator", 0.0)):
            assert (await rollout(app, Server(f"Tool: {said}\nContext: {given}"), task=task)).reward == reward


def test_a_graph_that_cannot_be_compiled_is_refused() -> None:
    with fails(AppError, "not_loaded"):
        compiled(StateGraph(dict))
