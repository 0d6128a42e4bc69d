"""Memory and tokens of a training on GPUs, against figures that are known otherwise."""

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

from agentflow.rl.launch import estimate as launch
from agentflow.rl.launch.estimate import ROLLING, SHAPES, UPDATING, Shape, beside_machine, estimate, shape_of
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.presets.files import presets
from agentflow.rl.settings import SettingsError, compose_settings
from tests.failing import fails
from tests.pages import ROOT

GPU = [preset for preset in presets() if preset.startswith("qwen") and not preset.endswith("-cpu")]
CPU, QWEN = "qwen2.5-0.5b-cpu", "Qwen/Qwen2.5-Coder-0.5B-Instruct"
DTYPES = {"float32": 4, "bfloat16": 2}


@pytest.mark.parametrize(("name", "billions"), list(zip(SHAPES, (0.49, 3.09, 7.62, 4.02, 8.19), strict=True)))
def test_models_have_the_parameters_that_their_cards_give(name: str, billions: float) -> None:
    assert SHAPES[name].parameters / 1e9 == pytest.approx(billions, abs=0.01)


def test_a_folder_gives_the_parameters_of_its_model() -> None:
    from safetensors import safe_open

    with safe_open(SEED / "model.safetensors", "pt") as file:
        tensors = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    matrices = sum(shape[0] * shape[1] for shape in tensors if len(shape) == 2)
    assert shape_of(str(SEED)).parameters == matrices


def test_the_adapter_has_the_parameters_that_peft_adds() -> None:
    peft = pytest.importorskip("peft")
    from transformers import Qwen2Config, Qwen2ForCausalLM

    small = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=32, num_hidden_layers=2, **small))
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert wrapped.get_nb_trainable_parameters()[0] == Shape(16, 2, 2, 1, 8, 24, 32, tied=False).adapter(4)


def test_a_model_whose_sizes_are_unknown_is_refused(tmp_path: Path) -> None:
    with fails(SettingsError, "unknown_model", "someone/model", "qwen2.5-7b-lora"):
        shape_of("someone/model")
    (tmp_path / "config.json").write_text('{"hidden_size": 3}')
    with fails(SettingsError, "unknown_model", "num_attention_heads"):
        shape_of(str(tmp_path))


@pytest.mark.parametrize("preset", GPU)
def test_every_preset_fits_its_gpus(preset: str) -> None:
    config = compose_settings(preset, [])
    found = estimate(config)
    assert max(found.memory[UPDATING], found.memory[ROLLING]) < 80e9
    assert found.kv_tokens / found.gpus > 4 * (config.prompt_tokens + config.response_tokens)


@pytest.mark.parametrize("preset", GPU)
def test_the_page_has_the_figures_of_every_preset(preset: str) -> None:
    page = (ROOT / "docs" / "how-to" / "train-gpus.md").read_text(encoding="utf-8").splitlines()
    [row] = [line.split(" | ")[2:] for line in page if line.startswith(f"| `{preset}` |")]
    found = estimate(compose_settings(preset, []))
    sizes = [f"{bytes / 1e9:.0f} GB" for bytes in (found.memory[UPDATING], found.memory[ROLLING], found.checkpoint)]
    assert row == [str(found.gpus), *sizes[:2], f"{sizes[2]} |"]


def test_on_a_cpu_the_engine_keeps_its_memory_during_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "2")
    found = {dtype: estimate(compose_settings(CPU, [f"by_device.cpu.dtype={dtype}"])) for dtype in DTYPES}
    for dtype, width in DTYPES.items():
        engine = found[dtype].memory["vLLM's weights and KV cache"]
        assert engine == width * SHAPES[QWEN].parameters + 2 * 2**30
        assert found[dtype].kv_tokens == 2 * 2**30 // (SHAPES[QWEN].cache * width // 2)
        assert found[dtype].memory[UPDATING] > found[dtype].memory[ROLLING] > engine
    assert not any("GPU" in line or "80 GB" in line or "judge" in line for line in found["float32"].lines)


def test_calls_of_frozen_modules_are_counted_where_they_are_made() -> None:
    """They set the pace of a step, and only those of the judge were named."""
    lines = {
        preset: "\n".join(estimate(compose_settings(preset, [])).lines) for preset in ("qwen2.5-7b", "qwen2.5-7b-lora")
    }
    assert "8 a rollout, 2,048 a step, about 409,600 in 200 steps, which at 600 a minute" in lines["qwen2.5-7b"]
    assert "512 a step, about 102,400 in 200 steps, on the same engine as 192" in lines["qwen2.5-7b-lora"]
    own = compose_settings("qwen2.5-7b", ["app=my:agent"])
    assert not any("frozen" in line for line in estimate(own).lines), "how often another agent calls is not known"


@pytest.mark.parametrize(
    ("listed", "last"), [("", "none was found here"), ("A, 81559\nB, 40960", "here are 2 A with 43 GB")]
)
def test_what_it_takes_stands_beside_this_machine(
    listed: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.shutil, "which", lambda name: listed and "nvidia-smi")
    monkeypatch.setattr(launch.subprocess, "run", lambda command, **options: SimpleNamespace(stdout=listed))
    config = compose_settings("qwen2.5-7b-lora", [f"out={tmp_path}/not/yet/there"])
    disk, found = beside_machine(config, estimate(config))
    assert disk.startswith("disk: 67 GB")
    assert found == f"GPUs: 1 with at least 53 GB; {last}"
