"""`agentflow doctor --model`: what a model writes as each module, and what its server supports; trials of tools."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.tools import tool

from agentflow.checks.doctor import Check, tried
from agentflow.checks.model import SAMPLES, examine
from agentflow.graph.context import Context
from agentflow.graph.models.reply import REMEDIES
from agentflow.tools.result import ErrorClass, ToolFailure
from tests.fake_openai import FakeOpenAI, Reply, completion

REPLIES = {
    "You prepare": "A product is asked for.",
    "You are the planner": "Sub-Goal: multiply\nTool: python_coder\nContext: 17 * 23",
    "You carry out": '{"code": "print(17 * 23)"}',
    "You check": "Analysis: It is 391.\nVerdict: stop",
    "You write the final": "Answer: 391",
    "Say hello": "Hello!",
}
SMALL = "I am a small model."
MODULES = ("planner", "executor", "verifier", "generator")
Sampled = Callable[[float], dict[str, Any]]


def first_tokens(logprob: Callable[[float], float], ids: dict[str, Any]) -> Sampled:
    """The reply to a request for first tokens: two tokens, with log-probabilities that may depend on temperature."""

    def sampled(temperature: float) -> dict[str, Any]:
        content = [{"token": "A", "logprob": logprob(temperature)}]
        choice = {**completion("m", "A")["choices"][0], "logprobs": {"content": content}, **ids}
        return {**completion("m", "A"), "choices": [choice] * SAMPLES, "prompt_token_ids": [1, 2] if ids else None}

    return sampled


VLLM = first_tokens(lambda temperature: -math.log1p(math.exp(-1 / temperature)), {"token_ids": [7]})
RAW = first_tokens(lambda _: -0.3, {"token_ids": [7]})
CERTAIN = first_tokens(lambda temperature: -1e-6 * temperature, {})


@tool
async def refusing() -> str:
    """Refuses."""
    raise ToolFailure(ErrorClass.REFUSED, "not today")


async def test_a_failure_of_any_class_has_a_remedy() -> None:
    [trial] = await tried(Context(tools=[f"{__name__}:refusing"]), {"refusing": {}})
    assert trial.says.startswith("not today (check ")


def server(
    *,
    sampled: Sampled | None = VLLM,
    forms: bool = True,
    length: int | None = 32768,
    finish_reason: str = "stop",
    **replies: str,
) -> FakeOpenAI:
    """A server whose model writes `replies` by module, and what the form asks for if the server enforces forms."""
    of_modules = zip(("analyst", *MODULES), REPLIES, strict=False)
    written = REPLIES | {start: replies[module] for module, start in of_modules if module in replies}

    def script(body: dict[str, Any]) -> Reply:
        if "n" in body:
            return (200, sampled(body["temperature"])) if sampled else (400, {"error": {"message": "no logprobs"}})
        start = next(start for start in REPLIES if body["messages"][0]["content"].startswith(start))
        formed = forms and not {"structured_outputs", "response_format"}.isdisjoint(body)
        text = REPLIES[start] if formed else written[start]
        return 200, completion("m", text, "stop" if formed else finish_reason)

    return FakeOpenAI(script, context_length=length)


async def checked(fake: FakeOpenAI, **settings: Any) -> dict[str, tuple[str, str]]:
    with fake:
        spec = f"vllm:fake-model@{fake.base_url}"
        found: list[Check] = await examine(spec, Context(model=spec, **settings))
    assert found[0][0] == spec
    return {name: (works, says) for name, works, says in found[1:]}


async def test_a_capable_model_on_a_capable_server() -> None:
    found = await checked(server())
    assert list(found) == [*MODULES, "speed", "context length", "log-probabilities", "token ids"]
    assert {works for works, _ in found.values()} == {"ok"}


@pytest.mark.parametrize("module", ["planner", "executor", "verifier"])
async def test_a_module_that_can_be_read_in_an_enforced_form_only_or_not_at_all(module: str) -> None:
    works, says = (await checked(server(**{module: SMALL})))[module]
    assert (works, "structured_output=always" in says) == ("-", True)
    found = await checked(server(forms=False, **{module: SMALL}))
    assert [name for name, (works, _) in found.items() if works == "no"] == [module]


async def test_a_reply_that_was_cut_off_ends_in_the_option() -> None:
    found = await checked(server(forms=False, finish_reason="length", planner=SMALL))
    assert (found["planner"][0], found["generator"][0]) == ("no", "ok")
    assert all("max_tokens" in found[module][1] for module in MODULES)


async def test_a_context_that_is_too_short_ends_in_options_that_fit() -> None:
    works, says = (await checked(server(length=8192)))["context length"]
    assert works == "-"
    assert "--context memory_tokens=4096 --context max_tokens=1024" in says
    fits = {"memory_tokens": 4096, "sampling": {"planner": {"max_tokens": 1024}}}
    assert (await checked(server(length=8192), **fits))["context length"][0] == "ok"
    assert (await checked(server(length=None)))["context length"][0] == "-"
    assert (await checked(server(length=1024)))["context length"][0] == "no", "a reply alone takes 2,048"


@pytest.mark.parametrize(
    ("sampled", "logprobs", "ids"),
    [(RAW, "--logprobs-mode processed_logprobs", "ok"), (CERTAIN, "", "-"), (None, "", "-")],
    ids=["raw", "certain", "none"],
)
async def test_log_probabilities_that_cannot_be_trained_on(sampled: Sampled | None, logprobs: str, ids: str) -> None:
    found = await checked(server(sampled=sampled))
    assert found["log-probabilities"][0] == "-"
    assert logprobs in found["log-probabilities"][1]
    assert found["token ids"][0] == ids


async def test_a_server_that_fails_is_one_line_for_each_module() -> None:
    found = await checked(FakeOpenAI(lambda _: (400, {"error": {"message": "no", "param": None, "code": None}})))
    assert {found[module][0] for module in MODULES} == {"no"}


async def test_a_model_that_the_server_does_not_list_is_tried() -> None:
    fake = server()
    fake.models = ("fake-model:latest",)
    found = await checked(fake)
    assert {found[module][0] for module in MODULES} == {"ok"}


async def test_a_reply_that_says_nothing_is_named_as_what_it_is() -> None:
    found = await checked(server(verifier="<think>It is 391.", generator="<think>It is 391."))
    assert [found[module][0] for module in MODULES] == ["ok", "ok", "-", "no"], "the verdict can be had in its form"
    assert all(REMEDIES["thought"] in found[module][1] for module in ("verifier", "generator"))
