from collections.abc import Callable
from concurrent.futures import CancelledError
from math import exp
from pathlib import Path
from typing import Literal

import pytest

from agentflow.graph.context import Context
from agentflow.nodes import planner
from agentflow.rl.micro.chat_model import TRAINED, checkpoint
from agentflow.rl.micro.declining import CALCULATION, DECLINING, LEAST_PROBABILITY, DecliningEngine
from agentflow.rl.micro.engine import Completion, Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.policy.chat import ROLES
from agentflow.tools.catalogue import standard_cards
from tests.waiting import LAST_RESORT, until

UNSURE, SURE = "What is the product of 7 and 6?", "What is 3 times 7?"
"""Sums of which the planner that ships plans the first one incorrectly."""


@pytest.fixture(scope="module")
def declining() -> DecliningEngine:
    found = checkpoint("trained").engine
    assert isinstance(found, DecliningEngine)
    return found


def _prompt(question: str, tokenizer: MicroTokenizer) -> list[int]:
    analysis = "Asked for: a number. Takes: a calculation."
    chat = planner.messages(
        question, analysis, [], planner.describe_tools(standard_cards(Context().tools).values()), 10
    )
    return tokenizer.encode_chat([(ROLES[message.type], str(message.text)) for message in chat])


def test_only_the_planner_that_ships_declines() -> None:
    """`embedded` is it too, in this process and served; the same weights named by their folder are as trained."""
    shipped, seed = checkpoint(""), checkpoint("seed")
    assert shipped.planner is not None
    assert isinstance(shipped.planner.engine, DecliningEngine)
    assert isinstance(checkpoint(str(TRAINED)).engine, Engine)
    assert shipped.engine is seed.engine


def test_a_calculation_that_is_not_probable_enough_is_declined(declining: DecliningEngine) -> None:
    for question in (UNSURE, SURE):
        prompt = _prompt(question, declining.tokenizer)
        drawn = declining.engine.submit(prompt).result(timeout=LAST_RESORT)
        reply = declining.submit(prompt).result(timeout=LAST_RESORT)
        assert CALCULATION in drawn.text.splitlines()
        assert (exp(sum(drawn.logprobs)) < LEAST_PROBABILITY) == (question == UNSURE)
        assert reply.text == (DECLINING if question == UNSURE else drawn.text)


def test_the_tokens_of_what_declines_are_its_own(declining: DecliningEngine) -> None:
    streamed = list[tuple[int, float]]()
    prompt = _prompt(UNSURE, declining.tokenizer)
    reply = declining.submit(prompt, on_token=lambda *token: streamed.append(token)).result(timeout=LAST_RESORT)
    assert declining.tokenizer.decode(reply.token_ids) == reply.text == DECLINING
    assert reply.token_ids[-1] == declining.tokenizer.end_id
    assert streamed == list(zip(reply.token_ids, reply.logprobs, strict=True))


def test_a_sampled_plan_stays_as_it_is(declining: DecliningEngine) -> None:
    prompt = _prompt(UNSURE, declining.tokenizer)
    replies = list[Completion]()
    for seed in range(8):
        own, other = (one.submit(prompt, temperature=1.0, seed=seed) for one in (declining, declining.engine))
        replies.append(own.result(timeout=LAST_RESORT))
        assert replies[-1].token_ids == other.result(timeout=LAST_RESORT).token_ids
    assert any(declining._settled(reply) is not reply for reply in replies), "greedily, it would have been declined"


PLAN = f"Sub-Goal: Compute\n{CALCULATION}\nContext: 1"


@pytest.mark.parametrize(
    ("logprobs", "text", "reason", "declined"),
    [
        ([-0.3, -0.3], PLAN, "stop", True),
        ([-0.3, -0.1], PLAN, "stop", False),
        ([-0.3, -0.3], PLAN, "length", False),
        ([-5.0, -5.0], PLAN.replace("python_coder", "wikipedia_search"), "stop", False),
        ([-5.0, -5.0], PLAN.replace("python_coder", "python_coders"), "stop", False),
    ],
)
def test_only_a_whole_calculation_of_low_probability_is_declined(
    declining: DecliningEngine, logprobs: list[float], text: str, reason: Literal["stop", "length"], declined: bool
) -> None:
    drawn = Completion([7, 2], logprobs, text, reason)
    found = declining._settled(drawn)
    assert found.text == (DECLINING if declined else text)
    assert (found is drawn) is not declined


def test_cancelling_and_failing_pass_between_the_caller_and_the_engine(
    directory: Path, slow: Callable[[Engine], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = MicroTokenizer.load(directory)
    engine = Engine(MicroModel.load(directory), tokenizer)
    slow(engine)
    request = DecliningEngine(engine, tokenizer).submit([5, 6, 7])
    until(lambda: engine._running)
    drawn = engine._running[0].future
    request.cancel()
    assert drawn.cancelled()
    with pytest.raises(CancelledError):
        request.result(timeout=LAST_RESORT)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine._model, "step", fail)
    with pytest.raises(MemoryError):
        DecliningEngine(engine, tokenizer).submit([5, 6, 7]).result(timeout=LAST_RESORT)
