"""The runner, its journal and its figures: no item is lost, repeated or counted twice."""

import asyncio
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.episode import Episode, EpisodeTurn
from agentflow.evals.journal import Journal, JournalError
from agentflow.evals.metrics import interval, summarise, wilson
from agentflow.evals.runner import Item, Record, evaluate, sampled, unfinished
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models import ModelError
from agentflow.graph.state import Verdict
from agentflow.tools.result import ErrorClass, ToolResult
from tests.scripted import Conversation, Scripted

PLAN = "Sub-Goal: Say it\nTool: base_generator\nContext: hello"
SETTINGS = {"benchmark": "test", "max_turns": 10}


def items(number: int, family: str = "easy") -> list[Item]:
    return [Item(f"question {n}", "hello", family, lambda answer: answer == "hello") for n in range(number)]


def record(item: Item, *, correct: bool = True, turns: list[ToolResult] | None = None, error: str = "") -> Record:
    episode = Episode(
        question=item.question,
        status="failed" if error else "answered",
        error=error,
        turns=[
            EpisodeTurn(
                turn=n,
                sub_goal="s",
                context="c",
                tool="python_coder",
                arguments={},
                result=result,
                verdict=Verdict(analysis="", signal="stop"),
            )
            for n, result in enumerate(turns or [], start=1)
        ],
    )
    return Record(
        id=item.id, family=item.family, question=item.question, gold=item.gold, correct=correct, episode=episode
    )


async def run(script: Scripted, dataset: list[Item], concurrency: int = 4) -> dict[str, Record]:
    ended: dict[str, Record] = {}
    context = Context(model=script.spec)
    await evaluate(build_graph(), dataset, context, concurrency=concurrency, on_end=lambda r: ended.update({r.id: r}))
    return ended


def script(monkeypatch: pytest.MonkeyPatch, **replies: object) -> Scripted:
    made = Scripted(**{"planner": PLAN, "executor": '{"query": "hello"}', **replies})
    made.install(monkeypatch)
    return made


async def test_items_run_concurrently_and_never_more_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = most = 0

    async def analyst(_: Conversation) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return "x"

    dataset = items(12)
    ended = await run(script(monkeypatch, analyst=analyst), dataset, concurrency=3)
    assert most == 3
    assert set(ended) == {item.id for item in dataset}
    assert all(found.correct for found in ended.values())


async def test_crashed_items_stay_in_the_denominator_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference divided by the results that it found, so that a crash raised the accuracy."""

    def planner(conversation: Conversation) -> str:
        if "question 1\n" in conversation[1].text:
            raise ModelError("connection refused; start the server")
        return PLAN

    def checker(answer: str) -> bool:
        raise ZeroDivisionError("a fault of the checker")

    dataset = [*items(3), Item("question 3", "hello", "hard", checker)]
    ended = await run(script(monkeypatch, planner=planner), dataset)
    summary = summarise(dataset, ended)
    assert (summary.total.number, summary.total.correct, summary.total.accuracy) == (4, 2, 0.5)
    assert summary.failures == {
        "connection refused; start the server": 1,
        "ZeroDivisionError: a fault of the checker": 1,
    }
    assert [(group.name, group.number, group.correct) for group in summary.families] == [("easy", 3, 2), ("hard", 1, 0)]


async def test_a_wrong_setting_is_raised_and_gives_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def analyst(_: Conversation) -> str:
        raise ModelError("no such key", configuration=True)

    made = script(monkeypatch, analyst=analyst)
    with pytest.raises(ModelError, match="no such key"):
        await run(made, items(50), concurrency=2)
    assert len(made.calls) <= 2


def test_an_item_that_has_no_record_counts_as_wrong() -> None:
    dataset = items(4)
    assert summarise(dataset, {dataset[0].id: record(dataset[0])}).total.accuracy == 0.25


def test_turns_and_errors_are_counted_by_class() -> None:
    (item,) = items(1)
    results = [
        ToolResult(status="ok", output="1"),
        ToolResult.failed(ErrorClass.BAD_PLAN, "x"),
        ToolResult.failed(ErrorClass.TOOL_ERROR, "x"),
        ToolResult.failed(ErrorClass.TOOL_ERROR, "x"),
    ]
    summary = summarise([item], {item.id: record(item, turns=results)})
    assert summary.errors == {"bad_plan": 1, "tool_error": 2}
    assert (summary.error_rate, summary.readable_rate, summary.total.mean_turns) == (0.75, 0.75, 4)
    assert summary.tools == {"python_coder": 3}


def test_who_searched_is_counted_with_the_language_model_behind_it() -> None:
    (item,) = items(1)
    results = [
        ToolResult(status="ok", output="x", provider=name) for name in ("gemini (m)", "tavily", "gemini (m)", "")
    ]
    summary = summarise([item], {item.id: record(item, turns=results)})
    assert summary.sources == {"gemini (m)": 2, "tavily": 1}


def test_nothing_to_count_is_no_division_by_zero() -> None:
    summary = summarise([], {})
    assert (summary.total.accuracy, summary.error_rate, summary.seconds) == (0, 0, 0)


def test_wilson_agrees_with_published_values() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    for successes, number, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)]:
        assert wilson(successes, number) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_proportion_within_0_and_1(counts: tuple[int, int]) -> None:
    low, high = wilson(*counts)
    assert 0 <= low <= high <= 1
    assert counts[1] == 0 or low - 1e-9 <= counts[0] / counts[1] <= high + 1e-9
    assert math.isclose(low + wilson(counts[1] - counts[0], counts[1])[1], 1)


def test_a_journal_takes_up_where_a_kill_left_it(tmp_path: Path) -> None:
    dataset = items(3)
    journal = Journal(tmp_path, SETTINGS)
    journal.add(record(dataset[0]))
    journal.add(record(dataset[1]))
    journal.close()
    path = tmp_path / "episodes.jsonl"
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)

    resumed = Journal(tmp_path, SETTINGS)
    assert list(resumed.by_id) == [dataset[0].id]
    assert unfinished(dataset, resumed.by_id.values()) == dataset[1:]
    resumed.add(record(dataset[2]))
    resumed.close()
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["question"] for line in kept] == ["question 0", "question 2"]
    assert list(kept[0]) == ["id", "family", "question", "gold", "correct", "episode"]


def test_a_run_that_broke_off_is_tried_again_and_the_later_record_counts(tmp_path: Path) -> None:
    (item,) = items(1)
    journal = Journal(tmp_path, SETTINGS)
    journal.add(record(item, correct=False, error="connection refused"))
    assert unfinished([item], journal.by_id.values()) == [item]
    journal.add(record(item))
    journal.close()
    resumed = Journal(tmp_path, SETTINGS)
    resumed.close()
    assert resumed.by_id[item.id].correct
    assert unfinished([item], resumed.by_id.values()) == []


def test_a_folder_of_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SETTINGS)
    journal.add(record(items(1)[0]))
    journal.close()
    with pytest.raises(JournalError, match=r"max_turns.*--out"):
        Journal(tmp_path, SETTINGS | {"max_turns": 3})


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SETTINGS)
    with pytest.raises(JournalError, match="another evaluation"):
        Journal(tmp_path, SETTINGS)
    journal.close()


@pytest.mark.parametrize("settings", [None, "not json", "[1]"])
def test_episodes_without_settings_are_not_mixed_with_new_ones(tmp_path: Path, settings: str | None) -> None:
    (tmp_path / "episodes.jsonl").write_text("{}\n")
    if settings is not None:
        (tmp_path / "settings.json").write_text(settings)
    with pytest.raises(JournalError, match="--out"):
        Journal(tmp_path, SETTINGS)


def test_a_line_that_is_no_episode_is_named(tmp_path: Path) -> None:
    Journal(tmp_path, SETTINGS).close()
    (tmp_path / "episodes.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(JournalError, match="line 1"):
        Journal(tmp_path, SETTINGS)


def test_each_question_may_be_tried_several_times() -> None:
    dataset = sampled(items(2), 3)
    assert len({item.id for item in dataset}) == 6
    assert dataset[0].id == items(2)[0].id
    records = {item.id: record(item, correct=item.question == "question 0") for item in dataset}
    assert interval(dataset, records) == (0.0, 1.0)
    assert summarise(dataset, records).total.accuracy == 0.5


def test_tries_of_one_question_are_not_independent() -> None:
    """Four tries each of 50 questions that are always right or always wrong tell no more than one try each."""
    dataset = sampled(items(50), 4)
    records = {item.id: record(item, correct=int(item.question.split()[-1]) % 2 == 0) for item in dataset}
    low, high = interval(dataset, records)
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(49), abs=1e-6)
