"""Weights of checkpoints, and what training changed."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from agentflow.rl.certificate.weights import Delta, Weights


def save(folder: Path, **tensors: list[float]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: torch.tensor(values) for name, values in tensors.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Weights:
    return Weights.of_model(save(tmp_path / "start", a=[0.0, 0.0], b=[1.0]))


def test_a_change_has_a_hash_and_a_length(start: Weights, tmp_path: Path) -> None:
    save(tmp_path / "1/actor/huggingface", a=[3.0, 0.0], b=[-3.0])
    after = Weights.of_checkpoint(tmp_path / "1")
    delta = Delta(start, after)
    assert delta
    assert (delta.norm(), delta.largest()) == (5.0, 4.0)
    assert delta.hash() == Delta(start, after).hash() != Delta(after, start).hash()


def test_each_policy_has_its_own_change_from_the_one_start(start: Weights, tmp_path: Path) -> None:
    save(tmp_path / "1/actor/planner/huggingface", a=[1.0, 0.0], b=[1.0])
    save(tmp_path / "1/actor/critic/huggingface", a=[0.0, 2.0], b=[1.0])
    delta = Delta(start, Weights.of_checkpoint(tmp_path / "1"))
    assert {name: change.tolist() for name, change in delta.parts()} == {
        "critic/a": [0.0, 2.0],
        "critic/b": [0.0],
        "planner/a": [1.0, 0.0],
        "planner/b": [0.0],
    }


@pytest.mark.parametrize(
    ("folder", "tensors"),
    [
        ("actor/lora_adapter", {"a": [1.0, 0.0]}),
        ("actor/huggingface", {"base.a": [1.0, 0.0]}),
        ("actor/huggingface", {"a": [1.0]}),
    ],
)
def test_other_tensors_have_no_change(
    start: Weights, tmp_path: Path, folder: str, tensors: dict[str, list[float]]
) -> None:
    save(tmp_path / "1" / folder, **tensors)
    assert not Delta(start, Weights.of_checkpoint(tmp_path / "1"))
