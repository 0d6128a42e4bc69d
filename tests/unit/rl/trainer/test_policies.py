"""The states of several policies in one engine."""

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl")

import torch
import torch.distributed
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # verl's imports
    from agentflow.rl.trainer.policies import Held


def whole() -> torch.nn.Module:
    """A model in which all weights but one learn."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    module[0].bias.requires_grad_(False)
    return module


def adapted() -> torch.nn.Module:
    """A model of which a LoRA adapter learns."""
    from peft import LoraConfig, get_peft_model

    module: torch.nn.Module = get_peft_model(whole(), LoraConfig(r=2, target_modules=["0", "1"]))
    return module


def sharded(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A model as verl wraps it: after an inference, its root keeps the gathered weights."""
    module = build()
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    fully_shard(module, mesh=mesh)
    return module


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "whole": whole,
    "adapted": adapted,
    "whole, sharded": lambda: sharded(whole),
    "adapted, sharded": lambda: sharded(adapted),
}


@pytest.fixture(scope="module", autouse=True)
def one_rank() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def engine(module: torch.nn.Module) -> Any:
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    return SimpleNamespace(module=module, optimizer=optimizer, lr_scheduler=schedule)


def computed(engine: Any) -> list[float]:
    with torch.no_grad():
        found: list[float] = engine.module(torch.ones(2, 3)).flatten().tolist()
    return found


def update(engine: Any, seed: int) -> None:
    data = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
    engine.optimizer.zero_grad()
    engine.module(data).square().mean().backward()
    engine.optimizer.step()
    engine.lr_scheduler.step()


def weights(engine: Any) -> list[list[float]]:
    parameters = [one for group in engine.optimizer.param_groups for one in group["params"]]
    return [(one.to_local() if isinstance(one, DTensor) else one).flatten().tolist() for one in parameters]


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_each_policy_learns_as_if_it_were_alone(build: Callable[[], torch.nn.Module]) -> None:
    """To the last bit: weights, both moments, the number of updates and the learning rate are its own."""
    shared = engine(build())
    held = Held(shared, ["a", "b", "c"])
    start = weights(shared), computed(shared)
    order = [("a", 1), ("b", 7), ("a", 2), ("a", 3), ("b", 8), ("a", 4)]
    for name, seed in order:
        held.select(name)
        update(shared, seed)
        computed(shared)
    ends = {}
    for name in ("a", "b"):
        alone = engine(build())
        for seed in (seed for policy, seed in order if policy == name):
            update(alone, seed)
        held.select(name)
        ends[name] = computed(shared)
        assert (weights(shared), ends[name]) == (weights(alone), computed(alone))
        assert shared.optimizer.param_groups[0]["lr"] == alone.optimizer.param_groups[0]["lr"]
    assert ends["a"] != ends["b"] != start[1]
    held.select("c")
    assert (weights(shared), computed(shared)) == start
    assert not shared.optimizer.state
