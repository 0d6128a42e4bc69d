import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from agentflow.graph.context import Sampling  # noqa: E402
from agentflow.rl.export import LATEST, TOKENIZER, ExportError, export  # noqa: E402
from agentflow.rl.micro.chat_model import load  # noqa: E402
from tests.unit.rl.micro import checkpoint  # noqa: E402


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with two checkpoints, of which the first is the last whole one."""
    out = tmp_path / "run"
    for step in (3, 4):
        folder = checkpoint.write(out / f"checkpoints/global_step_{step}/actor/huggingface")
        tensors = {name: tensor.float() * step for name, tensor in load_file(folder / "model.safetensors").items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (out / "checkpoints" / LATEST).write_text("3")
    (out / TOKENIZER).mkdir()
    (out / TOKENIZER / "tokenizer.json").write_text("{}")
    return out


def test_the_last_whole_checkpoint_becomes_a_folder_that_the_embedded_model_reads(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "planner") == 3
    weights = load_file(tmp_path / "planner" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert json.loads((tmp_path / "planner" / "config.json").read_text())["dtype"] == "float16"
    assert (tmp_path / "planner" / TOKENIZER / "tokenizer.json").is_file()
    assert load(str(tmp_path / "planner"), Sampling(max_tokens=3)).invoke("hello").response_metadata["token_ids"]


def test_a_checkpoint_can_be_named(run: Path, tmp_path: Path) -> None:
    assert export(run / "checkpoints/global_step_4", tmp_path / "planner") == 4


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner" / "mine").write_text("x")
    with pytest.raises(ExportError, match="exists already"):
        export(run, tmp_path / "planner")


def test_what_cannot_be_written_leaves_nothing_behind(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExportError, match="cannot write"):
        export(run, tmp_path / "file" / "planner")


@pytest.mark.parametrize("name", ["nothing", "run/checkpoints/global_step_9", "run/tokenizer"])
def test_what_is_no_checkpoint(name: str, run: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="is no checkpoint"):
        export(tmp_path / name, tmp_path / "planner")
