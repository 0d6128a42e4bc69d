"""Sources that are found below a folder, their updates, and the groups of a step of training."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.results_store import store_scores
from agentflow.graph.run.trace import Trace, append
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.rl.run.training_log import TrainingLog
from agentflow.view.groups import groups
from agentflow.view.run_index import Root, RunIndex
from agentflow.view.sources import LIVE_SECONDS, Source, TraceFile, Training
from tests.runs import record, turn, write_run
from tests.trainings import begin, rollout, write_step, write_validation


def index(*roots: Path, **options: Any) -> RunIndex:
    made = RunIndex([Root(root, **options) for root in roots])
    while made.refresh():
        pass
    return made


def only(index: RunIndex) -> Source:
    [source] = index.sources.values()
    return source


def training_of(index: RunIndex) -> Training:
    source = only(index)
    assert isinstance(source, Training)
    return source


def test_each_kind_is_found_below_a_folder_or_by_its_name_and_foreign_files_are_not(tmp_path: Path) -> None:
    write_run(tmp_path / "deep" / "er" / "eval", [record(0)])
    write_step(begin(tmp_path / "training", 3), 1, [rollout(1, "train", "a", 1.0)])
    append(tmp_path / "first.jsonl", Trace(**record(1).own_fields))
    (tmp_path / "foreign.jsonl").write_text('{"messages": []}\n')
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / ".hidden").mkdir()
    append(tmp_path / ".hidden" / "x.jsonl", Trace(**record(1).own_fields))
    (tmp_path / "deep" / "settings.json").write_text('{"a":' * 10_000)  # which no parser reads
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    found = index(tmp_path)
    assert found.complete
    kinds = {source.name: source.kind for source in found.sources.values()}
    assert kinds == {"deep/er/eval": "evaluation", "training": "training", "first.jsonl": "traces"}
    named = index(tmp_path / "deep" / "er" / "eval", tmp_path / "first.jsonl").sources.values()
    assert {source.name for source in named} == {"eval", "first.jsonl"}


def test_a_source_that_fails_is_named_once_and_hides_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(tmp_path / "run", [record(0)])
    append(tmp_path / "first.jsonl", Trace(**record(1).own_fields))
    monkeypatch.setattr(TraceFile, "refresh", lambda self: 1 / 0 if type(self) is TraceFile else (False, False))
    found = index(tmp_path)
    found.refresh()
    assert len(caplog.records) == 1
    assert found.complete
    assert {source.name for source in found.sources.values()} == {"run", "first.jsonl"}


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside" / "eval", [record(0)])
    append(tmp_path / "outside" / "first.jsonl", Trace(**record(1).own_fields))
    inside = tmp_path / "inside"
    real = write_run(inside / "real", [record(0)])
    (real / "traces.jsonl").unlink()
    for link, end in (("eval", ""), ("first.jsonl", "../first.jsonl"), ("real/traces.jsonl", "traces.jsonl")):
        (inside / link).symlink_to(outside / end)
    assert [len(source.rows()) for source in index(inside).sources.values()] == [0]


def test_the_last_line_and_the_last_score_of_a_try_count(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "eval", [record(0, error="down"), record(1)])
    append(folder / "traces.jsonl", record(0))
    found = index(tmp_path)
    assert [row.outcome for _, row in only(found).rows()] == ["correct", "correct"]
    store_scores(folder, [record(1, correct=False)], {})
    while found.refresh():
        pass
    assert [row.outcome for _, row in only(found).rows()] == ["correct", "incorrect"]


def test_new_lines_new_files_and_vanished_ones_are_seen(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "eval", [record(0)], questions=3)
    looking = index(tmp_path)
    version = looking.version
    looking.refresh()
    assert looking.version == version
    append(folder / "traces.jsonl", record(1, correct=False))
    looking.refresh()
    assert looking.version > version
    summary = only(looking).summary()
    assert (summary["ended"], summary["number"], summary["correct"], summary["live"]) == (2, 3, 1, True)
    for path in folder.iterdir():
        path.unlink()
    looking.refresh()
    assert looking.sources == {}


def test_broken_lines_are_counted_and_unknown_settings_are_still_shown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "eval", [record(0)])
    (folder / "settings.json").write_text('{"kind": "evaluation", "later": 1}')
    with (folder / "traces.jsonl").open("a") as file:
        file.write('{"id": 1}\nnot json\n\x00\n{"half')
    source = only(index(tmp_path))
    assert (source.broken, len(source.rows()), source.summary()["ended"]) == (3, 1, 1)


def test_a_training_says_what_it_does_while_it_is_live(tmp_path: Path) -> None:
    out = begin(tmp_path / "t", 5)
    (out / "tasks").mkdir()
    (out / "tasks" / "test.jsonl").write_text("{}\n" * 3)
    looking = index(tmp_path)
    training, written = training_of(looking), rollout(0, "test", "a", 1.0)
    path = TrainingLog(out).path_of(0, "test")

    def doing() -> tuple[str, bool]:
        looking.refresh()
        found = training.summary()
        return found["doing"], found["live"]

    assert doing() == ("starting", True)
    append(path, written)
    assert doing() == ("validating before training, 1 of 3", True)
    late = rollout(0, "test", "b", 0.0, status=RolloutStatus.TIMED_OUT)
    write_validation(out, 0, [written, late, late])
    assert doing() == ("", True)
    first = training.measured()[0]
    assert first["lost"] == {"timed_out": 2}
    assert 0.0 < first["interval"][0] < first["interval"][1] == 1.0  # of what is decided
    append(TrainingLog(out).path_of(1, "train"), rollout(1, "train", "a", 1.0))
    assert doing() == ("step 1: rollouts, 1 of 8", True)
    long_ago = time.time() - LIVE_SECONDS - 60
    for one in out.rglob("*.json*"):
        os.utime(one, (long_ago, long_ago))
    assert doing() == ("", False)


def test_a_training_that_goes_back_to_its_checkpoint_loses_what_came_after(tmp_path: Path) -> None:
    out = begin(tmp_path / "t", 5)
    write_validation(out, 0, [rollout(0, "test", "a", 0.0)])
    for step in (1, 2):
        write_step(out, step, [rollout(step, "train", "a", 1.0, turns=[turn()])])
    looking = index(tmp_path)
    training = training_of(looking)
    assert training.steps("train") == [1, 2]
    TrainingLog(out).rewind(1)
    looking.refresh()
    assert (training.steps("train"), training.steps("test"), training.summary()["step"]) == ([1], [0], 1)
    assert training.measured()[1]["tools"] == {"python_coder": 1}


def test_numbers_that_json_does_not_know_are_none(tmp_path: Path) -> None:
    out = begin(tmp_path / "t", 5)
    (out / "metrics.jsonl").write_text('{"step": 1, "split": "train", "reward": NaN}\n[]\n{"step": "x"}\n')
    training = only(index(tmp_path))
    assert training.summary()["rewards"] == [None]
    assert training.broken == 2
    json.dumps(training.summary(), allow_nan=False)


def test_advantages_are_those_that_were_trained_with(tmp_path: Path) -> None:
    rollouts = [
        rollout(1, "train", "a", 1.0, turns=[turn(), turn(2)]).credited([1.0, 0.7]),
        rollout(1, "train", "a", 0.0).credited([-1.0]),
        rollout(1, "train", "a", 0.0, status=RolloutStatus.ENDPOINT_FAILED),
        rollout(1, "train", "b", 1.0).credited([0.0]),
        rollout(1, "train", "b", 1.0).credited([0.0]),
    ]
    write_step(begin(tmp_path / "t", 1, algorithm={"name": "grpo", "penalty": 0.3}), 1, rollouts)
    training = training_of(index(tmp_path))
    step = groups(training.of_step(1, "train"), training.settings)
    a, b = step["groups"]
    assert [one["advantage"] for one in a["trajectories"]] == pytest.approx([0.85, -1.0, None])
    assert [list(one["advantages"]) for one in a["trajectories"]] == [[1.0, 0.7], [-1.0], []]
    assert (a["settled"], b["settled"]) == (False, True)
    assert (step["credited"], step["penalty"]) == (True, 0.3)
    assert step["formula"]


def test_a_step_that_is_credited_while_it_is_watched_is_read_again(tmp_path: Path) -> None:
    """The trainer rewrites the file of the step's rollouts."""
    out = begin(tmp_path / "t", 1, algorithm={"name": "grpo", "penalty": 0.3})
    write_step(out, 1, [rollout(1, "train", "a", reward, id=f"a/{reward:.0f}") for reward in (1.0, 0.0)])
    training = training_of(index(tmp_path))
    TrainingLog(out).credit(1, {"a/1": [1.0], "a/0": [-1.0]})
    while training.refresh()[1]:
        pass
    [group] = groups(training.of_step(1, "train"), training.settings)["groups"]
    assert [one["advantage"] for one in group["trajectories"]] == [1.0, -1.0]
