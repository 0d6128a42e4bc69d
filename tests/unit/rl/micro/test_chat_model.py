import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from safetensors.numpy import save_file

from agentflow.graph.context import Sampling
from agentflow.graph.models.spec import ModelError
from agentflow.nodes.planner import PROMPT
from agentflow.rl.micro.chat_model import EmbeddedChatModel, load
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.tokenizer import MicroTokenizer
from tests.failing import fails
from tests.unit.rl.micro import checkpoint
from tests.waiting import until

CHAT = [SystemMessage("You plan."), HumanMessage("Who leads Marlow?"), AIMessage("Look it up."), HumanMessage("Do.")]


@pytest.fixture
def model(directory: Path) -> EmbeddedChatModel:
    return load(str(directory), Sampling(temperature=1.0, max_tokens=8, seed=4))


def test_a_reply_carries_its_exact_ids(model: EmbeddedChatModel, directory: Path) -> None:
    reply = model.invoke(CHAT)
    tokenizer = MicroTokenizer.load(directory)
    chat = [("system", "You plan."), ("user", "Who leads Marlow?"), ("assistant", "Look it up."), ("user", "Do.")]
    metadata = reply.response_metadata
    assert metadata["prompt_token_ids"] == tokenizer.encode_chat(chat)
    assert tokenizer.decode(metadata["token_ids"]) == reply.text
    assert len(metadata["logprobs"]) == len(metadata["token_ids"])
    assert all(isinstance(logprob, float) and logprob <= 0 for logprob in metadata["logprobs"])
    assert (metadata["model_name"], metadata["finish_reason"]) == ("embedded", "length")
    assert reply.usage_metadata == {
        "input_tokens": len(metadata["prompt_token_ids"]),
        "output_tokens": 8,
        "total_tokens": len(metadata["prompt_token_ids"]) + 8,
    }


def test_arguments_of_a_call_override_the_fields(model: EmbeddedChatModel, directory: Path) -> None:
    assert model.invoke(CHAT, max_tokens=3).usage_metadata["output_tokens"] == 3  # type: ignore[index]
    assert model.bind(seed=5).invoke(CHAT).text != model.invoke(CHAT).text
    greedy = model.invoke(CHAT, temperature=0.0).text
    assert load(str(directory)).invoke(CHAT, max_tokens=8).text == greedy, "without sampling, it is greedy"
    stop = model.invoke(CHAT).text[2:4]
    assert stop not in model.invoke(CHAT, stop=[stop]).text


async def test_cancelling_the_call_cancels_the_request(directory: Path, slow: Callable[[Engine], None]) -> None:
    model = load(str(directory), Sampling(temperature=1.0, seed=0))
    slow(model._checkpoint.engine)
    task = asyncio.create_task(model.ainvoke(CHAT))
    await asyncio.to_thread(until, lambda: bool(model._checkpoint.engine._running))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: not model._checkpoint.engine._running)


def test_a_prompt_that_is_too_long_and_messages_of_tools_are_refused(model: EmbeddedChatModel) -> None:
    with fails(ModelError, "prompt_too_long", 512, "memory_tokens", configuration=False):
        model.invoke("1" * 1500)
    with fails(ModelError, "unknown_role", "tool"):
        model.invoke([*CHAT, ToolMessage("5", tool_call_id="1")])


def test_one_engine_per_checkpoint_until_it_is_written_anew(tmp_path: Path) -> None:
    checkpoint.write(tmp_path)
    first = load(str(tmp_path))
    assert load(str(tmp_path), Sampling(seed=1))._checkpoint.engine is first._checkpoint.engine
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    assert load(str(tmp_path))._checkpoint.engine is not first._checkpoint.engine


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_missing_or_broken_file_is_a_configuration_error(tmp_path: Path, name: str) -> None:
    checkpoint.write(tmp_path)
    (tmp_path / name).write_text("broken")
    with fails(ModelError, "bad_checkpoint", configuration=True):
        load(str(tmp_path))
    (tmp_path / name).unlink()
    with fails(ModelError, "no_checkpoint", configuration=True):
        load(str(tmp_path))
    checkpoint.write(tmp_path / "other", vocab_size=280)  # than its tokenizer has
    with fails(ModelError, "bad_checkpoint", 280):
        load(str(tmp_path / "other"))


@pytest.mark.parametrize(("prompt", "speaker"), [(PROMPT.format(tools="- hammer: hits"), "trained"), ("Hello", "seed")])
def test_embedded_plans_with_the_trained_planner(prompt: str, speaker: str) -> None:
    chat = [SystemMessage(prompt), HumanMessage("Question: How many feet are 3 yards?")]
    replies = {name: load(name, Sampling(max_tokens=8)).invoke(chat) for name in ("", "seed", "trained")}
    logprobs = {name: reply.response_metadata["logprobs"] for name, reply in replies.items()}
    assert [name for name in ("seed", "trained") if logprobs[name] == logprobs[""]] == [speaker]


def test_a_checkpoint_that_was_made_anew_has_another_fingerprint(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "copy")
    first, settings = load(str(copy)).fingerprint, load(str(copy))._get_llm_string()
    assert (first, settings) == (load(str(directory)).fingerprint, load(str(directory))._get_llm_string())
    save_file(checkpoint.weights(checkpoint.CONFIG, seed=1), copy / "model.safetensors", metadata={"format": "pt"})
    assert load(str(copy)).fingerprint != first
    assert load(str(copy))._get_llm_string() != settings, "a cache would mix up their replies"
