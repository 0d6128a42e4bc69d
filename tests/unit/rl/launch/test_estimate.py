"""Memory and tokens of a training on GPUs, against figures that are known otherwise."""

from pathlib import Path

import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")
pytest.importorskip("transformers")

from agentflow.rl.launch.estimate import ROLLING, SHAPES, UPDATING, Shape, estimate, shape_of
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
