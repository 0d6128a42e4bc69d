"""The GPU benchmark, up to the device."""

import json
import tarfile
from pathlib import Path

import pytest

from agentflow.rl.micro.chat_model import SEED
from benchmarks import gpu


def pieces(folder: Path, content: bytes, size: int) -> Path:
    folder.mkdir()
    (folder / "weights").write_bytes(content)
    with tarfile.open(folder / "all.tar", "w") as tar:
        tar.add(folder / "weights", "model/weights")
    gpu.split(folder / "all.tar", folder, size)
    return folder


def test_what_is_split_is_joined(tmp_path: Path) -> None:
    content = bytes(range(256)) * 100
    found = pieces(tmp_path / "pieces", content, 10_000)
    assert {path.stat().st_size <= 10_000 for path in found.glob("piece.*")} == {True}
    gpu.join(found, tmp_path / "there")
    assert (tmp_path / "there" / "model" / "weights").read_bytes() == content


@pytest.mark.parametrize("damaged", [True, False])
def test_a_damaged_or_missing_piece_is_named(damaged: bool, tmp_path: Path) -> None:
    found = pieces(tmp_path / "pieces", bytes(30_000), 10_000)
    piece = found / "piece.0002"
    if damaged:
        piece.write_bytes(piece.read_bytes()[:-1] + b"x")
    else:
        piece.unlink()
    with pytest.raises(SystemExit, match=piece.name):
        gpu.join(found, tmp_path / "there")


def test_parameters_are_read_from_the_files() -> None:
    from safetensors import safe_open

    with safe_open(SEED / "model.safetensors", "np") as file:
        sizes = [file.get_tensor(name).size for name in file.keys()]  # noqa: SIM118
    assert gpu.parameters(SEED) == sum(sizes)


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


def test_trainings_have_settings_that_exist(tmp_path: Path) -> None:
    pytest.importorskip("verl")
    from agentflow.rl.settings import TrainingSettings, compose_settings

    for words in gpu.RUNS.values():
        for more in ([], gpu.ON_CPU):
            TrainingSettings.of(compose_settings(words[1], [*words[2:], *more]))


def test_results_are_written_after_each_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(python: Path, words: list[str], log: object, seconds: float) -> None:
        out = Path(next(word for word in words if word.startswith("out=")).removeprefix("out="))
        out.mkdir(parents=True)
        (out / "metrics.jsonl").write_text(json.dumps(line(1)) + "\n")

    monkeypatch.setattr(gpu, "train", train)
    (tmp_path / "model").symlink_to(SEED)
    found = gpu.run(tmp_path, Path("python"), "cpu", ["atlas-gpu", "packed"])
    assert json.loads((tmp_path / "results.json").read_text())["trainings"] == found
    assert "| packed | 10 |" in (tmp_path / "results.md").read_text()
