"""The errors that were proved in the reference implementation's scoring, one test each; none of them is ours."""

import json
from pathlib import Path

import pytest

from agentflow.evals import judge
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.metrics import summarise
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from tests.unit.evals.benchmarks.judges import ScriptedJudge


def loaded(name: str, rows: list[dict[str, object]], tmp_path: Path) -> tuple[Benchmark, list[Task]]:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    return benchmark(name), benchmark(name).tasks(file=path)


def test_medqa_items_that_share_an_id_are_scored_against_their_own_gold_answer(tmp_path: Path) -> None:
    """There, ids 0 to 99 occur twice and the later item wins, so that 100 answers are judged by other questions."""
    options = ["A. liver", "B. heart", "C. lung", "D. skin"]
    golds = ["liver", "heart", "lung", "skin"]
    rows = [{"pid": n % 2, "question": f"Organ {n}?", "options": options, "answer": golds[n]} for n in range(4)]
    found, tasks = loaded("medqa", rows, tmp_path)
    assert len({one.id for one in tasks}) == 4
    assert [found.score(one, gold).decision for one, gold in zip(tasks, golds, strict=True)] == ["correct"] * 4
    assert not any(found.score(one, gold).correct for one, gold in zip(tasks, reversed(golds), strict=True))


@pytest.mark.parametrize(
    "answer", ["", "None of the options", "unable to determine", "(C)", "C", "I refuse", "?", "the third one", "E"]
)
def test_an_answer_that_names_no_option_is_not_option_a(answer: str, tmp_path: Path) -> None:
    """There, whatever resembles no option is mapped to the first, which is right for three items in ten."""
    rows = [{"question": "Which?", "options": {"A": "liver", "B": "heart", "C": "lung"}, "answer_idx": "A"}]
    found, [one] = loaded("medqa", rows, tmp_path)
    assert not found.score(one, answer).correct


def test_missing_items_stay_in_the_denominator(tmp_path: Path) -> None:
    """There, accuracy is a share of the result files that exist."""
    rows = [{"question": f"Where is {n}?", "answer": "Rome"} for n in range(4)]
    found, tasks = loaded("bamboogle", rows, tmp_path)
    answered = [
        Record.of(Trace(task=one, answer="rome", status="answered"), "bamboogle", 0, found.score(one, "rome"))
        for one in tasks[:2]
    ]
    total = summarise(answered, len(tasks)).total
    assert (total.correct, total.number, total.accuracy) == (2, 4, 0.5)


async def test_a_judge_is_given_gold_and_answer_in_their_own_places(tmp_path: Path) -> None:
    """There, the training reward swaps them, so that the judge takes the model's answer for the reference."""
    found, [one] = loaded("bamboogle", [{"question": "Where?", "answer": "Istanbul"}], tmp_path)
    asked = ScriptedJudge(Decision.CORRECT)
    await found.reward(one, "Constantinople", asked)
    assert asked.asked == [("Where?", "Istanbul", "Constantinople")]


def test_boxed_answers_are_read_and_prompts_have_no_backspace_in_them(tmp_path: Path) -> None:
    r"""There, the judge's prompt is no raw string: its "\boxed" begins with a backspace."""
    found, [one] = loaded("aime24", [{"question": "How many?", "answer": "204"}], tmp_path)
    assert found.score(one, r"It is \boxed{204}.").correct
    assert found.score(one, "It is \boxed{205}.").decision != "correct"
    assert all(character == "\n" or character.isprintable() for character in judge.PROMPT + judge.CHOICE_PROMPT)


def test_game_of_24_is_computed_and_not_compared_with_a_list_of_solutions(tmp_path: Path) -> None:
    """There, a judge compares with two solutions of a puzzle; every other puzzle has one that is not listed."""
    found, [one] = loaded("game24", [{"numbers": [3, 3, 8, 8]}], tmp_path)
    assert found.score(one, "8/(3-8/3)").correct
    assert found.score(one, "8 ÷ (3 − (8 ÷ 3)) = 24").correct
    assert not found.score(one, "(3+3)*(8+8) = 24").correct
