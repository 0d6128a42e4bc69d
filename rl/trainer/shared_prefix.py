"""A model's forward pass on a CPU that computes a prompt once for all rows that begin with it.

The rows of a group begin with the same prompt, and those of a module with the same system prompt, which are most of
their tokens. verl gives the model the rows of a micro-batch one after the other, as one sequence whose positions start
again with each row. Here rows with a long common prefix are told apart again: the prefix is computed once, and its keys
and values are those of all of its rows, gradients included. The logits are those of the rows by themselves, to the
rounding of float32.

Ranks gather a layer's weights together, so all must call it equally often, and their rows do not need the same passes:
with several ranks, each row is computed by itself (`rl.engine`).

`model.external_lib` loads this module in every training worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead

Logits = torch.Tensor
"""Logits of one row [tokens, vocabulary]."""

SHORTEST = 16
"""Tokens of a prefix that is worth a pass of its own."""

PADDING = 1.25
"""Most tokens that are computed for one token of rows that are padded to the same length."""


@dataclass
class Family:
    """Rows with a common prefix."""

    rows: list[int]
    prefix: int
    """Length of the prefix; less than the length of each row."""


def forward(
    model: Callable[..., Any],
    config: Any,
    *,
    input_ids: torch.Tensor,
    position_ids: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    use_cache: bool = False,
    **options: Any,
) -> Any:
    """Compute the logits of concatenated rows; takes the place of `model`, the forward function of a causal LM.

    Args:
        model: The forward function.
        config: The model's configuration.
        input_ids: The rows [1, tokens].
        position_ids: Positions [1, tokens]; each row starts with 0.
        attention_mask: None for concatenated rows.
        use_cache: Whether the caller wants keys and values.
        **options: Further arguments of the model.
    """
    starts = (position_ids[0] == 0).nonzero().flatten().tolist() if position_ids.shape[0] == 1 else []
    if len(starts) < 2 or options or use_cache or attention_mask is not None:
        return model(
            input_ids=input_ids,
            position_ids=position_ids,
            attention_mask=attention_mask,
            use_cache=use_cache,
            **options,
        )
    rows = list(torch.tensor_split(input_ids[0], starts[1:]))
    found: dict[int, Logits] = {}
    for family in families([row.tolist() for row in rows]):
        found |= _of_family(model, config, rows, family)
    logits = torch.cat([found[row] for row in range(len(rows))])[None]
    return CausalLMOutputWithPast(logits=logits)  # type: ignore[arg-type]  # a FloatTensor by its old name


def families(rows: Sequence[list[int]]) -> Iterator[Family]:
    """Divide rows of token ids into families, so that few tokens are computed; each row is in one."""
    family: Family | None = None
    last: list[int] = []
    for row in sorted(range(len(rows)), key=lambda row: rows[row]):
        ids = rows[row]
        if family:
            # Sorted rows have no longer prefix in common with an earlier row than with the one before.
            common = min(family.prefix, _common(last, ids), len(ids) - 1)
            size = len(family.rows)
            if common >= SHORTEST and size * common >= (size - 1) * family.prefix:
                family.rows.append(row)
                family.prefix = common
                last = ids
                continue
            yield family
        family, last = Family([row], len(ids) - 1), ids
    if family:
        yield family


def _common(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _of_family(
    model: Callable[..., Any], config: Any, rows: Sequence[torch.Tensor], family: Family
) -> dict[int, Logits]:
    """Return the logits of a family's rows."""
    if len(family.rows) == 1:
        (row,) = family.rows
        positions = torch.arange(len(rows[row]), device=rows[row].device)[None]
        return {row: model(input_ids=rows[row][None], position_ids=positions, use_cache=False).logits[0]}
    prefix = rows[family.rows[0]][: family.prefix]
    positions = torch.arange(family.prefix, device=prefix.device)[None]
    cache = DynamicCache(config=config)
    first = model(input_ids=prefix[None], position_ids=positions, past_key_values=cache, use_cache=True).logits[0]
    found: dict[int, Logits] = {}
    for batch in batches({row: len(rows[row]) - family.prefix for row in family.rows}):
        ends = [rows[row][family.prefix :] for row in batch]
        ids = torch.nn.utils.rnn.pad_sequence(ends, batch_first=True)
        positions = torch.arange(family.prefix, family.prefix + ids.shape[1], device=ids.device).expand(len(batch), -1)
        kept = _repeated(cache, config, len(batch))
        logits = model(input_ids=ids, position_ids=positions, past_key_values=kept, use_cache=True).logits
        found |= {row: torch.cat([first, own[: len(end)]]) for row, own, end in zip(batch, logits, ends, strict=True)}
    return found


def batches(lengths: dict[int, int]) -> Iterator[list[int]]:
    """Divide rows, by number, into batches of similar length."""
    batch: list[int] = []
    tokens = 0
    for row, length in sorted(lengths.items(), key=lambda item: item[1]):
        if batch and (len(batch) + 1) * length > PADDING * (tokens + length):
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += length
    if batch:
        yield batch


def _repeated(cache: DynamicCache, config: Any, rows: int) -> DynamicCache:
    """Return a cache with the keys and values of one row for each of several, without copying them."""
    found = DynamicCache(config=config)
    for number, layer in enumerate(cache.layers):
        keys, values = (one.expand(rows, -1, -1, -1) for one in (layer.keys, layer.values))  # type: ignore[union-attr]
        found.update(keys, values, number)
    return found


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor="cpu")
class SharedPrefixEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """verl's engine with shared prefixes; `vendor` is that of our platform, and "cuda" its name for this engine."""

    def initialize(self) -> None:
        """Build the model and replace its forward function, unless its layers or settings cannot do without it."""
        super().initialize()
        config = self.model_config.hf_config
        full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        alone = torch.distributed.get_world_size() == 1
        if alone and full and not self.model_config.enable_gradient_checkpointing:
            self.module.forward = partial(forward, self.module.forward, config)
