"""Rows that share a prefix have the logits and gradients of rows that are computed alone."""

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM
from verl.utils import tensordict_utils as tu

from agentflow.rl.trainer import shared_prefix
from agentflow.rl.trainer.shared_prefix import (
    SharedPrefixEngine,
    forward,
    logit_positions,
    packs,
)
from tests.cases import table
from tests.unit.rl.trainer.tensors import nested, tiny

VOCABULARY = 50

Rows = list[list[int]]


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """The kinds of models that are trained."""
    recomputed = tiny(VOCABULARY)
    recomputed.gradient_checkpointing_enable({"use_reentrant": False})
    adapters = LoraConfig(target_modules="all-linear", r=4, init_lora_weights=False, task_type="CAUSAL_LM")
    lora = get_peft_model(tiny(VOCABULARY), adapters)
    return {"whole": tiny(VOCABULARY), "recomputed": recomputed.train(), "lora": lora}


@pytest.fixture(scope="module")
def model(models: dict[str, Any]) -> Qwen2ForCausalLM:
    return models["whole"]


def rows_of(seed: int) -> Rows:
    """Rows that begin alike to any depth, as those of a step: system prompt, question, turns; and equal rows, and one's
    beginning.
    """
    rng = random.Random(seed)
    rows: Rows = []

    def grow(row: list[int], depth: int) -> None:
        row = row + [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, rng.choice([2, 20])))]
        for _ in range(rng.randint(1, 3) if depth else 0):
            grow(row, depth - 1)
        if not depth or rng.random() < 0.2:
            rows.append(row)

    for _ in range(2):
        grow([], rng.randint(0, 3))
    rows += [rows[0], rows[0][:-1] or rows[0]]
    rng.shuffle(rows)
    return rows


def packed(rows: Rows) -> dict[str, Any]:
    ids = torch.tensor([token for row in rows for token in row])[None]
    positions = torch.cat([torch.arange(len(row)) for row in rows])[None]
    return {"input_ids": ids, "position_ids": positions, "attention_mask": None, "use_cache": False}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0), kind=st.sampled_from(["whole", "recomputed", "lora"]), kept=st.sampled_from([None, 0.3]))
def test_log_probabilities_and_gradients_are_those_of_rows_alone(
    models: dict[str, Any], seed: int, kind: str, kept: float | None
) -> None:
    """Of all tokens, or of those alone whose logits are kept."""
    model, rows, generator = models[kind], rows_of(seed), torch.Generator().manual_seed(seed % 2**32)
    keep = torch.rand(sum(map(len, rows)), generator=generator) < (kept or 1)
    weights = torch.randn(int(keep.sum()), VOCABULARY, generator=generator)
    options = {"keep": keep} if kept else {}
    alone = torch.cat([model(input_ids=torch.tensor([row]), use_cache=False).logits[0] for row in rows])
    found = []
    for logits in (alone[keep], forward(model.forward, **options, **packed(rows)).logits[0]):
        model.zero_grad()
        log_probs = logits.log_softmax(-1)
        (log_probs * weights).sum().backward()
        trained = [parameter.grad.clone() for parameter in model.parameters() if parameter.requires_grad]
        found.append((log_probs.detach(), trained))
    (expected, gradients), (log_probs, own) = found
    torch.testing.assert_close(log_probs, expected, atol=1e-5, rtol=0)
    assert len(own) == len(gradients) > 0
    for one, other in zip(own, gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5 * float(other.abs().max() + 1), rtol=1e-4)


@given(masks=st.lists(st.tuples(st.integers(0, 9), st.lists(st.booleans(), min_size=1, max_size=12)), min_size=1))
def test_the_logits_before_every_token_in_the_loss_are_kept(masks: list[tuple[int, list[bool]]]) -> None:
    ids = nested([[0] * (prompt + len(mask)) for prompt, mask in masks])
    keep = logit_positions(ids, nested([list(map(int, mask)) for _, mask in masks]))
    # Of a row without a prompt, the first token is never drawn.
    expected = [[*([False] * prompt + mask)[1:], False] for prompt, mask in masks]
    assert keep.tolist() == [each for row in expected for each in row]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0))
def test_each_distinct_token_is_computed_once(model: Qwen2ForCausalLM, seed: int) -> None:
    rows, computed = rows_of(seed), []

    def counted(**arguments: Any) -> Any:
        computed.append(tuple(arguments["input_ids"].shape))
        return model(**arguments)

    forward(counted, **packed(rows))
    assert computed == [(1, distinct(rows))]


def distinct(rows: Rows) -> int:
    return len({tuple(row[: end + 1]) for row in rows for end in range(len(row))})


@given(seed=st.integers(0), limit=st.integers(1, 300), most=st.integers(1, 60))
def test_packs_hold_as_many_tokens_as_they_may(seed: int, limit: int, most: int) -> None:
    rows = rows_of(seed)
    trained = [len(row) // 3 for row in rows]
    found = packs(rows, limit, trained, most)

    def fits(pack: list[int]) -> bool:
        return distinct([rows[row] for row in pack]) <= limit and sum(trained[row] for row in pack) <= most

    assert sorted(row for pack in found for row in pack) == list(range(len(rows)))
    assert all(fits(pack) or len(pack) == 1 for pack in found)
    assert not any(fits([*pack, after[0]]) for pack, after in pairwise(found))


@pytest.mark.parametrize(("layers", "window", "name", "backend", "shared"), table(__file__, "shares.txt"))
def test_prefixes_are_shared_by_a_model_whose_attention_can(
    layers: list[str] | None,
    window: int | None,
    name: str,
    backend: bool,
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SharedPrefixEngine.__mro__[1], "initialize", lambda self: None)
    engine, own = SharedPrefixEngine.__new__(SharedPrefixEngine), object()
    config = SimpleNamespace(layer_types=layers, sliding_window=window, _attn_implementation=name)
    engine.module = SimpleNamespace(forward=own, config=config, _supports_attention_backend=backend)
    engine.initialize()
    assert (engine.shared, engine.module.forward is not own) == (shared, shared)


def test_a_vocabulary_limits_the_trained_tokens_of_a_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sizes = SharedPrefixEngine.__new__(SharedPrefixEngine), []
    engine.shared = True
    engine.module = SimpleNamespace(config=SimpleNamespace(vocab_size=shared_prefix.MOST_LOGITS // 5))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(shared_prefix, "postprocess_batch_func", lambda **_: None)

    def step(part: Any, **_: Any) -> tuple[None, dict[str, Any]]:
        sizes.append(len(part))
        return None, {}

    engine.forward_step = step
    rows = nested([[row, 1, 2, 3] for row in range(5)])
    data = tu.get_tensordict(
        {"input_ids": rows, "loss_mask": nested([[0, 0, 1, 1]] * 5)}, {"max_token_len_per_gpu": 99}
    )
    engine.forward_backward_batch(data, lambda: None, forward_only=True)
    assert sizes == [2, 2, 1]
