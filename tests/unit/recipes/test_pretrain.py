"""Training from scratch: what is learnt, and a checkpoint that the embedded engine reads."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


from agentflow.rl.micro.model import MicroModel  # noqa: E402
from agentflow.rl.micro.tokenizer import MicroTokenizer  # noqa: E402
from recipes.micro.pretrain import (  # noqa: E402
    Shape,
    Trainer,
    conversations_of,
    group_rows,
    tokenise,
    tokenised,
)
from recipes.micro.traces import Conversation  # noqa: E402
from recipes.micro.vocabulary import train  # noqa: E402

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


def test_another_run_can_go_on_from_its_checkpoint_which_the_embedded_engine_reads(tmp_path):
    trained = Trainer(SMALL, tmp_path, *DATA)
    trained.train_step()
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
    tokenizer = MicroTokenizer(train(["yes no maybe"] * 5, 300))
    conversation = Conversation("planner", (("system", "s"), ("user", "u"), ("assistant", "yes"), ("user", "v")))
    prefix, row = tokenise(conversation, tokenizer)
    learnt = [token for token, is_learnt in zip(row.ids, row.learnt, strict=True) if is_learnt]
    assert tokenizer.decode(learnt).startswith("yes")
    assert learnt[:-1] == tokenizer.encode("yes")
    assert prefix + row.ids == tokenizer.encode_chat(list(conversation.messages), generation_prompt=False)
