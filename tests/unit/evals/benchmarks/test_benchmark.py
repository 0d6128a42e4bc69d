"""Rule first, judge second: who decides in each benchmark, and what an answer is worth in training."""

import json
from pathlib import Path

import pytest

from agentflow.evals.benchmarks.benchmark import Judging
from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.task import Task
from tests.cases import cases, table
from tests.failing import fails
from tests.unit.evals.benchmarks.judges import ScriptedJudge

CORRECT, INCORRECT, UNDECIDED = Decision
ROWS = dict(table(__file__, "rows.txt"))


def one(name: str, tmp_path: Path) -> Task:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROWS[name]) + "\n")
    [found] = benchmark(name).tasks(file=path)
    return found


@pytest.mark.parametrize("name", ROWS)
async def test_right_wrong_and_empty_answers_are_worth_what_they_should(name: str, tmp_path: Path) -> None:
    found, asked = benchmark(name), one(name, tmp_path)
    assert (found.name, bool(found.licence), bool(found.title)) == (name, True, True)
    judge = ScriptedJudge(INCORRECT, chooses="none")
    for right in (asked.gold, f"<answer>{asked.gold}</answer>", f"So.\nAnswer: {asked.gold}"):
        assert found.score(asked, right).correct
        assert await found.reward(asked, right) == 1.0
    for wrong in ("", "   ", "I don't know", "something else 17"):
        assert not found.score(asked, wrong).correct
        assert await found.reward(asked, wrong, judge) == 0.0


def test_medqa_items_that_share_an_id_are_scored_against_their_own_gold_answer(tmp_path: Path) -> None:
    """In the reference, ids 0 to 99 occur twice and the later item wins."""
    golds = ["liver", "heart", "lung", "skin"]
    rows = [{"pid": n % 2, "question": f"Organ {n}?", "options": golds, "answer": golds[n]} for n in range(4)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    found = benchmark("medqa")
    tasks = found.tasks(file=tmp_path / "rows.json")
    assert len({one.id for one in tasks}) == 4
    scores = [[found.score(one, gold).correct for gold in golds] for one in tasks]
    assert scores == [[row == column for column in range(4)] for row in range(4)]


def test_atlas_scores_as_its_reward_does() -> None:
    found = benchmark("atlas")
    asked = found.tasks()[:24]
    assert [found.score(one, one.gold).decision for one in asked] == [CORRECT] * 24
    assert [found.score(one, f"It is {one.gold}").decision for one in asked] == [INCORRECT] * 24
    assert not {one.id for one in found.tasks("train")} & {one.id for one in found.tasks("test")}


async def test_a_judge_decides_what_the_rule_does_not(tmp_path: Path) -> None:
    found, asked = benchmark("musique"), one("musique", tmp_path)
    judge = ScriptedJudge(lambda question, gold, answer: CORRECT if answer == "Constantinople" else UNDECIDED)
    score = await found.decide(asked, "Constantinople", judge)
    assert (score.decision, score.decided_by) == (CORRECT, "judge")
    assert score.metrics == {"em": 0.0, "f1": 0.0}
    assert judge.asked == [("Where?", "Istanbul or Stamboul", "Constantinople")]
    assert await found.reward(asked, "Byzantium", judge) is None
    assert await found.reward(asked, "Byzantium") is None
    assert await found.reward(asked, "stamboul", judge) == 1.0
    assert len(judge.asked) == 2


@pytest.mark.parametrize(
    ("letter", "decision"), [("B", CORRECT), ("A", INCORRECT), ("none", INCORRECT), ("", UNDECIDED)]
)
async def test_a_judge_of_options_only_extracts(letter: str, decision: Decision, tmp_path: Path) -> None:
    asked, judge = one("medqa", tmp_path), ScriptedJudge(CORRECT, chooses=letter)
    assert (await benchmark("medqa").decide(asked, "the muscle that pumps", judge)).decision == decision
    assert judge.asked == [("Which organ?", {"A": "the liver", "B": "the heart"}, "the muscle that pumps")]


async def test_gaia_keeps_its_own_rule_and_reports_the_judge_beside_it(tmp_path: Path) -> None:
    found, asked = benchmark("gaia"), one("gaia", tmp_path)
    score = await found.decide(asked, "Istanbul, Turkey", ScriptedJudge(CORRECT))
    assert (score.decision, score.decided_by, score.metrics) == (INCORRECT, "quasi-exact match", {"judge": 1.0})


@pytest.mark.parametrize("name", [name for name, found in BENCHMARKS.items() if found.judging == Judging.NEVER])
async def test_some_are_never_judged(name: str) -> None:
    judge = ScriptedJudge(CORRECT)
    [asked, *_] = benchmark(name).tasks()
    assert not (await benchmark(name).decide(asked, "whatever you say", judge)).correct
    assert judge.asked == []


BAD_FILES = Path(__file__).with_name("cases") / "bad_files.jsonl"


@pytest.mark.parametrize(
    ("name", "file", "content", "code", "named"),
    [
        *cases(BAD_FILES, "name", "file", "content", "code", "named"),
        ("bamboogle", "a.jsonl", "[" * 5000, "unreadable", "a.jsonl"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    name: str, file: str, content: str | None, code: str, named: str, tmp_path: Path
) -> None:
    """Also where it is a benchmark of the user's own, which has the columns of bamboogle."""
    path = tmp_path / file
    if content is not None:
        path.write_bytes(content.encode(errors="surrogateescape"))
    with fails(BenchmarkError, code, named):
        benchmark(name).tasks(file=path)
    if name == "bamboogle":
        with fails(BenchmarkError, code, named):
            benchmark(str(path))
