import string

import pytest

pytest.importorskip("torch")
pytest.importorskip("verl")

import torch
from langchain_core.messages import HumanMessage

from agentflow.graph.context import Sampling
from agentflow.rl.launch.local_policy import LocalPolicy
from agentflow.rl.policy.chat import Conversations
from agentflow.rl.settings import TrainingSettings, compose_settings


async def test_nothing_is_sampled_after_a_stop_string() -> None:
    """It was sampled and cut off: `agentflow try` took longer, and showed more tokens than a training has."""
    policy = LocalPolicy("embedded", TrainingSettings.of(compose_settings("atlas-cpu", [])))
    limits = Sampling(stop=tuple(string.digits))
    torch.manual_seed(0)
    reply = await policy(Conversations().request([HumanMessage("What is 2 + 2?")], limits, {}))
    sampled = policy.format.tokenizer.decode(reply.token_ids)
    assert (reply.finish_reason, sampled[:-1], sampled[-1].isdigit()) == ("stop", reply.text, True)
