"""Rows that share a prefix have the logits and gradients of rows that are computed alone."""

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from transformers import Qwen2ForCausalLM
from verl.utils.tensordict_utils import assign_non_tensor
from verl.utils.torch_functional import entropy_from_logits
from verl.workers.config import FSDPEngineConfig
from verl.workers.utils.padding import no_padding_2_padding

from agentflow.rl.trainer.shared_prefix import (
    SharedPrefixEngine,
    forward,
    logit_positions,
)
from tests.cases import table
from tests.unit.rl.trainer.tensors import nested, tiny

VOCABULARY = 50

Rows = list[list[int]]


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return tiny(VOCABULARY)


def rows_of(seed: int) -> Rows:
    """Rows as a step has them: system prompts, prompts that begin with one, replies of any length, and strangers."""
    rng = random.Random(seed)

    def ids(most: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, most))]

    systems = [ids(80) for _ in range(rng.randint(1, 2))]
    prompts = [rng.choice(systems) + ids(30) for _ in range(rng.randint(1, 4))]
    rows = [rng.choice(prompts) + ids(40) for _ in range(rng.randint(2, 9))] + [ids(30)]
    rows += [rows[0], rows[0][:-1] or rows[0]]
    rng.shuffle(rows)
    return rows


def packed(rows: Rows) -> dict[str, Any]:
    ids = torch.tensor([token for row in rows for token in row])[None]
    positions = torch.cat([torch.arange(len(row)) for row in rows])[None]
    return {"input_ids": ids, "position_ids": positions, "attention_mask": None, "use_cache": False}


def alone(model: Qwen2ForCausalLM, rows: Rows) -> torch.Tensor:
    return torch.cat([model(input_ids=torch.tensor([row]), use_cache=False).logits[0] for row in rows])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0), kept=st.sampled_from([None, 0.3]))
def test_logits_and_gradients_are_those_of_rows_alone(model: Qwen2ForCausalLM, seed: int, kept: float | None) -> None:
    """Of all tokens, or of those alone whose logits are kept."""
    rows, generator = rows_of(seed), torch.Generator().manual_seed(seed % 2**32)
    keep = torch.rand(sum(map(len, rows)), generator=generator) < (kept or 1)
    weights = torch.randn(int(keep.sum()), VOCABULARY, generator=generator)
    options = {"keep": keep} if kept else {}
    found = []
    for logits in (alone(model, rows)[keep], forward(model.forward, model.config, **options, **packed(rows)).logits[0]):
        model.zero_grad()
        (logits.log_softmax(-1) * weights).sum().backward()
        found.append((logits.detach(), [parameter.grad.clone() for parameter in model.parameters()]))
    (expected, gradients), (logits, own) = found
    torch.testing.assert_close(logits, expected, atol=2e-5, rtol=0)
    for one, other in zip(own, gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5 * float(other.abs().max() + 1), rtol=1e-4)


@given(masks=st.lists(st.tuples(st.integers(0, 9), st.lists(st.booleans(), min_size=1, max_size=12)), min_size=1))
def test_the_logits_before_every_token_in_the_loss_are_kept(masks: list[tuple[int, list[bool]]]) -> None:
    ids = nested([[0] * (prompt + len(mask)) for prompt, mask in masks])
    keep = logit_positions(ids, nested([list(map(int, mask)) for _, mask in masks]))
    # Of a row without a prompt, the first token is never drawn.
    expected = [[*([False] * prompt + mask)[1:], False] for prompt, mask in masks]
    assert keep.tolist() == [each for row in expected for each in row]


def test_the_prefix_of_a_group_is_computed_once(model: Qwen2ForCausalLM) -> None:
    prompt, computed = list(range(40)), []

    def counted(**arguments: Any) -> Any:
        computed.append(tuple(arguments["input_ids"].shape))
        return model(**arguments)

    forward(counted, model.config, **packed([[*prompt, reply] for reply in range(6)]))
    assert computed == [(1, 40), (6, 1)]


def test_one_row_and_arguments_of_others_reach_the_model_as_they_are() -> None:
    asked: list[dict[str, Any]] = []
    own = partial(forward, lambda **arguments: asked.append(arguments), None)
    own(**packed([[1, 2, 3]]))
    several = {**packed([[1, 2], [1, 2]]), "return_dict": True}
    own(**several)
    assert [len(one) for one in asked] == [4, 5]
    assert asked[1]["input_ids"] is several["input_ids"]


def micro_batch(rows: Rows, prompts: list[int], masks: list[list[int]]) -> TensorDict:
    """A micro-batch as verl's workers get it."""
    columns = {
        "input_ids": rows,
        "position_ids": [list(range(len(row))) for row in rows],
        "prompts": [row[:prompt] for row, prompt in zip(rows, prompts, strict=True)],
        "responses": [row[prompt:] for row, prompt in zip(rows, prompts, strict=True)],
        "loss_mask": masks,
    }
    found = TensorDict({name: nested(column) for name, column in columns.items()}, batch_size=len(rows))
    assign_non_tensor(found, temperature=0.7, calculate_entropy=True, calculate_sum_pi_squared=True)
    return found


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0))
def test_outputs_of_tokens_in_the_loss_are_those_of_verl(model: Qwen2ForCausalLM, seed: int) -> None:
    rows = [row for row in rows_of(seed) if len(row) > 1]
    rng = random.Random(seed)
    prompts = [rng.randrange(1, len(row)) for row in rows]
    masks = [[rng.randrange(2) for _ in range(len(row) - prompt)] for row, prompt in zip(rows, prompts, strict=True)]
    masks[0][0] = 1
    batch = micro_batch(rows, prompts, masks)
    engine = SharedPrefixEngine.__new__(SharedPrefixEngine)
    engine.use_ulysses_sp = engine.pad_to_length = False
    engine.engine_config = FSDPEngineConfig(forward_only=True)
    engine.compute_entropy_from_logits = entropy_from_logits
    found = []
    for engine.shared in (False, True):
        inputs, outputs = engine.prepare_model_inputs(batch)
        assert ("keep" in inputs) == engine.shared
        output = forward(model.forward, model.config, **inputs)
        found.append(engine.prepare_model_outputs(output, outputs, batch, None))
    expected, own = found
    assert own.keys() == expected.keys() == {"log_probs", "entropy", "sum_pi_squared"}
    mask = nested(masks).to_padded_tensor(0)
    for name, each in own.items():
        ours, theirs = (no_padding_2_padding(values, batch) * mask for values in (each, expected[name]))
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)


@pytest.mark.parametrize(("ranks", "layers", "checkpointing", "shared"), table(__file__, "shares.txt"))
def test_prefixes_are_shared_where_one_process_holds_a_model_that_can(
    ranks: int, layers: list[str] | None, checkpointing: bool, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedPrefixEngine.__mro__[1], "initialize", lambda self: None)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    engine, own = SharedPrefixEngine.__new__(SharedPrefixEngine), object()
    config = SimpleNamespace(layer_types=layers)
    engine.model_config = SimpleNamespace(hf_config=config, enable_gradient_checkpointing=checkpointing)
    engine.module = SimpleNamespace(forward=own)
    engine.initialize()
    assert (engine.shared, engine.module.forward is not own) == (shared, shared)
