"""Replies in a form that the server enforces: when it is requested, how, and what happens where it cannot be."""

import json
import re
from typing import Any, Literal

import pytest
from langchain_core.messages import HumanMessage

from agentflow.graph.context import Context
from agentflow.graph.models import loading
from agentflow.graph.models.loading import ask
from agentflow.graph.models.reply import MUTE
from agentflow.graph.models.spec import ModelError
from agentflow.graph.models.structured import ReplyForm
from agentflow.nodes import executor, planner, verifier
from agentflow.rl.apps.planner import atlas
from agentflow.tools.catalogue import standard_cards
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Reply, completion

CARDS = standard_cards(["base_generator", "python_coder"])
PLAN = "Sub-Goal: add\nTool: python_coder\nContext: 1 + 2"
PROSE = "I would add the numbers."
FORM = planner.reply_form(CARDS)
REFUSED: Reply = (400, {"error": {"message": "unknown field", "param": None, "code": None}})
FAILED: Reply = (500, {"error": {"message": "the grammar took too long to compile"}}, {"Retry-After": "0.01"})
CUT: Reply = (200, completion("m", PROSE, "length"))


def way(body: dict[str, Any]) -> str:
    return next((name for name in ("structured_outputs", "response_format") if name in body), "free")


class Server(FakeOpenAI):
    """Replies by the way in which the form is requested."""

    def __init__(self, free: Reply = PROSE, structured_outputs: Reply = PLAN, response_format: Reply = PLAN) -> None:
        replies = {"free": free, "structured_outputs": structured_outputs, "response_format": response_format}
        super().__init__(lambda body: replies[way(body)])

    async def plan(self, mode: Literal["auto", "always", "off"] = "auto", provider: str = "vllm") -> str:
        context = Context(model=f"{provider}:any@{self.base_url}", structured_output=mode)
        return await ask(context, "planner", [HumanMessage("Plan.")], FORM)

    @property
    def ways(self) -> list[str]:
        return [way(body) for body in self.bodies]


async def test_only_a_reply_that_cannot_be_read_is_asked_for_again_in_the_form() -> None:
    with Server(free=PLAN) as server:
        assert await server.plan() == PLAN
    assert server.ways == ["free"]
    assert set(server.bodies[0]) == {"model", "messages", "stream", "stream_options", "temperature", "max_tokens"}
    with Server() as server:
        assert await server.plan() == PLAN
    assert server.ways == ["free", "structured_outputs"]
    free, formed = server.bodies
    assert formed == {**free, "structured_outputs": {"regex": FORM.regex}}


@pytest.mark.parametrize("unable", [REFUSED, PROSE], ids=["refused", "ignored"])
async def test_a_server_without_regular_expressions_gets_a_schema_and_is_remembered(unable: Reply) -> None:
    with Server(structured_outputs=unable) as server:
        for _ in range(2):
            assert await server.plan() == PLAN
    assert server.ways == ["free", "structured_outputs", "response_format", "free", "response_format"]
    assert server.bodies[2]["response_format"]["json_schema"]["schema"] == FORM.schema


@pytest.mark.parametrize("unable", [REFUSED, PROSE, FAILED], ids=["refused", "ignored", "failed"])
async def test_a_server_without_either_gives_what_the_model_wrote(unable: Reply) -> None:
    with Server(structured_outputs=unable, response_format=unable) as server:
        for _ in range(2):
            assert await server.plan() == PROSE
    assert list(dict.fromkeys(server.ways)) == ["free", "structured_outputs", "response_format"]
    assert server.ways.count("free") == 2
    assert server.ways[-1] == "free"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"Sub-Goal": "add", "Tool": "python_coder", "Context": "1 + ', {"Sub-Goal": "add", "Tool": "python_coder"}),
        ('{"Sub-Goal": "add", "Tool": "python_coder", "Con', {"Sub-Goal": "add", "Tool": "python_coder"}),
        ('{"Sub-Goal": "add", "Tool": "python_coder", "Context": 12', {"Sub-Goal": "add", "Tool": "python_coder"}),
        ('{"Sub-Goal": "add", "Tool": "pyth', None),
        ("{", None),
        ("[1, ", None),
    ],
)
async def test_the_whole_fields_of_a_form_that_was_cut_off_are_used(written: str, kept: dict[str, str] | None) -> None:
    cut: Reply = (200, completion("m", written, "length"))
    with Server(response_format=cut) as server:
        plan = await server.plan(provider="llamacpp")
    assert plan == (json.dumps(kept) if kept else PROSE)
    assert server.ways == ["free", "response_format"]


async def test_a_reply_that_was_cut_off_does_not_show_what_the_server_supports() -> None:
    with Server(structured_outputs=CUT) as server:
        for _ in range(2):
            assert await server.plan() == PROSE
    assert server.ways == ["free", "structured_outputs"] * 2


@pytest.mark.parametrize("provider", ["llamacpp", "lmstudio", "ollama", "openai-compatible"])
async def test_servers_other_than_vllm_are_not_asked_for_a_regular_expression(provider: str) -> None:
    with Server() as server:
        assert await server.plan(provider=provider) == PLAN
    assert server.ways == ["free", "response_format"]


@pytest.mark.parametrize("code", ["timeout", "cut", "rate_limit"])
async def test_the_free_reply_is_kept_where_the_form_is_not_had(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(*_: object) -> None:
        raise ModelError("no answer", code=code)

    monkeypatch.setattr(loading, "enforced", late)
    with Server() as server:
        assert await server.plan() == PROSE


THOUGHTS = [(200, completion("m", "<think>I would add", reason)) for reason in ("stop", "length")]


@pytest.mark.parametrize(("thought", "code"), [*zip(THOUGHTS, MUTE, strict=True)])
async def test_a_form_is_had_in_place_of_a_thought(thought: Reply, code: str) -> None:
    with Server(free=thought) as server:
        assert await server.plan() == PLAN
    with Server(free=thought) as server, fails(ModelError, code):
        await server.plan("off")
    with Server(free=thought, structured_outputs=thought) as server, fails(ModelError, code):
        await server.plan()
    assert server.ways == ["free", "structured_outputs"], "the model thought, and the server may know the form"


async def test_always_and_off() -> None:
    with Server() as server:
        assert await server.plan("always") == PLAN
        assert await server.plan("off") == PROSE
    assert server.ways == ["structured_outputs", "free"]


def test_a_model_that_is_trained_on_is_never_constrained() -> None:
    """A reply in an enforced form has other log-probabilities than those of the policy."""
    assert atlas().context().structured_output == "off"


def fits(form: ReplyForm, text: str) -> bool:
    return re.fullmatch(form.regex, text) is not None and form.readable(text)


def test_the_forms_are_those_that_the_parsers_read() -> None:
    assert fits(FORM, PLAN)
    assert not fits(FORM, PLAN.replace("python_coder", "calculator"))
    assert FORM.readable(json.dumps({"Sub-Goal": "add", "Tool": "python_coder", "Context": "1 + 2"}))
    assert not FORM.readable(PROSE)
    assert fits(verifier.FORM, "Verdict: stop")
    assert verifier.FORM.readable('{"Analysis": "It is 3.", "Verdict": "stop"}')
    assert not verifier.FORM.readable("stop or continue")
    call = executor.reply_form(CARDS["python_coder"])
    assert call.schema["properties"].keys() == {"code"}
    assert call.readable('{"code": "print(3)"}')
    assert not call.readable("It prints 3.")
