"""A LoRA run's checkpoint, from the shards of its ranks to the weights that it trained."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

from agentflow.rl.run.export import LORA_META
from agentflow.rl.trainer.merge import Merger, adapter_of, merged
from tests.unit.rl.trainer.tensors import tiny

PEFT = "base_model.model.model.layers.0.mlp"


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    """Names as in PEFT and verl: one adapted matrix with its bias, one that is not adapted."""
    torch.manual_seed(0)
    return {
        "base_model.model.model.norm.weight": torch.rand(4),
        f"{PEFT}.up_proj.base_layer.weight": torch.rand(6, 4),
        f"{PEFT}.up_proj.base_layer.bias": torch.rand(6),
        f"{PEFT}.up_proj.lora_A.default.weight": torch.rand(2, 4),
        f"{PEFT}.up_proj.lora_B.default.weight": torch.rand(6, 2),
    }


def test_it_is_what_peft_merges() -> None:
    peft = pytest.importorskip("peft")
    adapter = peft.LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", init_lora_weights=False)
    adapted = peft.get_peft_model(tiny(20), adapter)
    found = merged({name: tensor.clone() for name, tensor in adapted.state_dict().items()}, 5 / 3)
    theirs = adapted.merge_and_unload().state_dict()
    assert set(found) == set(theirs)
    for name, tensor in theirs.items():
        torch.testing.assert_close(found[name], tensor)


def test_an_adapter_that_is_not_understood_is_refused(state: dict[str, torch.Tensor]) -> None:
    state["base_model.model.model.embed_tokens.lora_embedding_A.default"] = torch.rand(2, 4)
    with pytest.raises(ValueError, match="lora_embedding_A"):
        merged(state, 1.0)


def test_a_checkpoint_of_two_ranks_keeps_its_precision_and_its_adapter(
    one_rank: None, state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    mesh, actor = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",)), tmp_path / "actor"
    actor.mkdir()
    (actor / LORA_META).write_text(json.dumps({"r": 2, "lora_alpha": 8}))
    for rank in range(2):
        local = {name: tensor.chunk(2)[rank] for name, tensor in state.items()}
        shards = {name: DTensor.from_local(tensor.clone(), mesh, [Shard(0)]) for name, tensor in local.items()}
        torch.save(shards, actor / f"model_world_size_2_rank_{rank}.pt")
    merger = Merger.__new__(Merger)  # without a model's configuration, which this part does not read
    merger.config = SimpleNamespace(local_dir=str(actor))
    merger.dtype, merger.adapter = torch.float32, tmp_path / "adapter"
    found = merger._load_and_merge_state_dicts(2, 2, (2,), ("fsdp",))
    up = "model.layers.0.mlp.up_proj"
    down, raised = (state[f"{PEFT}.up_proj.lora_{part}.default.weight"] for part in "AB")
    torch.testing.assert_close(found[f"{up}.weight"], state[f"{PEFT}.up_proj.base_layer.weight"] + 4 * raised @ down)
    assert torch.equal(found[f"{up}.bias"], state[f"{PEFT}.up_proj.base_layer.bias"])
    saved = load_file(tmp_path / "adapter/adapter_model.safetensors")
    assert {name: tensor.tolist() for name, tensor in saved.items()} == {
        name: tensor.tolist() for name, tensor in adapter_of(state).items()
    }
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["target_modules"]) == (2, 8, ["up_proj"])
