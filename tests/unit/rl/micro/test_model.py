from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentflow.rl.micro.model import MicroConfig, MicroModel
from tests.cases import table
from tests.unit.rl.micro import checkpoint

IDS = np.random.default_rng(1).integers(3, checkpoint.VOCABULARY, 400)


def _decoded(model: MicroModel, start: int, end: int) -> np.ndarray[Any, Any]:
    """Logits after each of the tokens start..end-1, the ones before prefilled."""
    cache = model.new_cache()
    model.prefill(cache, 0, IDS[:start].tolist(), 0)
    return np.stack([model.step(cache, IDS[i : i + 1], np.array([i]))[0] for i in range(start, end)])


def _theirs(directory: Path) -> Any:
    """Logits of transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.Qwen2ForCausalLM.from_pretrained(str(directory), dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.tensor(IDS)[None]).logits[0].numpy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("changes", table(__file__, "architectures.txt"), ids=str)
def test_logits_equal_those_of_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    expected = _theirs(checkpoint.write(tmp_path, **changes))
    ours = MicroModel.load(tmp_path)
    np.testing.assert_allclose(ours.prefill(ours.new_cache(), 0, IDS.tolist(), 0), expected[-1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(_decoded(ours, 250, 300), expected[250:300], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_that_transformers_saved_is_read(tmp_path: Path) -> None:
    """Transformers 5 keeps rope_theta in rope_parameters; training saves float16."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen2Config(**{**checkpoint.CONFIG, "num_hidden_layers": 1})
    transformers.Qwen2ForCausalLM(config).half().save_pretrained(str(tmp_path))
    assert MicroModel.load(tmp_path).config.rope_theta == checkpoint.CONFIG["rope_theta"]
    expected = _theirs(tmp_path)
    np.testing.assert_allclose(_decoded(MicroModel.load(tmp_path), 300, 310), expected[300:310], rtol=1e-4, atol=1e-4)


def test_extreme_activations_do_not_warn(directory: Path) -> None:
    weights = checkpoint.weights(checkpoint.CONFIG)
    weights = {name: tensor * 1000 if "gate" in name else tensor for name, tensor in weights.items()}
    model = MicroModel(MicroConfig.parse(checkpoint.CONFIG), weights)
    assert np.isfinite(model.prefill(model.new_cache(), 0, IDS[:20].tolist(), 0)).all()


@pytest.mark.parametrize(("rope", "theta"), table(__file__, "rope_theta.txt"))
def test_rope_theta_is_found_wherever_it_is(rope: dict[str, Any], theta: float) -> None:
    config = {key: value for key, value in checkpoint.CONFIG.items() if key != "rope_theta"}
    assert MicroConfig.parse({**config, **rope}).rope_theta == theta


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "llama"},
        {"hidden_act": "gelu"},
        {"use_sliding_window": True},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    ],
)
def test_another_architecture_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change)).replace("rope_scaling", "rope_type")):
        MicroConfig.parse({**checkpoint.CONFIG, **change})


def test_a_missing_key_and_missing_or_misshapen_weights_are_named() -> None:
    config = MicroConfig.parse(checkpoint.CONFIG)
    weights = checkpoint.weights(checkpoint.CONFIG)
    with pytest.raises(ValueError, match="intermediate_size"):
        MicroConfig.parse({key: value for key, value in checkpoint.CONFIG.items() if key != "intermediate_size"})
    with pytest.raises(ValueError, match=r"model\.norm\.weight"):
        MicroModel(config, {name: tensor for name, tensor in weights.items() if name != "model.norm.weight"})
    with pytest.raises(ValueError, match=r"model\.norm\.weight.*\(5,\)"):
        MicroModel(config, {**weights, "model.norm.weight": np.ones(5, np.float32)})
