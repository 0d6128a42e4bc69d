"""Training from scratch: deterministic, resumable, and its checkpoint is read by the embedded engine."""

from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from agentflow.rl.micro.model import MicroModel  # noqa: E402
from agentflow.rl.micro.tokenizer import MicroTokenizer  # noqa: E402
from recipes.micro.initial import CopyingHeads  # noqa: E402
from recipes.micro.pretrain import (  # noqa: E402
    Example,
    PrefixGroup,
    Shape,
    Trainer,
    batches,
    conversations_of,
    group_rows,
    loss_of,
    tokenise,
    tokenised,
)
from recipes.micro.traces import Conversation  # noqa: E402

SMALL = Shape(
    hidden=64,
    layers=2,
    heads=2,
    key_value_heads=1,
    feed_forward=64,
    vocabulary=600,
    questions=24,
    tokens=300,
    warm_up=3,
)


ROWS = list(conversations_of(SMALL))
DATA = tokenised(ROWS, SMALL)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trainer:
    trainer = Trainer(SMALL, tmp_path_factory.mktemp("run"), *DATA)
    for _ in range(3):
        trainer.train_step()
    trainer.save()
    return trainer


def test_training_lowers_the_loss(tmp_path):
    trainer = Trainer(SMALL, tmp_path, *DATA)
    losses = [trainer.train_step()["verifier loss"] for _ in range(12)]
    assert losses[-1] < 0.9 * losses[0]


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(trained):
    expected = [trained.train_step() for _ in range(2)]
    resumed = Trainer(SMALL, trained.out, *DATA)
    resumed.resume()
    assert resumed.step == 3
    for measured, wanted in zip([resumed.train_step() for _ in range(2)], expected, strict=True):
        assert measured == pytest.approx(wanted, rel=1e-4)
    other = Trainer(Shape(**{**SMALL.__dict__, "seed": 1}), trained.out, *DATA)
    with pytest.raises(Exception, match="another shape or seed"):
        other.resume()


def test_another_run_can_go_on_from_its_checkpoint_which_the_embedded_engine_reads(trained, tmp_path):
    trained.export(tmp_path / "model")
    assert MicroModel.load(tmp_path / "model").config.vocab_size == trained.tokenizer.vocab_size
    plans = [row for row in ROWS if row.module == "planner"]
    tokenizer = MicroTokenizer.load(tmp_path / "model")
    further = Trainer(SMALL, tmp_path, tokenizer, group_rows(plans, tokenizer), start=tmp_path / "model")
    assert further.tokenizer.vocab_size == trained.tokenizer.vocab_size
    for name, weight in trained.model.state_dict().items():
        assert torch.allclose(further.model.state_dict()[name], weight, atol=1e-2)
    assert set(further.train_step()) == {"planner loss", "planner exact"}


def test_only_what_the_assistant_says_is_learnt():
    tokenizer = MicroTokenizer(_tokenizer())
    conversation = Conversation("planner", (("system", "s"), ("user", "u"), ("assistant", "yes"), ("user", "v")))
    prefix, row = tokenise(conversation, tokenizer)
    learnt = [token for token, is_learnt in zip(row.ids, row.learnt, strict=True) if is_learnt]
    assert tokenizer.decode(learnt).startswith("yes")
    assert learnt[:-1] == tokenizer.encode("yes")
    assert prefix + row.ids == tokenizer.encode_chat(list(conversation.messages), generation_prompt=False)


def test_sharing_the_prefix_changes_neither_loss_nor_gradient():
    torch.manual_seed(0)
    model = _model()
    rows = [Example([5, 9, 7, 11, 4], [False, True, True, False, True]), Example([8, 6, 3], [False, True, True])]
    shared, _ = loss_of(model, PrefixGroup("planner", [4, 5, 6], rows), rows)
    shared.backward()
    gradient = model.model.layers[0].mlp.up_proj.weight.grad.clone()
    model.zero_grad()
    sums, weight = torch.tensor(0.0), torch.tensor(0.0)
    for row in rows:
        ids = torch.tensor([[4, 5, 6, *row.ids]])
        logits = model(ids).logits[0, 3:-1]
        losses = torch.nn.functional.cross_entropy(logits, ids[0, 4:], reduction="none")
        weights = torch.tensor([1.0 if learnt else 0.1 for learnt in row.learnt[1:]])
        sums, weight = sums + (losses * weights).sum(), weight + weights.sum()
    (sums / weight).backward()
    assert shared.item() == pytest.approx((sums / weight).item(), abs=1e-5)
    assert torch.allclose(gradient, model.model.layers[0].mlp.up_proj.weight.grad, atol=1e-6)


def test_batches_hold_every_row_and_no_more_tokens_than_asked_for():
    import random

    rows = [Example([1] * length, [True] * length) for length in range(3, 60)]
    drawn = list(islice(batches(PrefixGroup("planner", [], rows), 120, random.Random(0)), 40))
    assert all(len(batch) * max(len(row.ids) for row in batch) <= 120 for batch in drawn)
    assert {len(row.ids) for batch in drawn for row in batch} >= set(range(3, 50))


def test_the_initial_weights_copy():
    model = _model(hidden=192, layers=2, heads=6, vocabulary=1024)
    before = _copied(model)
    CopyingHeads(model, seed=0)
    assert before < 0.05
    assert _copied(model) > 0.3


def test_heads_look_back_by_as_many_tokens_as_asked_for():
    model = _model(hidden=128, layers=2, heads=4, vocabulary=64, key_value_heads=4)
    model.set_attn_implementation("eager")
    CopyingHeads(model, seed=0, look_back=3)
    with torch.no_grad():
        attention = model(torch.arange(40)[None], output_attentions=True).attentions[0][0]
    for distance in (1, 2, 3):
        assert attention[distance - 1, distance:].diagonal().min() > 0.9


def _copied(model: Qwen2ForCausalLM) -> float:
    """Share of tokens that the model predicts in the second half of sequences whose halves are alike."""
    rng = np.random.default_rng(0)
    half = torch.tensor(np.stack([rng.permutation(1000)[:40] + 3 for _ in range(16)]))
    with torch.no_grad():
        logits = model(torch.cat([half, half], dim=1)).logits
    return (logits[:, 40:-1].argmax(-1) == half[:, 1:]).float().mean().item()


def _model(
    hidden: int = 32, layers: int = 2, heads: int = 2, vocabulary: int = 64, key_value_heads: int = 0
) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads or max(1, heads // 2),
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
    )
    return Qwen2ForCausalLM(config)


def _tokenizer():
    from agentflow.rl.micro.tokenizer import train

    return train(["yes no maybe"] * 5, 300)
