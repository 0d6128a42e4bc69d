"""Replay of certified steps: verl's trainer repeats them from the checkpoint before, in a folder of its own.

The recorded responses play the rollouts, so a machine need not sample the same tokens to repeat an update; with
`sample`, the rollouts are sampled anew. Batches must have the recorded digests. Losses and weights must be equal to the
bit where the kernels are those of the run, and else within bounds, since sums in another order are rounded otherwise.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.evals.run_folder import read_settings
from agentflow.rl.certificate.check import named_differences
from agentflow.rl.certificate.contents import Contents, start_folder
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.certificate.segments import Segment
from agentflow.rl.certificate.weights import Delta, Weights
from agentflow.rl.checkpoints import FOLDER, LATEST, checkpoint_of
from agentflow.rl.launch import TrainingFailed
from agentflow.rl.run_starts import Start, read_starts, start_of
from agentflow.rl.settings import SettingsError, TrainingSettings, quiet_verl
from agentflow.rl.train import CHANGEABLE, train_composed
from agentflow.rl.training_log import Line, TrainingLog

FAILED = "replay_failed"
"""Code of the error of a replay that began and did not reach its end."""

LOSSES = ("nll", "kl", "clip_fraction", "gradient")
"""Metrics of an update that are compared."""

LOSS_BOUND = 1e-2
"""Largest difference of a loss that is due to kernels, relative to its size."""

ROUNDED = 1e-6
"""Largest difference of a loss that is due to its rounding in metrics.jsonl."""

WEIGHT_BOUND = 1e-2
"""Largest difference of weights that is due to kernels, as a share of their change: |replayed - recorded| / |change|,
with Euclidean norms over all weights."""


@dataclass(frozen=True)
class ReplayedStep:
    """A step that was repeated."""

    step: int
    batch: bool
    """Whether the batch has the recorded digest."""
    losses: dict[str, tuple[float, float]]
    """Each loss as recorded and as replayed."""

    def differences(self, *, exact: bool) -> list[str]:
        """Return what differs, by name, to the bit or by more than the bounds."""
        found = [] if self.batch else [f"step {self.step} replayed: batch"]
        for name, (recorded, replayed) in self.losses.items():
            bound = 0.0 if exact else LOSS_BOUND * abs(recorded) + ROUNDED
            if not abs(replayed - recorded) <= bound:
                found.append(f"step {self.step} replayed: {name} {replayed:g}, {recorded:g} recorded")
        return found


@dataclass(frozen=True)
class WeightDistance:
    """How far replayed weights are from recorded ones."""

    share: float
    """|replayed - recorded| / |change since the checkpoint before|; 0 where they are equal to the bit."""
    largest: float
    """Largest difference of a weight."""


@dataclass(frozen=True)
class Replayed:
    """A segment that was repeated."""

    segment: Segment
    program: list[str]
    """Names of code, packages and settings that differ between the run and the replay."""
    kernels: list[str]
    """Kernels that differ between the run and this machine."""
    exact: bool
    """Whether the bits must be equal: the kernels are those of the run, and those of a CPU."""
    steps: list[ReplayedStep]
    weights: WeightDistance | None
    """None where no checkpoint with safetensors files was certified at its end."""

    @property
    def differences(self) -> list[str]:
        """Return what differs, by name."""
        found = self.program + [name for step in self.steps for name in step.differences(exact=self.exact)]
        if self.weights and not self.weights.share <= (0.0 if self.exact else WEIGHT_BOUND):
            found.append(f"weights of step {self.segment.end} replayed: {self.weights.share:.2g} of their change apart")
        return found


def replay(
    run: Path,
    certified: Contents,
    segment: Segment,
    *,
    seed: Path | None = None,
    sample: bool = False,
    on_line: Callable[[Line], None] = lambda line: None,
) -> Replayed:
    """Repeat a segment of a run whose folder was checked against its certificate.

    This runs the code of the app, and unpickles checkpoints: the signer must be trusted.

    Args:
        run: The run's folder.
        certified: The contents of the certificate.
        segment: The steps to repeat.
        seed: Folder of the start weights, where it is not the one that the settings name.
        sample: Sample the rollouts anew instead of playing the recorded ones.
        on_line: Called with the metrics of each step.

    Raises:
        CertificateError: The steps cannot be repeated here.
    """
    start = start_of(read_starts(run), segment.begin + 1)
    missing = [step for step in segment.steps if not TrainingLog(run).replay_log_of(step, "train").is_file()]
    if missing and not sample:
        raise CertificateError(
            f"{run} has no recorded responses of step {missing[0]}; runs with replay_logs=true keep them",
            code="no_logs",
        )
    settings = read_settings(run, TrainingSettings)
    if sample and settings.max_staleness:
        raise CertificateError(
            f"{run} was trained with max_staleness={settings.max_staleness}, where time decides which weights sample a "
            "reply; its recorded replies can be replayed, without --sample",
            code="not_repeatable",
        )
    first = seed or start_folder(settings.start)
    quiet_verl()
    work = Path(tempfile.mkdtemp(prefix="agentflow-verify-"))
    try:
        train_composed(_configuration(run, start, segment, work, first, sample), on_line=on_line)
    except SettingsError as error:
        raise CertificateError(f"steps cannot be replayed here: {error}", code=error.code) from error
    except TrainingFailed as error:
        raise CertificateError(f"the replay from step {segment.begin + 1} failed: {error}", code=FAILED) from error
    [here] = read_starts(work, first=segment.begin)
    kernels = here.kernels.differences(start.kernels)
    recorded, replayed = ({line["step"]: line for line in _trained(folder)} for folder in (run, work))
    found = Replayed(
        segment=segment,
        program=[f"replayed with: {name}" for name in (*_other_code(start, here), *_other_settings(run, work))],
        kernels=kernels,
        exact=not kernels and here.kernels.device == "cpu",
        steps=[_compared_step(certified, step, recorded[step], replayed.get(step, {})) for step in segment.steps],
        weights=_distance(run, certified, segment, work, first),
    )
    shutil.rmtree(work, ignore_errors=True)  # kept where the replay failed, with the logs of its workers
    return found


def _configuration(run: Path, start: Start, segment: Segment, work: Path, first: Path, sample: bool) -> DictConfig:
    """Return the run's configuration, to repeat a segment in the folder `work`, which gets the checkpoint before it."""
    config = OmegaConf.create(start.config)
    changes: dict[str, Any] = {
        "out": str(work),
        "start": str(first.absolute()),
        "steps": segment.end,
        "save_every": segment.end,
        "keep": segment.end + 1,  # verl would delete the checkpoint that it began from
        "validate_every": -1,
        "trainer.val_before_train": False,
        "replay_from": "" if sample else str(run.absolute()),
        "replay_logs": False,
        "rehearsal": False,
        "preview": 0,
        "token_groups": 0,
        "tracing": "",
    }
    with open_dict(config):
        config.pop("policies", None)  # their names; the app has their nodes
        for name, value in changes.items():
            OmegaConf.update(config, name, value)
    os.environ["OMP_NUM_THREADS"] = str(start.kernels.threads)
    if segment.begin:
        (work / FOLDER).mkdir()
        checkpoint_of(work, segment.begin).symlink_to(checkpoint_of(run, segment.begin).absolute())
        (work / FOLDER / LATEST).write_text(str(segment.begin))
    return config


def _trained(folder: Path) -> Sequence[Line]:
    return [line for line in TrainingLog(folder).lines() if line["split"] == "train"]


def _other_code(start: Start, here: Start) -> list[str]:
    code, versions = named_differences(start.code, here.code), named_differences(start.versions, here.versions)
    return [*(f"code of {name}" for name in code), *(f"version of {name}" for name in versions)]


def _other_settings(run: Path, work: Path) -> list[str]:
    """Return the settings of the run that are not those of the configuration with which it was replayed."""
    changed = CHANGEABLE | {"start", "replay_from"}
    before, now = (read_settings(folder, TrainingSettings).model_dump(exclude=changed) for folder in (run, work))
    return [f"setting {name}" for name in before if before[name] != now[name]]


def _compared_step(certified: Contents, step: int, recorded: Line, replayed: Line) -> ReplayedStep:
    digest = certified.batches[f"{step} train"].digest
    losses = {name: (recorded[name], replayed.get(name, math.nan)) for name in LOSSES if name in recorded}
    return ReplayedStep(step, bool(digest) and replayed.get("batch") == digest, losses)


def _distance(run: Path, certified: Contents, segment: Segment, work: Path, first: Path) -> WeightDistance | None:
    """Compare the weights at the end of a segment; `first` is the folder of the start weights."""
    known = certified.checkpoints.get(segment.end)
    if known is None or not known.delta:
        return None
    begin = Weights.of_checkpoint(checkpoint_of(run, segment.begin)) if segment.begin else Weights.of_model(first)
    after, again = (Weights.of_checkpoint(checkpoint_of(folder, segment.end)) for folder in (run, work))
    if not Delta(after, again):
        return WeightDistance(math.inf, math.inf)
    if Delta(begin, again).hash() == known.delta:
        return WeightDistance(0.0, 0.0)
    apart, change = Delta(after, again), Delta(begin, after).norm()
    return WeightDistance(apart.norm() / change if change else math.inf, apart.largest())
