import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.statistics import paired_interval
from agentflow.graph.run.trace import append
from agentflow.rl.rollout.rollout import RolloutStatus, RolloutTrace
from agentflow.rl.run.training_log import TrainingLog
from tests.trainings import begin, last_tokens, rollout, token_step

OK, TIMED_OUT = RolloutStatus.OK, RolloutStatus.TIMED_OUT


def record(step: int, reward: float = 1.0, task: str = "t", **fields: Any) -> RolloutTrace:
    return rollout(step, "test", task, reward, **fields)


def step(log: TrainingLog, number: int) -> None:
    log.begin(number, "train")
    append(log.rollouts / f"{number:06d}-train.jsonl", record(number))
    log.step(number, {"reward": 0.5, "rollouts": 1, "sampled_tokens": 10, "actor/kl": 0.01}, {"step": 2.0, "gen": 1.0})


@pytest.fixture
def log(tmp_path: Path) -> TrainingLog:
    log = TrainingLog(tmp_path)
    log.rewind(0)
    for number in (1, 2, 3):
        step(log, number)
    return log


def test_a_step_is_a_line(log: TrainingLog) -> None:
    assert log.lines()[0] == {
        "step": 1,
        "split": "train",
        "reward": 0.5,
        "rollouts": 1,
        "sampled_tokens": 10,
        "kl": 0.01,
        "tokens_per_second": 5.0,
        "seconds/step": 2.0,
        "seconds/rollouts": 1.0,
    }


def test_what_came_after_the_checkpoint_is_taken_back(log: TrainingLog) -> None:
    with (log.out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "spl')
    for number in (1, 2, 3):
        log.tokens(token_step(number, "t", []))
    log.rewind(2)
    assert sorted(path.name for path in (log.out / "tokens").iterdir()) == ["000001.jsonl.gz", "000002.jsonl.gz"]
    step(log, 3)
    assert [line["step"] for line in log.lines()] == [1, 2, 3]
    assert sorted(path.name for path in log.rollouts.iterdir()) == [f"00000{n}-train.jsonl" for n in (1, 2, 3)]
    assert all(json.loads(line) for line in (log.out / "metrics.jsonl").read_text().splitlines())
    (log.out / "tokens" / "000002.jsonl.gz").write_bytes(b"torn")
    assert last_tokens(log) == token_step(1, "t", [])


def test_accuracies_are_compared_on_as_many_rollouts(log: TrainingLog) -> None:
    """The number of held-out tasks may change when a run resumes."""
    for number, rewards in ((0, [1.0]), (1, [1.0, 0.0]), (3, [0.0, 0.0])):
        for reward in rewards:
            append(log.rollouts / f"{number:06d}-test.jsonl", record(number, reward))
        log.validation(number)
    assert log.accuracies() == {1: 0.5, 3: 0.0}


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_was_killed_after_its_checkpoint_has_the_line_of_the_step(log: TrainingLog, written: bool) -> None:
    """The line was written after the validation; a run that was killed in it had none for the step, and no digest."""
    metrics = {"reward": 0.25, "batch": "d1", "actor/kl": 0.5, "perf/mfu/actor": 1.0}
    log.set_pending(4, metrics, {"step": 2.0})
    if written:
        log.step(4, metrics, {"step": 3.0})
    resumed = TrainingLog(log.out)
    resumed.rewind(4)
    assert (resumed.add_pending() is None) == written
    assert resumed.add_pending() is None
    assert [line["step"] for line in resumed.lines()] == [1, 2, 3, 4]
    line = resumed.lines()[-1]
    assert (line["reward"], line["batch"], line["kl"]) == (0.25, "d1", 0.5)
    assert "perf/mfu/actor" not in line


def test_a_line_that_was_pending_raises_its_alarm_and_is_taken_back_with_its_checkpoint(log: TrainingLog) -> None:
    log.set_pending(4, {"reward": 0.25, "actor/kl": 9.0}, {"step": 2.0})
    line = log.add_pending()
    assert line is not None
    assert line["alarm"]["cause"] == "learning rate"
    assert log.lines()[-1]["alarm"] == line["alarm"]
    log.set_pending(5, {"reward": 0.25}, {"step": 2.0})
    log.rewind(3)
    assert log.add_pending() is None
    assert [line["step"] for line in log.lines()] == [1, 2, 3]


def validated(log: TrainingLog, step: int, rewards: dict[str, list[float]]) -> None:
    for task, tries in rewards.items():
        for number, reward in enumerate(tries):
            append(log.path_of(step, "test"), record(step, reward, task, id=f"{task}/{number}"))
    log.validation(step)


def test_the_last_validation_is_compared_with_that_before_training_by_task(log: TrainingLog) -> None:
    validated(log, 3, {"a": [1.0]})
    assert log.held_out() is None, "nothing was validated before"
    log.rewind(0)
    validated(log, 0, {"a": [0.0, 1.0], "b": [0.0, 0.0], "gone": [1.0]})
    assert log.held_out() is None, "nothing has been trained"
    validated(log, 2, {"a": [0.0, 0.0], "b": [0.0, 0.0]})
    validated(log, 3, {"a": [1.0, 1.0], "b": [1.0, 0.0]})
    held_out = log.held_out()
    assert held_out is not None
    assert (held_out.tasks, held_out.before, held_out.after) == (2, 0.25, 0.75)
    assert (held_out.low, held_out.high) == pytest.approx(paired_interval([0.5, 0.5]))


def test_what_is_played_again_counts_once(log: TrainingLog) -> None:
    """A rollout whose process was killed after its record, since the end of its replay log is missing; and a step."""
    [first] = log.records(3, "train")
    append(log.path_of(3, "train"), first)
    assert log.records(3, "train") == [first]
    log.begin(3, "train")
    append(log.path_of(3, "train"), record(3))
    assert len(log.records(3, "train")) == 1


def test_a_validation_counts_what_the_policy_broke(log: TrainingLog) -> None:
    """As in training; a line that a kill left incomplete does not count."""
    path = log.rollouts / "000003-test.jsonl"
    broken = record(3, 0.0, status=RolloutStatus.POLICY_FAILED)
    for found in (record(3, family="a"), broken, record(3, 0.0), record(3)):
        append(path, found)
    with path.open("a") as file:
        file.write('{"step": 3, "fam')
    log.validation(3)
    line = log.lines()[-1]
    assert (line["step"], line["split"], line["rollouts"], line["accuracy"]) == (3, "test", 4, 0.5)
    assert line["families"] == {"a": 1.0, "sums": pytest.approx(1 / 3)}
    assert line["status/policy_failed"] == 1
    assert "lost" not in line
    assert line["pass_at"] == {"2": pytest.approx(5 / 6), "4": 1.0}


@pytest.mark.parametrize(
    ("slow", "zero", "accuracy", "left_out", "lost"),
    [
        (0, [], 0.5, 0.0, None),
        (1, [], 10 / 19, 0.05, None),
        (2, [], 10 / 18, 0.1, "2 of 20 tries ran out of time: the machine is busy"),
        (2, ["limit"], 0.5, 0.0, None),
        (20, [], None, 1.0, "20 of 20 tries ran out of time: the machine is busy"),
    ],
)
def test_tries_that_a_busy_machine_lost_are_not_wrong(
    slow: int, zero: list[str], accuracy: float | None, left_out: float, lost: str | None, tmp_path: Path
) -> None:
    log = TrainingLog(begin(tmp_path, 2, count_as_zero=zero))
    for step in (0, 1):
        for number in range(20):
            late = step == 1 and number < slow
            right, status = not late and number >= 10, TIMED_OUT if late else OK
            append(log.path_of(step, "test"), record(step, float(right), f"t{number // 4}", status=status))
        log.validation(step)
    line = log.lines()[-1]
    assert (line.get("accuracy"), line["left_out"]) == (pytest.approx(accuracy and round(accuracy, 6)), left_out)
    assert (line.get("lost") or "").startswith(lost or "")
    assert ("lost" in line, log.lost() != "", log.held_out() is None, 1 not in log.accuracies()) == (bool(lost),) * 4
    assert list(line["pass_at"]) == ([] if slow == 20 else ["2", "4"])


def test_workers_that_died_are_named_in_the_line_of_their_step(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    log.step(1, {"reward": 0.5}, {"step": 2.0}, ["rollout worker 0"])
    log.validation(1, ["rollout worker 1", "rollout worker 2"])
    log.step(2, {"reward": 0.5}, {"step": 2.0})
    named = [line.get("restarted") for line in log.lines()]
    assert named == [["rollout worker 0"], ["rollout worker 1", "rollout worker 2"], None]


def test_figures_of_nodes_are_recorded_by_path(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path)
    log.step(1, {"reward": 0.5, "node/team/critic/calls": 3, "node/team/critic/reward": 0.5}, {"step": 1.0})
    log.step(2, {"reward": 0.5}, {"step": 1.0})
    first, second = log.lines()
    assert first["nodes"] == {"team/critic": {"calls": 3, "reward": 0.5}}
    assert "nodes" not in second
