"""The whole of verl's trainer on the micro model, with the real graph and tools, from the command line."""

import json
from pathlib import Path

import pytest

from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.grpo import GRPO
from agentflow.rl.run.alarm import MAX_EXACT_DRIFT
from agentflow.rl.run.checkpoints import BEST, checkpoint_of, saved_steps
from agentflow.rl.run.export import export
from tests.integration.training import agentflow, lines, replayed, rollouts, token_step, train, trains

pytest.importorskip("verl")

pytestmark = trains


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "short"
    train(out, "steps=2")
    return out


def test_it_trains_validates_and_records_every_rollout(run: Path) -> None:
    steps = lines(run, "train")
    assert [line["step"] for line in steps] == [1, 2]
    assert [line["step"] for line in lines(run, "test")] == [0, 2]
    for line in steps:
        assert line["rollouts"] == len(rollouts(run, line["step"], "train")) == 8
        assert 0 <= line["reward"] <= 1
        assert line["kl"] < 0.1
    records = rollouts(run, 2, "test")
    assert len(records) == 4
    assert lines(run, "test")[-1]["accuracy"] == pytest.approx(sum(record.reward for record in records) / 4)
    assert any(record.turns and record.answer for record in records)


def test_it_goes_on_where_it_stopped(run: Path) -> None:
    done = train(run, "steps=3")
    assert [line["step"] for line in lines(run, "train")] == [1, 2, 3]
    assert len(rollouts(run, 3, "train")) == 8
    assert [line["step"] for line in lines(run, "test")] == [0, 2, 3]
    first, *_, last = (line["accuracy"] for line in lines(run, "test"))
    assert f"{first:.3f} before, {last:.3f} after" in done.stdout


def test_the_weights_of_the_best_step_are_kept(run: Path) -> None:
    accuracies = {line["step"]: line["accuracy"] for line in lines(run, "test")}
    best = max((2, 3), key=lambda step: (accuracies[step], step))
    assert saved_steps(run, BEST) == [best]
    kept = checkpoint_of(run, best, BEST)
    assert [path.name for path in kept.rglob("*.safetensors")]
    assert not [*kept.rglob("optim*")]
    assert [*checkpoint_of(run, 3).rglob("optim*")]


def test_the_same_seed_gives_the_same_batches_at_any_concurrency(run: Path, tmp_path: Path) -> None:
    """To the last bit, of ids, log-probabilities and credit."""
    options = ["actor_rollout_ref.rollout.max_num_seqs=3", "actor_rollout_ref.rollout.agent.num_workers=2"]
    train(tmp_path / "other", "steps=2", "test_tasks=1", *options)
    digests = [line["batch"] for line in lines(tmp_path / "other", "train")]
    assert digests == [line["batch"] for line in lines(run, "train")[:2]]
    assert len(set(digests)) == 2


def test_a_step_is_replayed(run: Path) -> None:
    said = replayed(run, 2)
    assert lines(run, "train")[1]["batch"] in said
    assert "8 rollouts run again" in said
    assert "the same as recorded" in said
    assert replayed(run, 2, "--split", "test")


def test_another_run_in_the_same_folder_is_refused(run: Path) -> None:
    done = train(run, "steps=3", "lr=0.5", check=False)
    assert done.returncode == 2
    assert "holds a run with other settings (lr)" in done.stderr


def test_an_export_answers_a_question(run: Path, tmp_path: Path) -> None:
    planner = tmp_path / "planner"
    agentflow("export", str(run), str(planner))
    said = agentflow("solve", "How many feet are 3 yards?", "--json", "--planner", f"embedded:{planner}")
    assert json.loads(said)["turns"]


def test_supervised_rollouts_of_a_teacher_lower_the_loss(tmp_path: Path) -> None:
    """The teacher is the shipped trained planner; every accepted plan is imitated token by token."""
    out = tmp_path / "taught"
    teacher = [
        "algorithm=sft",
        "flow.algorithm.teacher=embedded:trained",
        "questions=16",
        "rollouts=1",
        "train_tasks=16",
    ]
    train(out, *teacher, "steps=3", "test_tasks=4", "validate_every=3", "lr=1e-4")
    for step in (1, 2, 3):
        for record in rollouts(out, step, "train"):
            taken = [record.reward == 1 and not call.fault for call in record.calls]
            assert [call.advantage for call in record.calls] == [float(one) for one in taken]
        step_rows = token_step(out / f"tokens/{step:06}.jsonl.gz").rows
        calls = [call for row in step_rows for call in row.calls if call.trainer and call.updated]
        assert {value for call in calls for value in call.rollout} == {None}, "the teacher's probabilities are unknown"
        assert sum(sum(call.updated or ()) - sum(call.trainer or ()) for call in calls) > 0  # type: ignore[type-var]
    assert replayed(out, 3)
    _, checked = export(out, tmp_path / "planner")
    assert checked is not None
    assert checked.same


# The presets' options, and an adapter that two ranks train: several updates a step, at another temperature than 1


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "adapter"
    lora = [f"actor_rollout_ref.model.{key}" for key in ("lora_rank=4", "lora_alpha=8", "lora.merge=true")]
    ranks = ["trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2"]
    options = [
        *("algorithm=grpo", "flow.algorithm.penalty=0.3", "flow.updates=2", "temperature=0.7"),
        *(f"algorithm.rollout_correction.{key}" for key in ("bypass_mode=false", "rollout_is=token")),
        *("flow.mask_cut_off=true", "flow.pack_turns=false", "steps=1", "validate_every=1"),
        *("actor_rollout_ref.rollout.load_format=safetensors", "questions=4"),
        "lr=0.01",  # an update that rounding to 16 bits does not hide
    ]
    train(out, *lora, *ranks, *options)
    return out


def test_every_option_reaches_the_trainer(adapter: Path) -> None:
    (line,) = lines(adapter, "train")
    records = rollouts(adapter, 1, "train")
    assert line["rows"] == sum(len(record.calls) for record in records)
    assert line["gradient"] > 0
    assert line["drift"] < min(MAX_EXACT_DRIFT, line["logprob_change"])
    trained = [record for record in records if all(call.advantage is not None for call in record.calls)]
    faults = [[turn.result.error is not None for turn in record.turns] for record in trained]
    expected = GRPO(penalty=0.3).credit(
        [
            RolloutFacts(record.task.id, record.reward, [1] * len(record.calls), of)
            for record, of in zip(trained, faults, strict=True)
        ]
    )
    for record, credit in zip(trained, expected, strict=True):
        found = [call.advantage for call in record.calls]
        assert found == pytest.approx([one.advantage for one in credit], abs=1e-9)
    assert any(call.advantage for record in trained for call in record.calls)


def test_the_export_of_an_adapter_that_two_ranks_trained_is_what_they_trained(adapter: Path, tmp_path: Path) -> None:
    """Full weights are exported unrounded from elsewhere in a checkpoint; an adapter is put together and merged."""
    model = tmp_path / "planner"
    step, checked = export(adapter, model, adapter=True)
    assert step == 1
    assert checked is not None
    assert checked.after < checked.before / 2
    assert (model / "adapter" / "adapter_model.safetensors").is_file()


# The registered curve

CURVE = [
    *("steps=6", "questions=12", "rollouts=4", "train_tasks=4000", "seed=0", "validate_every=6", "save_every=6"),
    *("test_tasks=48", "validation_rollouts=4", "rollout_seconds=600"),
]
REGISTERED = 0.05
"""Rise of the held-out accuracy after 288 rollouts: the curve of docs/lab/learning.md, in miniature."""


def test_the_held_out_accuracy_rises_as_registered(tmp_path: Path) -> None:
    train(tmp_path / "run", *CURVE)
    before, after = (line["accuracy"] for line in lines(tmp_path / "run", "test"))
    assert after >= before + REGISTERED
