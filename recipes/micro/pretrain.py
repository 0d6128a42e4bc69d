"""Pretraining of the micro model's seed checkpoint from scratch: `python -m recipes.micro.pretrain`.

First a tokenizer, then a model with Qwen2 architecture is trained on the conversations of all modules on Atlas
(`traces`). Only train worlds and train questions are used. The seed determines the data and the order of batches; a
stopped run resumes from its last checkpoint.

Rows of one module share their system prompt. Its keys and values are computed once per batch and shared by all rows,
gradients included, which halves the work.
"""

import asyncio
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.nn import functional
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM
from transformers.cache_utils import DynamicLayer

from agentflow.evals.atlas.encyclopedia import index_path
from agentflow.rl.micro.tokenizer import END, PAD, SPECIAL_TOKENS, MicroTokenizer
from agentflow.tools.catalogue import standard_tool
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.search_settings import SearchSettings
from recipes.micro.initial import CopyingHeads
from recipes.micro.traces import Conversation, Search, traces
from recipes.micro.vocabulary import train

OTHER_TEXT = 0.1
"""Weight of the loss on text that the model does not write; it teaches copying early."""

SHARES = {"planner": 0.4, "verifier": 0.3, "other": 0.3}
"""Loss weight of each kind of batch in a step; a module without a kind of its own is of the kind "other"."""

EMPHASIS = {"executor python_coder": 2.5, "tools": 1.5}
"""Factors by which batches of kind "other" are drawn from a module more often than its size implies."""

KEEP = {"generator": 0.3, "analyst": 0.3}
"""Share of rows that is kept of the easier modules."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and of the run."""

    hidden: int = 192
    layers: int = 4
    heads: int = 6
    key_value_heads: int = 2
    feed_forward: int = 576
    vocabulary: int = 1400
    questions: int = 12_000
    tokens: int = 1500
    """Tokens per batch; a step takes one batch of each kind in SHARES."""
    steps: int = 4800
    muon_rate: float = 0.02
    adam_rate: float = 3e-3
    warm_up: int = 60
    hold: int = 1000
    """Steps during which the copying heads keep their initial weights."""
    look_back: int = 1
    """Number of tokens back that the copying heads of the first layer read, one each."""
    cool_down: float = 0.5
    """Share of the steps over which the learning rate falls to zero."""
    seed: int = 0


@dataclass(frozen=True)
class Example:
    """One tokenised conversation without its system prompt."""

    ids: list[int]
    learnt: list[bool]
    """For each token, whether the model writes it."""


@dataclass(frozen=True)
class PrefixGroup:
    """Rows that share a system prompt."""

    module: str
    prefix: list[int]
    rows: list[Example]


def tokenise(conversation: Conversation, tokenizer: MicroTokenizer) -> tuple[list[int], Example]:
    """Return the ids of the system prompt, and a row with the other messages; the assistant's are marked as learnt."""
    messages = list(conversation.messages)
    prefix = tokenizer.encode_chat(messages[:1], generation_prompt=False) if messages[0][0] == "system" else []
    ids: list[int] = []
    learnt: list[bool] = []
    for message in messages[1:] if prefix else messages:
        encoded = tokenizer.encode_chat([message], generation_prompt=False)
        head = len(tokenizer.encode_chat([], generation_prompt=True)) if message[0] == "assistant" else len(encoded)
        # The model writes the content and the end mark; the line break after it belongs to the template.
        ids += encoded
        learnt += [head <= position < len(encoded) - 1 for position in range(len(encoded))]
    return prefix, Example(ids, learnt)


def group_rows(conversations: Sequence[Conversation], tokenizer: MicroTokenizer) -> list[PrefixGroup]:
    """Group the rows by module and system prompt."""
    rows: dict[tuple[str, tuple[int, ...]], list[Example]] = defaultdict(list)
    for conversation in conversations:
        prefix, row = tokenise(conversation, tokenizer)
        rows[conversation.module, tuple(prefix)].append(row)
    return [PrefixGroup(module, list(prefix), group) for (module, prefix), group in rows.items()]


def batches(group: PrefixGroup, tokens: int, rng: random.Random) -> Iterator[list[Example]]:
    """Yield endless batches of about `tokens` tokens, with rows of similar length, in random order."""
    by_length = sorted(group.rows, key=lambda row: -len(row.ids))
    while True:
        cut: list[list[Example]] = []
        start = rng.randrange(8)  # a random offset, so that batches differ between epochs
        while start < len(by_length):
            size = max(1, min(96, tokens // len(by_length[start].ids)))
            cut.append(by_length[start : start + size])
            start += size
        rng.shuffle(cut)
        yield from cut


def loss_of(model: Qwen2ForCausalLM, group: PrefixGroup, rows: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weighted mean loss of a batch, and the share of rows whose learnt tokens are all most likely."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    learnt = torch.zeros(len(rows), width, dtype=torch.bool)
    for number, row in enumerate(rows):
        length = len(row.ids)
        ids[number, :length] = torch.tensor(row.ids)
        learnt[number, :length] = torch.tensor(row.learnt)
        weights[number, :length] = torch.where(learnt[number, :length], 1.0, OTHER_TEXT)
    cache = _shared_prefix(model, group.prefix, len(rows))
    hidden = model.model(input_ids=ids, past_key_values=cache, use_cache=cache is not None).last_hidden_state
    logits = model.lm_head(hidden[:, :-1])
    targets, weights, learnt = ids[:, 1:], weights[:, 1:], learnt[:, 1:]
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(weights)
    wrong = ((logits.argmax(-1) != targets) & learnt).any(dim=1)
    return (losses * weights).sum() / weights.sum(), 1 - wrong.float().mean()


def _shared_prefix(model: Qwen2ForCausalLM, prefix: list[int], rows: int) -> DynamicCache | None:
    if not prefix:
        return None
    cache = DynamicCache(config=model.config)
    model.model(input_ids=torch.tensor([prefix]), past_key_values=cache, use_cache=True)
    for layer in cache.layers:
        if isinstance(layer, DynamicLayer) and layer.keys is not None and layer.values is not None:
            layer.keys = layer.keys.expand(rows, -1, -1, -1)
            layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache


class Trainer:
    """Pretraining run: data, model, optimisers and progress."""

    def __init__(
        self,
        shape: Shape,
        out: Path,
        tokenizer: MicroTokenizer,
        groups: Sequence[PrefixGroup],
        *,
        shares: Mapping[str, float] = SHARES,
        start: Path | None = None,
    ) -> None:
        """
        Args:
            shape: Sizes of the model and of the run.
            out: The run folder.
            tokenizer: Tokenizer of the rows.
            groups: Training data.
            shares: Loss weight of each kind of batch in a step, as SHARES.
            start: Checkpoint whose weights are trained further; None trains from scratch.
        """
        torch.manual_seed(shape.seed)
        self.shape, self.out, self.tokenizer, self.shares = shape, out, tokenizer, shares
        kinds: dict[str, list[PrefixGroup]] = {kind: [] for kind in shares}
        for group in groups:
            kinds[group.module if group.module in shares else "other"].append(group)
        self.kinds = {kind: members for kind, members in kinds.items() if members}
        rng = random.Random(f"batches {shape.seed}")
        self.streams = {id(group): batches(group, shape.tokens, rng) for group in groups}
        self.rng = rng
        if start:
            self.model = Qwen2ForCausalLM.from_pretrained(start, dtype=torch.float32)
            self.copying = None
        else:
            self.model = Qwen2ForCausalLM(_config(shape, self.tokenizer))
            self.copying = CopyingHeads(self.model, shape.seed, shape.look_back)
        matrices = [p for name, p in self.model.model.layers.named_parameters() if p.ndim == 2]
        chosen = {id(p) for p in matrices}
        rest = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimisers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, lr=shape.muon_rate, weight_decay=0.01, adjust_lr_fn="original"),
            torch.optim.AdamW(rest, lr=shape.adam_rate, weight_decay=0.0, betas=(0.9, 0.95)),
        ]
        self.rates = [[entry["lr"] for entry in optimiser.param_groups] for optimiser in self.optimisers]
        self.step = 0

    def describe(self) -> str:
        """Return the sizes of model and data in one line."""
        parameters = sum(p.numel() for p in self.model.parameters())
        rows = sum(len(group.rows) for kind in self.kinds.values() for group in kind)
        tokens = sum(len(row.ids) for kind in self.kinds.values() for group in kind for row in group.rows)
        return f"{parameters / 1e6:.2f} M parameters; {rows} rows of {tokens / 1e6:.2f} M tokens"

    def train_step(self) -> dict[str, float]:
        """Run one optimiser step on a batch of each kind. Return losses and shares of exact rows."""
        for optimiser, rates in zip(self.optimisers, self.rates, strict=True):
            for entry, rate in zip(optimiser.param_groups, rates, strict=True):
                entry["lr"] = rate * self._schedule()
            optimiser.zero_grad()
        measured = {}
        for kind, group, rows in self._batches():
            loss, exact = loss_of(self.model, group, rows)
            torch.autograd.backward(self.shares[kind] * loss)
            measured[f"{kind} loss"], measured[f"{kind} exact"] = loss.item(), exact.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
        if self.copying and self.step < self.shape.hold:
            self.copying.restore()
        self.step += 1
        return measured

    def _batches(self) -> Iterator[tuple[str, PrefixGroup, list[Example]]]:
        """Yield the batches of one step: kind, group, rows."""
        for kind, groups in self.kinds.items():
            group = self.rng.choices(groups, [_weight(group) for group in groups])[0]
            yield kind, group, next(self.streams[id(group)])

    def _schedule(self) -> float:
        shape = self.shape
        cooling = (shape.steps - self.step) / (shape.cool_down * shape.steps)
        return min(1.0, (self.step + 1) / shape.warm_up, max(cooling, 0.0))

    def save(self) -> None:
        """Write the state to resume from, atomically."""
        state = {
            "shape": asdict(self.shape),
            "step": self.step,
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
        }
        beside = self.out / "state.tmp"
        torch.save(state, beside)
        beside.rename(self.out / "state.pt")

    def resume(self) -> None:
        """Restore the saved state. Raises typer.BadParameter if it is of another shape or seed."""
        state = torch.load(self.out / "state.pt", weights_only=True)
        if state["shape"] != asdict(self.shape):
            raise typer.BadParameter(f"{self.out} holds a run of another shape or seed; choose another --out")
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        # Draws the past batches again without using them, so that the remaining ones come in the same order.
        while self.step < state["step"]:
            list(self._batches())
            self.step += 1

    def run(self, save_every: int) -> None:
        """Train to the last step, with a progress bar and a log; a stopped run resumes from its last checkpoint."""
        if (self.out / "state.pt").exists():
            self.resume()
            typer.echo(f"going on from step {self.step}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns) as progress, (self.out / "metrics.jsonl").open("a") as log:
            task = progress.add_task("training", total=self.shape.steps, completed=self.step)
            while self.step < self.shape.steps:
                measured = self.train_step()
                log.write(json.dumps({"step": self.step, **measured}) + "\n")
                log.flush()
                losses = "/".join(f"{value:.3f}" for name, value in measured.items() if name.endswith("loss"))
                progress.update(task, completed=self.step, description=f"loss {losses}")
                if self.step % save_every == 0 or self.step == self.shape.steps:
                    self.save()

    def export(self, directory: Path) -> None:
        """Write the checkpoint in half precision, for transformers, vLLM, verl and the embedded engine."""
        halved = Qwen2ForCausalLM(self.model.config)
        halved.to(dtype=torch.float16)  # type: ignore[call-arg]
        halved.load_state_dict(self.model.state_dict())
        halved.save_pretrained(directory)
        self.tokenizer.save(directory)


def _weight(group: PrefixGroup) -> float:
    return EMPHASIS.get(group.module, 1.0) * math.sqrt(sum(len(row.ids) for row in group.rows))


def _config(shape: Shape, tokenizer: MicroTokenizer) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=SPECIAL_TOKENS.index(END),
        pad_token_id=SPECIAL_TOKENS.index(PAD),
    )


def tokenised(
    conversations: Sequence[Conversation], shape: Shape, start: Path | None = None
) -> tuple[MicroTokenizer, list[PrefixGroup]]:
    """Return a tokenizer, and the rows of the conversations by module and system prompt.

    The tokenizer is that of the checkpoint `start`; without one, it is trained on the conversations.
    """
    known = MicroTokenizer.load(start) if start else MicroTokenizer(train(_texts(conversations), shape.vocabulary))
    return known, group_rows(conversations, known)


def _texts(conversations: Sequence[Conversation]) -> Iterator[str]:
    """Yield the tokenizer's training texts; system prompts are repeated so that their words become single tokens."""
    prompts: set[str] = set()
    for conversation in conversations:
        for role, content in conversation.messages:
            if role == "system":
                prompts.add(content)
            else:
                yield content
    for content in sorted(prompts):
        yield from [content] * 300


def conversations_of(shape: Shape) -> Iterator[Conversation]:
    """Yield the rows of the first `shape.questions` questions, with only a share of those of easier modules."""
    rng = random.Random(f"thinning {shape.seed}")
    planned = 0
    for conversation in traces(atlas_search(), shape.seed):
        planned += conversation.module == "planner"
        if planned > shape.questions:
            return
        if rng.random() < KEEP.get(conversation.module.split()[0], 1.0):
            yield conversation


def atlas_search() -> Search:
    """Return `wikipedia_search` on the Atlas encyclopedia as a plain function."""

    async def ask(prompt: str) -> str:
        raise RuntimeError("wikipedia_search asks no model")

    tool = standard_tool("wikipedia_search", ask, SearchSettings(corpus=str(index_path())))

    def search(query: str) -> ToolResult:
        result = asyncio.run(run_tool(tool, {"query": query}, timeout=10))
        if result.error not in (None, ErrorClass.EMPTY_RESULT):
            raise RuntimeError(f"wikipedia_search failed on {query!r}: {result.output}")
        return result.model_copy(update={"seconds": 0.0})

    return search


app = typer.Typer(add_completion=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Where checkpoints, the log and the model go.")] = Path("runs/micro-seed"),
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = Shape.steps,
    questions: Annotated[int, typer.Option(help="Atlas questions to learn from.")] = Shape.questions,
    hidden: Annotated[int, typer.Option(help="Width of the model; heads are 32 wide.")] = Shape.hidden,
    layers: Annotated[int, typer.Option(help="Layers of the model.")] = Shape.layers,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = Shape.seed,
    rate: Annotated[float, typer.Option(help="Highest learning rate of the matrices.")] = Shape.muon_rate,
    start: Annotated[
        Path | None, typer.Option(help="Checkpoint of the same shape to train further; none: from scratch.")
    ] = None,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
) -> None:
    """Train the micro model's seed checkpoint, or resume a stopped run."""
    shape = Shape(
        hidden=hidden,
        layers=layers,
        heads=hidden // 32,
        steps=steps,
        questions=questions,
        seed=seed,
        muon_rate=rate,
        adam_rate=Shape.adam_rate * rate / Shape.muon_rate,
    )
    out.mkdir(parents=True, exist_ok=True)
    known, groups = tokenised(list(conversations_of(shape)), shape, start)
    trainer = Trainer(shape, out, known, groups, start=start)
    typer.echo(trainer.describe())
    trainer.run(save_every)
    trainer.export(out / "model")
    typer.echo(f"the model is in {out / 'model'}")


if __name__ == "__main__":
    app()
