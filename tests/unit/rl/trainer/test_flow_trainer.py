"""Weight syncs that fail, and validations of runs that resume."""

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from omegaconf import OmegaConf

from agentflow.graph.run.trace import append
from agentflow.rl.launch.checks import check_verl
from agentflow.rl.rollout.batch import rows_with_padding
from agentflow.rl.run.checkpoints import ACTOR, BEST, FOLDER, LATEST, checkpoint_of, saved_steps
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.settings import compose_settings
from agentflow.rl.trainer.flow_trainer import Alarmed, FlowTrainer, _laid_out, _single_precision
from agentflow.rl.trainer.prefetch import PrefetchingTrainer
from agentflow.rl.trainer.watch import SyncFailed
from tests.cases import table
from tests.trainings import begin, rollout
from tests.unit.rl.configs import changed, composed


@pytest.fixture
def trainer() -> FlowTrainer:
    """A trainer after step 3, without workers."""
    found = FlowTrainer.__new__(FlowTrainer)
    found.config, found.global_steps = OmegaConf.create({"sync_seconds": 0.05}), 3
    return found


def test_a_weight_sync_that_stalls_or_fails_ends_the_run(trainer: FlowTrainer) -> None:
    answered = threading.Event()
    with pytest.raises(SyncFailed, match=r"step 3 .*sync_seconds=0\.05"):
        trainer._sync(lambda: answered.wait() and None)
    answered.set()

    def send() -> None:
        raise ray.exceptions.RaySystemError("no loader")

    with pytest.raises(SyncFailed, match=r"step 3 .*no loader"):
        trainer._sync(send)


@pytest.mark.parametrize(("setting", "ends"), [("warn", False), ("stop", True)])
def test_an_alarm_ends_a_run_that_is_to_stop_then(
    trainer: FlowTrainer, setting: str, ends: bool, tmp_path: Path
) -> None:
    trainer.config, trainer.log = OmegaConf.create({"alarm": setting}), TrainingLog(begin(tmp_path, 3))
    trainer._check_alarm(trainer.log.step(1, {"reward": 0.5, "actor/kl": 0.1}, {"step": 1.0}))
    line = trainer.log.step(2, {"reward": 0.5, "actor/kl": 0.9}, {"step": 1.0})
    with pytest.raises(Alarmed, match=r"step 2: .*0\.90") if ends else nullcontext():
        trainer._check_alarm(line)
    assert [line["step"] for line in trainer.log.lines()] == [1, 2], "the line of the step is kept"


@pytest.mark.parametrize(("step", "every", "first", "validated", "expected"), table(__file__, "validations.txt"))
def test_a_run_that_resumes_validates_what_is_due_and_nothing_twice(
    trainer: FlowTrainer, step: int, every: int, first: bool, validated: list[int], expected: bool
) -> None:
    """A resumed run validated its first step again, whether it was due or not, and the step had two lines.

    A run that was killed in the validation after its last step never had it.
    """
    trainer.config = OmegaConf.create({"trainer": {"test_freq": every, "val_only": False, "val_before_train": first}})
    trainer.global_steps, trainer.total_training_steps = step, 7
    lines = [{"step": 4, "split": "train"}, *({"step": one, "split": "test"} for one in validated)]
    trainer.log = SimpleNamespace(lines=lambda: lines)
    assert trainer._validates_first() == expected
    trainer.config.trainer.val_only = True
    assert trainer._validates_first()


def test_the_weights_of_the_best_validation_are_kept(
    trainer: FlowTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer.log, trainer.restarted = TrainingLog(begin(tmp_path, 4)), []

    def validate(self: FlowTrainer) -> dict[str, float]:
        right = {1: 1, 2: 2, 3: 0}[self.global_steps]
        for one in range(2):
            path = self.log.path_of(self.global_steps, "test")
            append(path, rollout(self.global_steps, "test", f"t{one}", float(one < right)))
        return {}

    monkeypatch.setattr(PrefetchingTrainer, "_validate", validate)
    for step in (1, 2, 3):
        trainer.global_steps = step
        (checkpoint_of(tmp_path, step) / ACTOR).mkdir(parents=True)
        (tmp_path / FOLDER / LATEST).write_text(str(step))
        trainer._validate()
    assert saved_steps(tmp_path, BEST) == [2]


@pytest.mark.parametrize("setting", ["warn", "stop"])
def test_a_checkpoint_whose_line_was_not_written_gives_it_to_the_run_that_resumes(
    trainer: FlowTrainer, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer.config, trainer.log = OmegaConf.create({"alarm": setting}), TrainingLog(begin(tmp_path, 4))
    trainer._figures = {"reward": 0.5, "batch": "d3", "fault_rate": 0.9}, {"step": 1.0}
    saved = []
    monkeypatch.setattr(
        PrefetchingTrainer, "_save_checkpoint", lambda self: saved.append((tmp_path / "pending.json").exists())
    )
    monkeypatch.setattr(PrefetchingTrainer, "on_train_begin", lambda self: None)
    trainer._save_checkpoint()
    assert saved == [True]
    with pytest.raises(Alarmed, match="step 3") if setting == "stop" else nullcontext():
        trainer.on_train_begin()
    assert [(line["step"], line["batch"]) for line in trainer.log.lines()] == [(3, "d3")]


@pytest.mark.parametrize(
    ("preset", "changed", "exact"),
    [
        ("atlas-cpu", [], True),
        ("smollm2-cpu", ["start=model"], False),
        ("qwen2.5-7b", [], False),
        ("qwen2.5-7b", ["actor_rollout_ref.rollout.dtype=float32"], False),
    ],
)
def test_engines_agree_to_single_precision_where_both_compute_in_it(
    preset: str, changed: list[str], exact: bool
) -> None:
    assert _single_precision(compose_settings(preset, changed)) is exact


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize(("sizes", "multiple"), [([256], 1), ([24] * 10 + [16], 1), ([71, 3], 4), ([1], 3)])
def test_any_number_of_ranks_gets_the_same_rows_of_each_update(sizes: list[int], multiple: int, ranks: int) -> None:
    """verl refused 256 rows on 7 ranks, and with 28 questions died at the first update: 64 % 7."""
    parts = [[f"{update}_{number}" for number in range(size)] for update, size in enumerate(sizes)]
    rows = rows_with_padding(parts, ranks=ranks, multiple=multiple)
    each = rows // ranks // len(parts)
    assert rows == each * ranks * len(parts)
    assert each % multiple == 0
    assert each * ranks - max(sizes) < ranks * multiple
    lengths = {key: 5 + number % 7 for number, key in enumerate(key for part in parts for key in part)}
    lengths |= {f"pad_{number}": 2 for number in range(rows - len(lengths))}
    order = _laid_out(parts, lengths, ranks)
    assert sorted(order) == sorted(lengths)
    cells = [order[start : start + each] for start in range(0, rows, each)]
    for update, part in enumerate(parts):
        own = [key for cell in cells[update :: len(parts)] for key in cell if not key.startswith("pad")]
        assert sorted(own) == sorted(part)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ranks", range(1, 9))
def test_the_paper_preset_may_run_on_any_number_of_gpus(ranks: int) -> None:
    check_verl(changed(composed("qwen2.5-7b"), f"trainer.n_gpus_per_node={ranks}"))
