"""Checks behind `agentflow doctor --model`: one completion of each module, and what the server supports."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
from langchain_core.messages import AIMessage, BaseMessage

from agentflow.checks import endpoint as server
from agentflow.checks.check import Check
from agentflow.graph.context import Context, Module
from agentflow.graph.models.listing import context_lengths, listed, with_sole_model
from agentflow.graph.models.loading import aload_model, enforced, load_model, reply_of
from agentflow.graph.models.spec import PROVIDERS, Endpoint, ModelError, endpoint_of, parse
from agentflow.graph.models.structured import ReplyForm
from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.nodes import analyst, answer_text, executor, generator, planner, verifier
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.redaction import cut
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import one_line

SECONDS = 180.0
"""Time limit for the reply of a module."""

QUESTION = "What is 17 * 23?"


@dataclass(frozen=True)
class Trial:
    """The reply of a module to a fixed request."""

    check: Check
    reply: AIMessage | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """Tokens of prompt and reply as the server counts them."""
        usage = self.reply.usage_metadata if self.reply else None
        return (usage["input_tokens"], usage["output_tokens"]) if usage else (0, 0)


async def examine(spec: str, context: Context) -> list[Check]:
    """Check the model of `spec` by using it as every module of `context`, and then its server."""
    offered, endpoint = await asyncio.to_thread(_offered, spec)
    if offered[1] == "no":
        return [offered]
    start = time.perf_counter()
    trials = await asyncio.gather(*(_trial(context, *request) for request in _requests(context)))
    checks = [offered, *(trial.check for trial in trials), _speed(trials, time.perf_counter() - start)]
    if endpoint is None:
        return checks
    length = (await asyncio.to_thread(context_lengths, endpoint)).get(endpoint.model)
    prompt = max(trial.counts[0] for trial in trials)
    return [*checks, server.context_length(length, prompt, context), *await server.capabilities(endpoint, context)]


def _offered(spec: str) -> tuple[Check, Endpoint | None]:
    """Check that the server of `spec` answers and offers its model. A model of another provider is only loaded."""
    try:
        parsed = parse(spec)
        if parsed.provider not in PROVIDERS:
            load_model(spec)
            return (spec, "ok", "loads"), None
        endpoint = endpoint_of(parsed)
        offered = list(context_lengths(endpoint))
        endpoint = endpoint if endpoint.model else with_sole_model(endpoint)
    except ModelError as error:
        return (spec, "no", str(error)), None
    except httpx.HTTPStatusError as error:
        remedy = f"set {endpoint.key_variable}" if error.response.status_code in (401, 403) else "is the URL right?"
        return (spec, "no", f"{endpoint.base_url}/models answers with {error.response.status_code}; {remedy}"), None
    except (httpx.HTTPError, ValueError) as error:
        problem = endpoint.without_key(one_line(str(error)))
        says = f"{endpoint.base_url}/models does not list models ({problem}); is the server running?"
        return (spec, "no", says), None
    if endpoint.model not in offered:
        return (spec, "no", f"there is no model '{endpoint.model}'; {listed(offered)}"), None
    return (spec, "ok", f"{endpoint.base_url} answers; {listed(offered)}"), endpoint


_Request = tuple[Module, list[BaseMessage], Callable[[str], str], ReplyForm | None]
"""Module, conversation, the reason why a reply cannot be read ("" if it can), and its form."""


def _requests(context: Context) -> list[_Request]:
    cards = standard_cards(context.tools)
    plan = Plan(sub_goal="Compute 17 * 23", tool="python_coder", context="17 * 23")
    action = Action(result=ToolResult(status="ok", output="391"))
    turn = Turn(turn=1, plan=plan, action=action, verdict=Verdict(analysis="The product is 391.", signal="stop"))
    call, described = executor.reply_form(cards[plan.tool]), planner.describe_tools(cards.values())
    return [
        ("analyst", analyst.messages(QUESTION, [*cards]), lambda text: "" if analyst.parse(text) else "no text", None),
        (
            "planner",
            planner.messages(QUESTION, "A product is asked for.", [], described, context.max_turns),
            lambda text: planner.parse(text, cards).problem,
            planner.reply_form(cards),
        ),
        (
            "executor",
            executor.messages(cards[plan.tool], plan),
            lambda text: "" if call.readable(text) else "the arguments of the call could not be read",
            call,
        ),
        (
            "verifier",
            verifier.messages(QUESTION, "A product is asked for.", [(plan, action)], []),
            lambda text: "" if verifier.FORM.readable(text) else "the verdict could not be read",
            verifier.FORM,
        ),
        (
            "generator",
            generator.messages(QUESTION, [turn]),
            lambda text: "" if answer_text.parse(text) else "no text",
            None,
        ),
    ]


async def _trial(
    context: Context,
    module: Module,
    conversation: list[BaseMessage],
    problem_of: Callable[[str], str],
    form: ReplyForm | None,
) -> Trial:
    try:
        async with asyncio.timeout(SECONDS):
            model = await aload_model(context.model_of(module), context.sampling_of(module))
            reply = await reply_of(model, conversation)
            text = str(reply.text)
            if not (problem := problem_of(text)):
                ended = reply.response_metadata.get("finish_reason") == "length"
                note = "cut off; raise --context max_tokens: " if ended else ""
                return Trial((module, "ok", f"readable: {note}{cut(one_line(text), 100)}"), reply)
            if form and await enforced(model, conversation, form):
                says = f"{problem}; readable in an enforced form, which --context structured_output=always asks for"
                return Trial((module, "ok", says), reply)
    except TimeoutError:
        return Trial((module, "no", f"no reply within {SECONDS:.0f} s; lower max_tokens, or use a faster model"))
    except ModelError as error:
        return Trial((module, "no", str(error)))
    remedy = "use a larger model, or a server that enforces forms, such as vLLM"
    if reply.response_metadata.get("finish_reason") == "length":
        remedy = f"the reply was cut off; raise --context max_tokens, or {remedy}"
    return Trial((module, "no", f"{problem}: {cut(one_line(text), 60)!r}; {remedy}"), reply)


def _speed(trials: list[Trial], seconds: float) -> Check:
    tokens = sum(trial.counts[1] for trial in trials)
    if not tokens:
        return "speed", "-", "the server counts no tokens"
    return "speed", "ok", f"{math.ceil(tokens / seconds):,} tokens/s for {len(trials)} requests at once"
