"""A model's forward pass on a CPU: what rows have in common is computed once for all of them, and only logits that the
loss reads.

The rows of a step begin alike: those of a module with the same system prompt, those of a group with the same question,
and those of a rollout with the same turns. Together they are a tree (a trie), of which each token is computed once. The
layers see its tokens as one sequence; in attention, a token sees those from the root to itself, which are the tokens
before it in its rows. Logits and gradients are those of the rows by themselves, to the rounding of float32.

About a tenth of the tokens of a row are trained. With the vocabulary of a pretrained model, the logits of the others
would take longer than all layers below them.

`model.external_lib` loads this module in every training worker.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import torch
from tensordict import TensorDict
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_outputs import CausalLMOutputWithPast
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead
from verl.workers.engine.utils import postprocess_batch_func


@dataclass
class Trie:
    """Rows as paths through their distinct tokens.

    The tokens are numbered branch after branch: a row that differs from those before it adds a branch with its end.
    Branches are cut into segments where others leave them, so that a path is a list of whole segments.
    """

    paths: list[list[int]]
    """Of each row, the numbers of its tokens."""
    segments: list[int]
    """Lengths of the segments, in the order of their tokens."""
    branches: list[tuple[int, list[int]]]
    """Of each branch, its length and the segments from the root to its end."""

    @classmethod
    def of(cls, rows: Sequence[list[int]]) -> "Trie":
        """Return the trie of rows of token ids."""
        paths: list[list[int]] = [[] for _ in rows]
        last: list[int] = []
        path: list[int] = []
        starts, ends, total = set(), [], 0
        # Sorted rows have no longer prefix in common with an earlier row than with the one before.
        for row in sorted(range(len(rows)), key=lambda row: rows[row]):
            common = _common(last, rows[row])
            last, new = rows[row], len(rows[row]) - common
            if new:
                starts |= {total, path[common - 1] + 1} if common else {total}
                path = [*path[:common], *range(total, total + new)]
                ends.append((new, path))
                total += new
            paths[row] = path
        cuts = sorted(starts)
        number = {start: segment for segment, start in enumerate(cuts)}
        branches = [(new, [number[token] for token in path if token in number]) for new, path in ends]
        return cls(paths, [end - start for start, end in pairwise([*cuts, total])], branches)


MOST_LOGITS = 2**27
"""Most logits of a pack of several rows: 883 tokens of Qwen2.5's vocabulary. In two precisions, with their gradients,
each takes some 20 bytes."""


def _common(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def forward(
    model: Callable[..., Any],
    *,
    input_ids: torch.Tensor,
    position_ids: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    use_cache: bool = False,
    keep: torch.Tensor | None = None,
    **options: Any,
) -> Any:
    """Compute the logits of concatenated rows; takes the place of `model`, the forward function of a causal LM.

    The model's attention is "sdpa" of transformers. Ids and positions are [1, tokens], and the positions of each row
    start with 0. `keep` is the mask [tokens] of the positions whose logits are returned; None: all.
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
    trie = Trie.of([row.tolist() for row in torch.tensor_split(input_ids[0], starts[1:])])
    tokens = torch.tensor([token for path in trie.paths for token in path])
    first = torch.empty(sum(trie.segments), dtype=torch.long).index_put((tokens,), torch.arange(len(tokens)))
    kept, places = (tokens if keep is None else tokens[keep]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    output = model(
        input_ids=input_ids[:, first],
        position_ids=position_ids[:, first],
        attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool),  # so that no mask of tokens x tokens is made
        use_cache=False,
        logits_to_keep=kept,
        trie=trie,
    )
    return CausalLMOutputWithPast(logits=output.logits[:, places])


def attention(module: torch.nn.Module, *tensors: Any, trie: Trie | None = None, **options: Any) -> tuple[Any, None]:
    """Compute the attention of a layer, of a trie if one is given; replaces "sdpa" of transformers."""
    if trie is None:
        return sdpa_attention_forward(module, *tensors, **options)
    query, key, value, _ = tensors
    # The keys of a path are those of its segments, copied for every branch: made again for the backward pass.
    settings = (options.get("dropout", 0.0), options.get("scaling"))
    return checkpoint(_of_branches, query, key, value, trie, *settings, use_reentrant=False), None


AttentionInterface.register("sdpa", attention)


def _of_branches(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, trie: Trie, dropout: float, scaling: float | None
) -> torch.Tensor:
    """Return the attention [1, tokens, heads, size]; arguments are [1, heads, tokens, size]."""
    heads = key.shape[1]
    groups = query.shape[1] // heads
    segments = [one[0].split_with_sizes(trie.segments, 1) for one in (key, value)]
    found = []
    ends = query[0].split_with_sizes([new for new, _ in trie.branches], 1)
    for (new, path), own in zip(trie.branches, ends, strict=True):
        keys, values = (torch.cat([parts[segment] for segment in path], 1) for parts in segments)
        # Heads that share their keys are further queries, in place of copies of the keys.
        before = torch.ones(new, keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - new).repeat(groups, 1)
        each = torch.nn.functional.scaled_dot_product_attention(
            own.reshape(1, heads, groups * new, -1), keys[None], values[None], before, dropout, scale=scaling
        )
        found.append(each.reshape(heads * groups, new, -1))
    return torch.cat(found, 1).transpose(0, 1)[None]


def packs(rows: Sequence[list[int]], limit: int, trained: Sequence[int], most_trained: int) -> list[list[int]]:
    """Divide rows, by number, into packs; similar rows stay together.

    A pack of several rows has at most `limit` distinct tokens, and at most `most_trained` that the loss reads. The loss
    reads `trained` of each row.
    """
    found: list[list[int]] = []
    last: list[int] = []
    tokens = read = 0
    for row in sorted(range(len(rows)), key=lambda row: rows[row]):
        tokens += len(rows[row]) - _common(last, rows[row])
        read += trained[row]
        if not found or tokens > limit or read > most_trained:
            found.append([])
            tokens, read = len(rows[row]), trained[row]
        found[-1].append(row)
        last = rows[row]
    return found


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor="cpu")
class SharedPrefixEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """verl's engine with shared prefixes; `vendor` is that of our platform, and "cuda" its name for this engine."""

    shared = False
    """Whether `forward` takes the place of the model's own."""

    def initialize(self) -> None:
        """Build the model and replace its forward function, unless its layers or settings cannot do without it."""
        super().initialize()
        config = self.module.config
        full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        full = full and not getattr(config, "sliding_window", None)
        self.shared = full and config._attn_implementation == "sdpa" and self.module._supports_attention_backend
        if self.shared:
            self.module.forward = partial(forward, self.module.forward)

    def forward_backward_batch(
        self, data: TensorDict, loss_function: Callable[..., Any], forward_only: bool = False
    ) -> Any:
        """Compute a batch in packs of similar rows; verl divides rows by length alone, as several ranks must."""
        dynamic = tu.get_non_tensor_data(data=data, key="use_dynamic_bsz", default=True)
        if not self.shared or not dynamic or torch.distributed.get_world_size() > 1:
            return super().forward_backward_batch(data, loss_function, forward_only)
        tu.assign_non_tensor(data, sp_size=1, dp_size=1, batch_num_tokens=int(data["loss_mask"].sum()))
        rows = [row.tolist() for row in data["input_ids"].unbind()]
        trained = [int(row.sum()) for row in data["loss_mask"].unbind()]
        most_trained = MOST_LOGITS // self.module.config.vocab_size
        divided = packs(rows, data["max_token_len_per_gpu"], trained, most_trained)
        outputs = []
        for pack in divided:
            with torch.set_grad_enabled(not forward_only):
                part = tu.index_select_tensor_dict(data, pack)
                loss, output = self.forward_step(part, loss_function=loss_function, forward_only=forward_only)
            if not forward_only:
                loss.backward()
                del output["model_output"]
            outputs.append(output)
        return postprocess_batch_func(output_lst=outputs, indices=divided, data=data)

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask for the logits from which a token with `loss_mask` is drawn, and no others."""
        inputs, outputs = super().prepare_model_inputs(micro_batch)
        packed = tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True)
        plain = inputs.keys() == {"input_ids", "attention_mask", "position_ids"}
        if self.shared and plain and packed and not outputs["pad_size"]:
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

    Both are nested [rows, tokens]; `loss_mask`, 1 for tokens in the loss, may leave out the first tokens of rows.
    """
    offsets = input_ids.offsets().tolist()
    keep = torch.zeros(offsets[-1], dtype=torch.bool, device=input_ids.device)
    for (start, end), mask in zip(pairwise(offsets), loss_mask.unbind(), strict=True):
        # The logits of a position are those of the next token; the first token of a row has none.
        mask = mask[max(0, len(mask) - (end - start - 1)) :]
        keep[end - 1 - len(mask) : end - 1] = mask.bool()
    return keep
