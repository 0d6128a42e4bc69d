"""A step that was trained on, run again from its replay logs."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.globals import set_llm_cache

pytest.importorskip("verl")

from agentflow.nodes.planner import PROMPTS as PLANNER
from agentflow.rl.apps import planner
from agentflow.rl.apps.loading import load_app
from agentflow.rl.rollout.batch import assign_credit, batch_digest, counts, facts_of
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.replay_log import ReplayLogs, recorded, replaying
from agentflow.rl.rollout.rollout import run
from agentflow.rl.run.replay import Replay, ReplayError
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.settings import TrainingSettings, compose_settings
from tests.failing import fails
from tests.unit.rl.apps.test_planner import nonsense, oracle

QUESTIONS, ROLLOUTS = 3, 4


@pytest.fixture(autouse=True)
def no_cache() -> Any:
    yield
    set_llm_cache(None)


@pytest.fixture(scope="module")
def run_of_one_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    asyncio.run(record(out))
    return out


@pytest.fixture
def out(run_of_one_step: Path, tmp_path: Path) -> Path:
    """A copy of the run, which a test may change."""
    return shutil.copytree(run_of_one_step, tmp_path / "run")


async def record(out: Path) -> None:
    """A run of one step, in which every other rollout plans nonsense."""
    overrides = ["options.frozen=atlas-oracle", f"out={out}", f"train_tasks={QUESTIONS}", f"questions={QUESTIONS}"]
    settings = TrainingSettings.of(compose_settings("atlas-cpu", overrides))
    (out / "settings.json").write_text(settings.model_dump_json())
    log = TrainingLog(out)
    log.rewind(0)
    app = load_app(settings.app, **settings.options)
    graph, replay_logs = app.built(), ReplayLogs(log.replay_log_of(1, "train"))
    rows: dict[str, Any] = {}

    async def rollout(session: int, task: Any) -> None:
        replay_log = replay_logs.of(f"{task.id}/{session}")
        with replaying(replay_log):
            generate = recorded(nonsense if session % 2 else oracle)
            trajectory = await run(app, graph, task, generate, id="r", seconds=3600)
        replay_log.ended(trajectory.status, trajectory.reward)
        counted = counts(trajectory, mask_cut_off=False, count_as_zero=[])
        for number, row in enumerate(pack(trajectory.calls, limit=settings.response_tokens)):
            key = f"{hash(task.id)}_{session}_{number}"
            rows[key] = facts_of(row, trajectory, replay_log.rollout, counted=counted)

    tasks = app.tasks("train", QUESTIONS)
    await asyncio.gather(*(rollout(session, task) for session in range(ROLLOUTS) for task in reversed(tasks)))
    batch = batch_digest(rows, assign_credit(rows, settings.flow.algorithm))
    log.step(1, {"batch": batch, "reward": 0.5}, {"step": 1.0})


async def test_the_same_batch_comes_of_the_same_answers(out: Path) -> None:
    replay, seen = Replay(out, None, "train"), []
    found = await replay.run(lambda: seen.append(1))
    assert len(seen) == found.rollouts == QUESTIONS * ROLLOUTS
    assert found.differences == []
    assert found.batch == found.recorded != ""
    assert found.same


async def test_code_that_changed_is_told_by_the_rollouts_that_differ(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "reward", lambda task, state: 0.25)
    found = await Replay(out, 1, "train").run()
    assert not found.same
    assert found.differences[0] == "train-0/0: reward 0.25, 1 before"
    assert found.batch != found.recorded


async def test_a_prompt_that_changed_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNER, "paper", "Plan. {tools}")
    found = await Replay(out, 1, "train").run()
    assert len(found.differences) == QUESTIONS * ROLLOUTS
    assert "a request to the policy that was not made before" in found.differences[0]


async def test_a_changed_estimator_is_told_though_no_rollout_differs(out: Path) -> None:
    path = out / "settings.json"
    settings = json.loads(path.read_text())
    settings["flow"]["algorithm"]["penalty"] = 0.5
    path.write_text(json.dumps(settings))
    found = await Replay(out, 1, "train").run()
    assert (found.same, found.differences) == (False, [])


async def test_a_rollout_that_broke_off_breaks_off_again(out: Path) -> None:
    replay_log = TrainingLog(out).replay_log_of(1, "train")
    lines = [json.loads(line) for line in replay_log.read_text().splitlines()]
    ours = [line for line in lines if line["rollout"] == "train-0/0"]
    ours[-1]["answer"] = {"status": "timed_out", "reward": 0.0}
    lines.remove(next(line for line in ours if line["kind"] == "model"))
    replay_log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (await Replay(out, 1, "train").run()).differences == []


@pytest.mark.parametrize(("step", "split", "code"), [(7, "train", "unknown_step"), (None, "test", "no_logs")])
def test_what_is_not_there_is_said(out: Path, step: int | None, split: Any, code: str) -> None:
    with fails(ReplayError, code, step or split):
        Replay(out, step, split)
