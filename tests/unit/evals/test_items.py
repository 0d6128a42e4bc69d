"""The runner: no item is lost, repeated or counted twice, and one that breaks off is a wrong answer."""

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentflow.evals.benchmarks.benchmark import Benchmark, Judging
from agentflow.evals.items import Item, ItemRunner, items, unfinished
from agentflow.evals.metrics import summarise
from agentflow.evals.record import CRASH, NO_PLAN, Key, Record
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.score import Decision, Score, decided
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.cost import Budget
from agentflow.graph.run.garbage import YOUNG
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Usage
from agentflow.tools import python_coder
from agentflow.tools.sandbox.limits import Outcome, SandboxError
from tests.clock import HOUR, Clock
from tests.failing import fails
from tests.scripted import GUESS, Conversation, Script, Scripted
from tests.unit.evals.benchmarks.judges import ScriptedJudge

GREETINGS = Benchmark("greetings", "", "", 3, lambda one, answer: decided(answer == one.gold, "exact"), Judging.NEVER)


def dataset(number: int, family: str = "easy", benchmark: Benchmark = GREETINGS, epochs: int = 1) -> list[Item]:
    return items(benchmark, [Task.of(f"question {n}", "hello", family) for n in range(number)], epochs)


async def run(
    script: Scripted,
    asked: Sequence[Item],
    concurrency: int = 4,
    answered: dict[Key, Record] | None = None,
    **more: Any,
) -> list[Record]:
    ended: list[Record] = []
    evaluation = ItemRunner(build_graph(), Context(model=script.spec), **more)
    await evaluation.run(asked, concurrency=concurrency, on_end=ended.append, answered=answered or {})
    return ended


@pytest.fixture
def script(scripted: Script) -> Script:
    return lambda **replies: scripted(**{**GUESS, **replies})


async def test_items_run_concurrently_and_never_more_than_asked(script: Script) -> None:
    now = most = 0
    three = asyncio.Barrier(3)

    async def analyst(_: Conversation) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        assert gc.get_threshold()[0] == YOUNG
        await three.wait()
        now -= 1
        return "x"

    asked = dataset(12)
    ended = await run(script(analyst=analyst), asked, concurrency=3)
    assert most == 3
    assert {one.key: one.correct for one in ended} == {item.key: True for item in asked}
    assert len(ended) == 12


async def test_a_run_without_a_plan_is_wrong_whatever_its_text_holds(script: Script) -> None:
    benchmark = replace(GREETINGS, rule=lambda one, answer: decided(True, "exact"))
    without_plan = script(planner="no", verifier="Verdict: continue")
    [found] = await run(without_plan, dataset(1, benchmark=benchmark))
    assert (found.status, found.decision, found.decided_by) == ("no_plan", Decision.INCORRECT, NO_PLAN)
    assert (found.scorable, found.failed) == (False, False)


async def test_crashed_items_stay_in_the_denominator_as_wrong(script: Script) -> None:
    """The reference divided by the results that it found, so that a crash raised the accuracy."""

    def planner(conversation: Conversation) -> str:
        if "question 1\n" in conversation[1].text:
            raise ModelError("connection refused; start the server")
        return GUESS["planner"]

    def rule(one: Task, answer: str) -> Score:
        raise ZeroDivisionError("a fault of the rule")

    asked = [*dataset(3), *dataset(1, "hard", replace(GREETINGS, name="faulty", rule=rule))]
    ended = await run(script(planner=planner), asked)
    summary = summarise(ended, len(asked))
    assert (summary.total.number, summary.total.correct, summary.total.accuracy) == (4, 2, 0.5)
    assert summary.failures == {
        "connection refused; start the server": 1,
        "ZeroDivisionError: a fault of the rule": 1,
    }
    assert [(group.name, group.number, group.correct) for group in summary.families] == [("easy", 3, 2), ("hard", 1, 0)]
    assert {(one.decision, one.decided_by) for one in ended if one.failed} == {(Decision.INCORRECT, CRASH)}


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_sandbox_that_fails_is_tried_again_and_then_a_crash(
    script: Script, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    tries = 0

    async def fails(*_: Any) -> Outcome:
        nonlocal tries
        tries += 1
        if tries <= failures:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        return Outcome("hello", "", 0)

    monkeypatch.setattr(python_coder, "execute", fails)
    plan, program = GUESS["planner"].replace("base_generator", "python_coder"), '{"code": "print(1)"}'
    [ended] = await run(script(planner=plan, executor=program), dataset(1))
    found = (tries, ended.failed, ended.correct, ended.decided_by)
    assert found == ((2, False, True, "exact") if failures == 1 else (2, True, False, CRASH))


async def test_a_run_that_takes_too_much_is_broken_off_with_what_it_took(script: Script) -> None:
    class ThreeCalls(Budget):
        def exceeded(self, usage: Usage) -> str:
            return "enough" if usage.calls >= 3 else ""

    [found] = await run(script(), dataset(1), budget=ThreeCalls())
    assert (found.failed, found.decided_by, found.error) == (True, CRASH, "enough")
    assert 3 <= found.usage.calls < 5


@pytest.mark.parametrize(
    ("code", "retries", "tries"),
    [("", 0, 1), ("", 2, 3), ("server_error", 0, 2), ("rate_limit", 0, 2), ("unreachable", 2, 3), ("too_long", 0, 1)],
)
async def test_a_try_that_breaks_off_is_begun_again_as_often_as_asked_and_once_after_an_outage(
    script: Script, code: str, retries: int, tries: int
) -> None:
    calls = 0

    def down(_: Conversation) -> str:
        nonlocal calls
        calls += 1
        raise ModelError("connection refused", code=code)

    [found] = await run(script(analyst=down), dataset(1), retries=retries)
    assert (found.failed, calls) == (True, tries)


async def test_an_item_has_its_time_and_keeps_what_it_did(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    [ended] = await run(script(generator=Clock(monkeypatch).hang), dataset(1), seconds=HOUR)
    assert ended.failed
    assert ended.error == "the run took longer than 3600 s"
    assert [turn.tool for turn in ended.turns] == ["base_generator"]
    assert ended.usage.calls == 6


async def test_a_judge_that_fails_leaves_the_answer_to_be_judged_later(script: Script) -> None:
    def down(question: str, gold: str, answer: str) -> Decision:
        raise ModelError("the judge is down")

    rule = replace(GREETINGS, judging=Judging.DECIDES, rule=lambda one, answer: free_text(answer, ["good day"]))
    asked = dataset(2, benchmark=rule)
    made = script()
    ended = await run(made, asked, judge=ScriptedJudge(down))
    assert {one.decision for one in ended} == {Decision.UNDECIDED}
    assert summarise(ended, 2).failures == {"judge failed: the judge is down": 2}
    answered = {one.key: one for one in ended}
    assert unfinished(asked, answered) == []
    left = unfinished(asked, answered, retry=True)
    assert left == asked
    made.calls.clear()
    again = await run(made, left, judge=ScriptedJudge(Decision.CORRECT), answered=answered)
    assert all(one.correct and one.decided_by == "judge" for one in again)
    assert made.calls == []


async def test_a_wrong_setting_is_raised_and_gives_up_the_rest(script: Script) -> None:
    def analyst(_: Conversation) -> str:
        raise ModelError("no such key", code="no_key", configuration=True)

    made = script(analyst=analyst)
    with fails(ModelError, "no_key"):
        await run(made, dataset(50), concurrency=2)
    assert len(made.calls) <= 2
