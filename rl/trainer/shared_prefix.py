"""A model's forward pass on a CPU: a prompt is computed once for all rows that begin with it, and only logits that the
loss reads are.

The rows of a group begin with the same prompt, and those of a module with the same system prompt, which are most of
their tokens. verl gives the model the rows of a micro-batch one after the other, as one sequence whose positions start
again with each row. Here rows with a long common prefix are told apart again: the prefix is computed once, and its keys
and values are those of all of its rows, gradients included. The logits are those of the rows by themselves, to the
rounding of float32.

About a tenth of the tokens of a row are trained. With the vocabulary of a pretrained model, the logits of the others
would take longer than all layers below them.

Ranks gather a layer's weights together, so all must call it equally often, and their rows do not need the same passes:
with several ranks, each row is computed by itself (`rl.launch.engine`).

`model.external_lib` loads this module in every training worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import torch
from tensordict import TensorDict
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead

Logits = torch.Tensor
"""Logits at the kept positions of one row [positions, vocabulary]."""

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
    keep: torch.Tensor | None = None,
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
        keep: Mask [tokens] of the positions whose logits are returned, for concatenated rows; None: all.
        **options: Further arguments of the model.
    """
    packed = position_ids.shape[0] == 1 and not options and not use_cache and attention_mask is None
    starts = (position_ids[0] == 0).nonzero().flatten().tolist() if packed else []
    if keep is None and len(starts) < 2:
        return model(
            input_ids=input_ids,
            position_ids=position_ids,
            attention_mask=attention_mask,
            use_cache=use_cache,
            **options,
        )
    rows = list(torch.tensor_split(input_ids[0], starts[1:]))
    keep = torch.ones_like(input_ids[0], dtype=torch.bool) if keep is None else keep
    masks = list(torch.tensor_split(keep, starts[1:]))
    found: dict[int, Logits] = {}
    for family in families([row.tolist() for row in rows]):
        found |= _of_family(model, config, rows, masks, family)
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
    model: Callable[..., Any],
    config: Any,
    rows: Sequence[torch.Tensor],
    masks: Sequence[torch.Tensor],
    family: Family,
) -> dict[int, Logits]:
    """Return the logits of a family's rows."""
    if len(family.rows) == 1:
        (row,) = family.rows
        positions = torch.arange(len(rows[row]), device=rows[row].device)[None]
        kept = masks[row].nonzero().flatten()
        own = model(input_ids=rows[row][None], position_ids=positions, use_cache=False, logits_to_keep=kept)
        return {row: own.logits[0]}
    prefix = rows[family.rows[0]][: family.prefix]
    positions = torch.arange(family.prefix, device=prefix.device)[None]
    cache = DynamicCache(config=config)
    kept = torch.stack([masks[row][: family.prefix] for row in family.rows]).any(0)
    first = model(
        input_ids=prefix[None],
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=kept.nonzero().flatten(),
    ).logits[0]
    heads = {row: first[masks[row][: family.prefix][kept]] for row in family.rows}
    found: dict[int, Logits] = {}
    for batch in batches({row: len(rows[row]) - family.prefix for row in family.rows}):
        ends, own = (
            torch.nn.utils.rnn.pad_sequence([each[row][family.prefix :] for row in batch], batch_first=True)
            for each in (rows, masks)
        )
        positions = torch.arange(family.prefix, family.prefix + ends.shape[1], device=ends.device)
        kept = own.any(0)
        logits = model(
            input_ids=ends,
            position_ids=positions.expand(len(batch), -1),
            past_key_values=_repeated(cache, config, len(batch)),
            use_cache=True,
            logits_to_keep=kept.nonzero().flatten(),
        ).logits
        for row, each, mask in zip(batch, logits, own[:, kept], strict=True):
            found[row] = torch.cat([heads[row], each[mask]])
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

    shared = False
    """Whether `forward` takes the place of the model's own."""

    def initialize(self) -> None:
        """Build the model and replace its forward function, unless its layers or settings cannot do without it."""
        super().initialize()
        config = self.model_config.hf_config
        full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        alone = torch.distributed.get_world_size() == 1
        self.shared = alone and full and not self.model_config.enable_gradient_checkpointing
        if self.shared:
            self.module.forward = partial(forward, self.module.forward, config)

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask for the logits from which a token with `loss_mask` is drawn, and no others."""
        inputs, outputs = super().prepare_model_inputs(micro_batch)
        packed = tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True)
        whole = tu.get_non_tensor_data(data=micro_batch, key="distillation_use_topk", default=False)
        plain = inputs.keys() == {"input_ids", "attention_mask", "position_ids"}
        if self.shared and plain and packed and not whole and not outputs["pad_size"]:
            keep = logit_positions(micro_batch["input_ids"], micro_batch["loss_mask"])
            if keep.any():
                inputs["keep"] = outputs["keep"] = keep
        return inputs, outputs

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Any]:
        """Return verl's outputs, nested tensors [rows, tokens], with 0 at positions that were not asked for."""
        keep = output_args.get("keep")
        if keep is None:
            found = super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
            return dict(found)
        offsets = micro_batch["input_ids"].offsets()
        ends = torch.nn.functional.pad(keep.cumsum(0), (1, 0))[offsets]
        few = micro_batch.copy()
        few["input_ids"] = torch.nested.nested_tensor_from_jagged(micro_batch["input_ids"].values()[keep], ends)
        names = ("input_ids_rmpad_rolled", "temperature_rmpad")
        args = output_args | {name: output_args[name][keep] for name in names}
        # The engine that samples normalises in float32 too.
        kept = CausalLMOutputWithPast(logits=output.logits.float())
        found = super().prepare_model_outputs(kept, args, few, logits_processor_func)
        where = keep.nonzero().flatten()
        return {
            name: torch.nested.nested_tensor_from_jagged(
                torch.zeros(len(keep), dtype=each.dtype, device=each.device).index_put((where,), each.values()), offsets
            )
            for name, each in found.items()
        }


def logit_positions(input_ids: Any, loss_mask: torch.Tensor) -> torch.Tensor:
    """Return the mask [tokens] of positions whose logits give the log-probability of a token with `loss_mask`.

    Args:
        input_ids: The rows [rows, tokens], nested.
        loss_mask: 1 for tokens in the loss [rows, tokens], nested; may leave out the first tokens of rows.
    """
    offsets = input_ids.offsets().tolist()
    keep = torch.zeros(offsets[-1], dtype=torch.bool, device=input_ids.device)
    for (start, end), mask in zip(pairwise(offsets), loss_mask.unbind(), strict=True):
        # The logits of a position are those of the next token; the first token of a row has none.
        mask = mask[max(0, len(mask) - (end - start - 1)) :]
        keep[end - 1 - len(mask) : end - 1] = mask.bool()
    return keep
