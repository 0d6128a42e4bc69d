"""The runner, its store and its figures: no item is lost, repeated or counted twice."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentflow.evals.benchmarks.benchmark import AnswerJudge, Benchmark, Judging
from agentflow.evals.metrics import interval, summarise
from agentflow.evals.record import CRASH, NO_PLAN, Dataset, EvaluationSettings, Key, Record
from agentflow.evals.results_store import ResultsError, ResultsStore, read
from agentflow.evals.runner import Item, Runner, items, unfinished
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.score import Decision, Score, decided
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.cost import Budget
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn, Usage
from agentflow.graph.state import Verdict
from agentflow.nodes import verifier
from agentflow.tools import python_coder
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError
from tests.clock import HOUR, Clock
from tests.failing import fails
from tests.scripted import Conversation, Scripted
from tests.unit.evals.benchmarks.judges import ScriptedJudge

PLAN = "Sub-Goal: Say it\nTool: base_generator\nContext: hello"
SETTINGS = EvaluationSettings(benchmarks={"greetings": Dataset(questions=3, digest="d")}, context=Context())
GREETINGS = Benchmark(
    name="greetings",
    title="For tests",
    licence="none",
    size=3,
    rule=lambda one, answer: decided(answer == one.gold, "exact"),
    judging=Judging.NEVER,
)


def dataset(number: int, family: str = "easy", benchmark: Benchmark = GREETINGS, epochs: int = 1) -> list[Item]:
    return items(benchmark, [Task.of(f"question {n}", "hello", family) for n in range(number)], epochs)


def record(item: Item, *, correct: bool = True, turns: Sequence[ToolResult] = (), error: str = "") -> Record:
    trace = Trace(
        task=item.task,
        status="failed" if error else "answered",
        error=error,
        turns=[
            TraceTurn(
                turn=n,
                sub_goal="s",
                context="c",
                tool="python_coder",
                arguments={},
                result=result,
                verdict=Verdict(analysis="", signal="stop"),
            )
            for n, result in enumerate(turns, start=1)
        ],
    )
    score = decided(correct and not error, CRASH if error else "exact")
    return Record.of(trace, item.benchmark.name, item.sample, score)


async def run(
    script: Scripted,
    asked: Sequence[Item],
    concurrency: int = 4,
    *,
    judge: AnswerJudge | None = None,
    seconds: float | None = None,
    answered: dict[Key, Record] | None = None,
) -> dict[Key, Record]:
    ended: dict[Key, Record] = {}
    evaluation = Runner(build_graph(), Context(model=script.spec), judge, seconds)
    await evaluation.run(
        asked, concurrency=concurrency, on_end=lambda r: ended.update({r.key: r}), answered=answered or {}
    )
    return ended


def script(monkeypatch: pytest.MonkeyPatch, **replies: object) -> Scripted:
    made = Scripted(**{"planner": PLAN, "executor": '{"query": "hello"}', **replies})
    made.install(monkeypatch)
    return made


async def test_items_run_concurrently_and_never_more_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = most = 0
    three = asyncio.Barrier(3)

    async def analyst(_: Conversation) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await three.wait()
        now -= 1
        return "x"

    asked = dataset(12)
    ended = await run(script(monkeypatch, analyst=analyst), asked, concurrency=3)
    assert most == 3
    assert set(ended) == {item.key for item in asked}
    assert all(found.correct for found in ended.values())


async def test_a_run_without_a_plan_is_wrong_whatever_its_text_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = replace(GREETINGS, rule=lambda one, answer: decided(True, "exact"))
    without_plan = script(monkeypatch, planner="no", verifier="Verdict: continue")
    ended = await run(without_plan, dataset(1, benchmark=benchmark))
    (found,) = ended.values()
    assert (found.status, found.decision, found.decided_by) == ("no_plan", Decision.INCORRECT, NO_PLAN)
    assert (found.scorable, found.failed) == (False, False)


async def test_crashed_items_stay_in_the_denominator_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference divided by the results that it found, so that a crash raised the accuracy."""

    def planner(conversation: Conversation) -> str:
        if "question 1\n" in conversation[1].text:
            raise ModelError("connection refused; start the server")
        return PLAN

    def rule(one: Task, answer: str) -> Score:
        raise ZeroDivisionError("a fault of the rule")

    asked = [*dataset(3), *dataset(1, "hard", replace(GREETINGS, name="faulty", rule=rule))]
    ended = await run(script(monkeypatch, planner=planner), asked)
    summary = summarise(list(ended.values()), len(asked))
    assert (summary.total.number, summary.total.correct, summary.total.accuracy) == (4, 2, 0.5)
    assert summary.failures == {
        "connection refused; start the server": 1,
        "ZeroDivisionError: a fault of the rule": 1,
    }
    assert [(group.name, group.number, group.correct) for group in summary.families] == [("easy", 3, 2), ("hard", 1, 0)]
    assert {(one.decision, one.decided_by) for one in ended.values() if one.failed} == {(Decision.INCORRECT, CRASH)}


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_sandbox_that_fails_is_tried_again_and_then_a_crash(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    tries = 0

    async def fails(code: str, limits: Limits) -> Outcome:
        nonlocal tries
        tries += 1
        if tries <= failures:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        return Outcome("hello", "", 0)

    monkeypatch.setattr(python_coder, "execute", fails)
    plan, program = PLAN.replace("base_generator", "python_coder"), '{"code": "print(1)"}'
    [ended] = (await run(script(monkeypatch, planner=plan, executor=program), dataset(1))).values()
    assert tries == 2
    assert ended.failed == (failures == 2)
    assert ended.correct == (failures == 1)
    assert ended.decided_by == (CRASH if failures == 2 else "exact")


async def test_a_run_that_takes_too_much_is_broken_off_with_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    class ThreeCalls(Budget):
        def exceeded(self, usage: Usage) -> str:
            return "enough" if usage.calls >= 3 else ""

    scripted = script(monkeypatch)
    evaluation = Runner(build_graph(), Context(model=scripted.spec), budget=ThreeCalls())
    found = await evaluation.record(dataset(1)[0])
    assert (found.failed, found.decided_by, found.error) == (True, CRASH, "enough")
    assert 3 <= found.usage.calls < 5


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (2, 3)])
async def test_a_try_that_breaks_off_is_begun_again_as_often_as_asked(
    monkeypatch: pytest.MonkeyPatch, retries: int, tries: int
) -> None:
    calls = 0

    def down(_: Conversation) -> str:
        nonlocal calls
        calls += 1
        raise ModelError("connection refused")

    scripted = script(monkeypatch, analyst=down)
    evaluation = Runner(build_graph(), Context(model=scripted.spec), retries=retries)
    found = await evaluation.record(dataset(1)[0])
    assert (found.failed, calls) == (True, tries)


async def test_an_item_has_its_time_and_keeps_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dataset(1)
    [ended] = (await run(script(monkeypatch, generator=Clock(monkeypatch).hang), asked, seconds=HOUR)).values()
    assert ended.failed
    assert ended.error == "the run took longer than 3600 s"
    assert [turn.tool for turn in ended.turns] == ["base_generator"]
    assert ended.usage.calls == 6


async def test_a_judge_that_fails_leaves_the_answer_to_be_judged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(question: str, gold: str, answer: str) -> Decision:
        raise ModelError("the judge is down")

    rule = replace(GREETINGS, judging=Judging.DECIDES, rule=lambda one, answer: free_text(answer, ["good day"]))
    asked = dataset(2, benchmark=rule)
    made = script(monkeypatch)
    ended = await run(made, asked, judge=ScriptedJudge(down))
    assert {(one.decision, one.decided_by) for one in ended.values()} == {
        (Decision.UNDECIDED, "judge failed: the judge is down")
    }
    assert summarise(list(ended.values()), 2).failures == {"judge failed: the judge is down": 2}
    assert unfinished(asked, ended) == []
    left = unfinished(asked, ended, retry=True)
    assert left == asked
    made.calls.clear()
    again = await run(made, left, judge=ScriptedJudge(Decision.CORRECT), answered=ended)
    assert all(one.correct and one.decided_by == "judge" for one in again.values())
    assert made.calls == []


async def test_a_wrong_setting_is_raised_and_gives_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def analyst(_: Conversation) -> str:
        raise ModelError("no such key", code="no_key", configuration=True)

    made = script(monkeypatch, analyst=analyst)
    with fails(ModelError, "no_key"):
        await run(made, dataset(50), concurrency=2)
    assert len(made.calls) <= 2


def test_an_item_that_has_no_record_counts_as_wrong() -> None:
    assert summarise([record(dataset(4)[0])], 4).total.accuracy == 0.25


def test_a_metric_has_the_same_denominator_as_the_accuracy() -> None:
    asked = dataset(3)
    answered = record(asked[0]).model_copy(update={"metrics": {"f1": 0.5, "em": 0.0}})
    assert summarise([answered, record(asked[1], error="down")], 4).metrics == {"em": 0.0, "f1": 0.125}


def test_turns_and_errors_are_counted_by_class() -> None:
    results = [
        ToolResult(status="ok", output="1"),
        ToolResult.failed(ErrorClass.BAD_PLAN, "x"),
        ToolResult.failed(ErrorClass.TOOL_ERROR, "x"),
        ToolResult.failed(ErrorClass.TOOL_ERROR, "x"),
    ]
    summary = summarise([record(dataset(1)[0], turns=results)], 1)
    assert summary.errors == {"bad_plan": 1, "tool_error": 2}
    assert (summary.error_rate, summary.readable_rate, summary.total.mean_turns) == (0.75, 0.75, 4)
    assert summary.tools == {"python_coder": 3}


def test_verdicts_that_could_not_be_read_are_counted() -> None:
    found = record(dataset(1)[0], turns=[ToolResult(status="ok", output="1")] * 2)
    assert summarise([found], 1).verdict_rate == 1
    unread = found.turns[0].model_copy(update={"verdict": verifier.parse("Perhaps.")})
    assert summarise([found.model_copy(update={"turns": [unread, found.turns[1]]})], 1).verdict_rate == 0.5


def test_who_searched_is_counted_with_the_language_model_behind_it() -> None:
    results = [
        ToolResult(status="ok", output="x", provider=name) for name in ("gemini (m)", "tavily", "gemini (m)", "")
    ]
    summary = summarise([record(dataset(1)[0], turns=results)], 1)
    assert summary.sources == {"gemini (m)": 2, "tavily": 1}


def test_nothing_to_count_is_no_division_by_zero() -> None:
    summary = summarise([], 0)
    assert (summary.total.accuracy, summary.error_rate, summary.seconds) == (0, 0, 0)


def test_a_journal_takes_up_where_a_kill_left_it(tmp_path: Path) -> None:
    asked = dataset(3)
    store = ResultsStore(tmp_path, SETTINGS)
    store.add(record(asked[0]))
    store.add(record(asked[1]))
    store.close()
    path = tmp_path / "traces.jsonl"
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)
    assert [one.key for one in read(tmp_path)[1]] == [asked[0].key]
    assert path.read_bytes() == torn

    resumed = ResultsStore(tmp_path, SETTINGS)
    assert list(resumed.by_key) == [asked[0].key]
    assert unfinished(asked, resumed.by_key) == asked[1:]
    resumed.add(record(asked[2]))
    resumed.close()
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["task"]["question"] for line in kept] == ["question 0", "question 2"]
    assert list(kept[0]) == [
        *("task", "analysis", "answer", "status", "turns", "usage", "seconds"),
        *("benchmark", "sample", "decision", "decided_by", "metrics"),
    ]


def test_a_run_that_broke_off_is_tried_again_if_asked_for_and_the_later_record_counts(tmp_path: Path) -> None:
    asked = dataset(1)
    store = ResultsStore(tmp_path, SETTINGS)
    store.add(record(asked[0], error="connection refused"))
    assert unfinished(asked, store.by_key) == []
    assert unfinished(asked, store.by_key, retry=True) == asked
    store.add(record(asked[0]))
    store.close()
    resumed = ResultsStore(tmp_path, SETTINGS)
    resumed.close()
    assert resumed.by_key[asked[0].key].correct
    assert unfinished(asked, resumed.by_key, retry=True) == []


def settings(**changed: object) -> EvaluationSettings:
    return SETTINGS.model_copy(update=changed)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (settings(context=Context(max_turns=3)), "max_turns"),
        (settings(judge="vllm:judge"), "judge"),
        (settings(checkpoints={"embedded": "trained anew"}), "checkpoints"),
        (settings(benchmarks={"greetings": Dataset(questions=3, digest="other rows")}), "greetings"),
    ],
)
def test_a_folder_of_other_settings_is_refused_by_name(other: EvaluationSettings, name: str, tmp_path: Path) -> None:
    store = ResultsStore(tmp_path, SETTINGS)
    store.add(record(dataset(1)[0]))
    store.close()
    with fails(ResultsError, "other_settings", name, "--out"):
        ResultsStore(tmp_path, other)


def test_questions_benchmarks_and_epochs_may_be_added_to_a_folder(tmp_path: Path) -> None:
    first = settings(benchmarks={"a": Dataset(questions=3, digest="a")}, epochs=2)
    more = settings(benchmarks={"a": Dataset(questions=2, digest="a"), "b": Dataset(questions=5, digest="b")})
    for one in (first, more):
        store = ResultsStore(tmp_path, one)
        store.add(record(dataset(1)[0]))
        store.close()
    found, _ = read(tmp_path)
    assert {name: one.questions for name, one in found.benchmarks.items()} == {"a": 3, "b": 5}
    assert (found.epochs, found.number) == (2, 16)


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path) -> None:
    store = ResultsStore(tmp_path, SETTINGS)
    with fails(ResultsError, "locked"):
        ResultsStore(tmp_path, SETTINGS)
    store.close()


@pytest.mark.parametrize(
    ("content", "code"), [(None, "unreadable"), ("not json", "other_version"), ("[1]", "other_version")]
)
def test_traces_without_settings_are_not_mixed_with_new_ones(tmp_path: Path, content: str | None, code: str) -> None:
    (tmp_path / "traces.jsonl").write_text("{}\n")
    if content is not None:
        (tmp_path / "settings.json").write_text(content)
    with fails(ResultsError, code, tmp_path):
        ResultsStore(tmp_path, SETTINGS)


def test_a_line_that_is_no_trace_is_named(tmp_path: Path) -> None:
    ResultsStore(tmp_path, SETTINGS).close()
    (tmp_path / "traces.jsonl").write_text('{"a": 1}\n')
    with fails(ResultsError, "bad_line", "line 1"):
        ResultsStore(tmp_path, SETTINGS)


def test_each_question_may_be_tried_several_times() -> None:
    asked = dataset(2, epochs=3)
    assert len({item.key for item in asked}) == 6
    assert [item.sample for item in asked] == [0, 0, 1, 1, 2, 2]
    records = [record(item, correct=item.task.question == "question 0") for item in asked]
    low, high = interval(records, 2, 3)
    assert (low < 0.1, high > 0.9) == (True, True)
    assert summarise(records, 6).total.accuracy == 0.5


def test_bounds_are_of_the_undecided_answers_beside_the_missing_ones() -> None:
    """Ten tries: two right, three undecided, one failed, three wrong, one not run yet."""
    decisions = [Decision.CORRECT] * 2 + [Decision.UNDECIDED] * 3 + [Decision.INCORRECT] * 4
    records = [
        record(item, correct=False).model_copy(
            update={"decision": decision, "status": "failed" if number == 8 else "answered"}
        )
        for number, (item, decision) in enumerate(zip(dataset(9), decisions, strict=True))
    ]
    total = summarise(records, 10).total
    assert (total.accuracy, total.most, total.undecided) == (0.2, 0.5, 3)
    [family] = summarise(records, 10).families
    assert family.most == pytest.approx(5 / 9)
    assert summarise([], 0).total.most == 0


def test_tries_of_one_question_are_not_independent() -> None:
    """Four tries each of 50 questions that are always right or always wrong tell no more than one try each."""
    asked = dataset(50, epochs=4)
    records = [record(item, correct=int(item.task.question.split()[-1]) % 2 == 0) for item in asked]
    assert interval(records) == pytest.approx(interval(records[:50]))


def test_what_has_not_been_tried_is_no_further_question() -> None:
    """Half of the tries of 40 questions, all right: an accuracy of a half on 40 questions, not on 120."""
    records = [record(item, correct=True) for item in dataset(40, epochs=2)]
    low, high = interval(records, 40, 4)
    assert low < 0.5 < high
    assert interval(records[:20], 40)[1] - interval(records[:20], 40)[0] > 0.25
