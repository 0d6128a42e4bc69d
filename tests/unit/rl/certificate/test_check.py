"""Whatever is altered in a run after it was certified is found, and named."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")

import torch
from safetensors.torch import load_file, save_file

from agentflow.rl.certificate import check
from agentflow.rl.certificate.check import altered, other_code
from agentflow.rl.certificate.contents import Contents, contents_of
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.replay_log import as_answer, as_reply
from agentflow.rl.run_starts import OWN, STARTS
from agentflow.rl.training_log import TrainingLog
from tests.failing import fails
from tests.unit.rl.certificate.runs import KERNELS, edit_lines, write_start

REPLAY, ROLLOUTS = "replay/000001-train.jsonl", "rollouts/000001-train.jsonl"
MODEL = "checkpoints/global_step_1/actor/huggingface/model.safetensors"


def _reply(run: Path, **changes: Any) -> None:
    """Change the policy's first recorded reply."""

    def change(entry: dict[str, Any]) -> None:
        reply = as_reply(entry["answer"])
        for name, value in changes.items():
            getattr(reply, name)[0] = value
        entry["answer"] = as_answer(reply)

    edit_lines(run / REPLAY, change)


def _answer(run: Path, line: int, **changes: Any) -> None:
    edit_lines(run / REPLAY, lambda entry: entry["answer"].update(changes), line=line)


def _weight(path: Path) -> None:
    tensors = load_file(path)
    tensors["w"][1, 1] += 2**-20
    save_file(tensors, path)


def _settings(run: Path) -> None:
    edit_lines(run / "settings.json", lambda settings: settings.update(lr=0.5))


ALTERATIONS: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "code": (
        lambda run: edit_lines(run / STARTS, lambda start: start["code"].update({OWN: "0" * 64})),
        {f"start after step 0: code of {OWN}"},
    ),
    "version": (
        lambda run: edit_lines(run / STARTS, lambda start: start["versions"].update(torch="1.0")),
        {"start after step 0: version of torch"},
    ),
    "kernels": (
        lambda run: edit_lines(run / STARTS, lambda start: start["kernels"].update(threads=3)),
        {"start after step 0: kernels"},
    ),
    "configuration": (
        lambda run: edit_lines(run / STARTS, lambda start: start["config"].update(lr=0.2)),
        {"start after step 0: configuration of lr"},
    ),
    "seed weights": (
        lambda run: _weight(run.parent / "seed/model.safetensors"),
        {"seed weights: model.safetensors", "weight delta of steps 1 to 1"},
    ),
    "train tasks": (
        lambda run: (run / "tasks/train.jsonl").write_text("{}\n"),
        {"data: train.jsonl"},
    ),
    "test tasks": (lambda run: (run / "tasks/test.jsonl").unlink(), {"data: test.jsonl (missing)"}),
    "tokenizer": (lambda run: (run / "tokenizer/tokenizer.json").write_text(""), {"file: tokenizer.json"}),
    "another file": (lambda run: (run / "tokenizer/more.json").write_text(""), {"file: more.json (added)"}),
    "agent loop": (lambda run: (run / "agent_loop.yaml").write_text(""), {"file: agent_loop.yaml"}),
    "setting": (_settings, {"setting: lr"}),
    "sampled token": (lambda run: _reply(run, token_ids=8), {"step 1 train: tokens"}),
    "prompt token": (lambda run: _reply(run, prompt_ids=8), {"step 1 train: tokens"}),
    "log-probability": (
        lambda run: _reply(run, logprobs=float(np.nextafter(np.float32(-0.5), np.float32(0)))),
        {"step 1 train: logprobs"},
    ),
    "reward": (lambda run: _answer(run, 2, reward=1.0), {"step 1 train: rewards"}),
    "recorded reward": (
        lambda run: edit_lines(run / ROLLOUTS, lambda record: record.update(reward=1.0)),
        {"step 1 train: rewards", "step 1 train: rollouts"},
    ),
    "mask": (
        lambda run: edit_lines(run / ROLLOUTS, lambda record: record["calls"][0].update(sampled_tokens=1)),
        {"step 1 train: masks", "step 1 train: rollouts"},
    ),
    "tool's output": (lambda run: _answer(run, 1, output="lost"), {"step 1 train: responses"}),
    "reply's text": (lambda run: _answer(run, 0, text="stop"), {"step 1 train: responses"}),
    "answer of a record": (
        lambda run: edit_lines(run / ROLLOUTS, lambda record: record.update(answer="!")),
        {"step 1 train: rollouts"},
    ),
    "metrics": (
        lambda run: edit_lines(run / "metrics.jsonl", lambda line: line.update(kl=0.2)),
        {"step 1 train: metrics"},
    ),
    "batch digest": (
        lambda run: edit_lines(run / "metrics.jsonl", lambda line: line.update(batch="0")),
        {"step 1 train: metrics", "step 1 train: batch digest"},
    ),
    "weight": (
        lambda run: _weight(run / MODEL),
        {"checkpoint 1: actor/huggingface/model.safetensors", "weight delta of steps 1 to 1"},
    ),
    "state of a checkpoint": (
        lambda run: (run / "checkpoints/global_step_1/data.pt").write_bytes(b""),
        {"checkpoint 1: data.pt"},
    ),
}


def test_a_run_that_nobody_touched_is_as_it_was_certified(run: Path, certified: Contents) -> None:
    assert altered(certified, run) == []
    assert other_code(certified) == []


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_is_named(name: str, run: Path, certified: Contents) -> None:
    alter, named = ALTERATIONS[name]
    alter(run)
    assert set(altered(certified, run)) == named


def test_a_rollout_of_another_task_is_named(run: Path, certified: Contents) -> None:
    edit_lines(run / REPLAY, lambda entry: entry.update(rollout="train-1/0"))
    assert "step 1 train: tasks" in altered(certified, run)


def test_a_metrics_line_beside_the_first_is_named(run: Path, certified: Contents) -> None:
    TrainingLog(run).step(1, {"batch": "ba7c"}, {"step": 1.0})
    assert altered(certified, run) == ["step 1 train: metrics"]


def test_weights_that_cannot_be_read_are_named(run: Path, certified: Contents) -> None:
    (run / MODEL).write_bytes(b"{}")
    [named] = altered(certified, run)
    assert MODEL in named


def test_a_weight_of_another_shape_is_named(run: Path, certified: Contents) -> None:
    save_file({"w": torch.zeros(2, 2), "b": torch.zeros(3)}, run / MODEL)
    found = {"checkpoint 1: actor/huggingface/model.safetensors", "weight delta of steps 1 to 1"}
    assert set(altered(certified, run)) == found


def test_a_start_that_cannot_be_read_is_named(run: Path, certified: Contents) -> None:
    (run / STARTS).write_text("{}\n")
    [named] = altered(certified, run)
    assert STARTS in named


def test_a_run_that_went_on_is_still_as_it_was_certified(run: Path, certified: Contents) -> None:
    write_start(run, step=1, kernels=KERNELS.model_copy(update={"threads": 9}))
    TrainingLog(run).step(2, {"batch": "more"}, {"step": 1.0})
    (run / "checkpoints/global_step_2/actor").mkdir(parents=True)
    assert altered(certified, run) == []
    assert contents_of(run).steps == 2


def test_start_weights_elsewhere_are_found_where_they_are_named(run: Path, certified: Contents) -> None:
    moved = (run.parent / "seed").rename(run.parent / "moved")
    with fails(CertificateError, "no_seed", run.parent / "seed"):
        altered(certified, run)
    assert altered(certified, run, moved) == []


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda run: (run / "settings.json").unlink(), "unreadable"),
        (lambda run: (run / "metrics.jsonl").write_text("\n[1]\n{}\n" + "[" * 100_000), "no_steps"),
        (lambda run: (run / "metrics.jsonl").unlink(), "no_steps"),
    ],
)
def test_a_folder_without_a_training_is_refused(run: Path, damage: Callable[[Path], object], code: str) -> None:
    damage(run)
    with fails(CertificateError, code, run):
        contents_of(run)


def test_a_run_of_an_earlier_version_cannot_be_certified(run: Path) -> None:
    (run / STARTS).unlink()
    with fails(CertificateError, "no_starts", STARTS):
        contents_of(run)


def test_other_code_and_packages_here_are_named(certified: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "source_hash", lambda folders: "0" * 64)
    monkeypatch.setattr(check, "installed", lambda packages: {**certified.starts[-1].versions, "torch": "1.0"})
    assert other_code(certified) == [f"installed here: code of {OWN}", "installed here: version of torch"]


def test_what_is_packed_is_hashed_and_never_unpacked(run: Path, certified: Contents) -> None:
    """Nothing is allocated for what a file claims to hold."""
    _answer(run, 0, token_ids=b64encode(b"no zlib").decode())
    assert altered(certified, run) == ["step 1 train: tokens"]


def test_the_contents_fit_in_a_small_file(certified: Contents) -> None:
    assert len(json.dumps(certified.batches["1 train"].model_dump())) < 1000
