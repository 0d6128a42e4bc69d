"""Checks behind `agentflow doctor --model`: one reply of each module, and what the server supports."""

import asyncio
import math
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import httpx
from langchain_core.messages import AIMessage, BaseMessage

from agentflow.checks.doctor import Check
from agentflow.graph.context import Context, Module
from agentflow.graph.models.context_length import fitting
from agentflow.graph.models.listing import context_lengths, listed, with_sole_model
from agentflow.graph.models.loading import aload_model, enforced, load_model, reply_of
from agentflow.graph.models.reply import MUTE, written
from agentflow.graph.models.spec import PROVIDERS, Endpoint, ModelError, endpoint_of, parse
from agentflow.graph.models.structured import ReplyForm
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.nodes import analyst, answer_text, executor, generator, planner, verifier
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.redaction import cut
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import one_line

SECONDS, SERVER_SECONDS = 180.0, 60.0
"""Time limits for the reply of a module, and for a request about the server."""
QUESTION = "What is 17 * 23?"
FORMED = "readable in an enforced form, which --context structured_output=always asks for"
TEMPERATURES, SAMPLES = (0.3, 1.0), 16
"""Temperatures at which first tokens are sampled, and how many at each."""
NOISE = 0.02
"""Difference of log-probabilities up to which two are the same; batches change those of bfloat16 by about 0.01."""


Request = tuple[Module, list[BaseMessage], Callable[[str], str], ReplyForm | None]
"""Module, conversation, the reason why a reply cannot be read ("" if it can), and its form."""


async def examine(spec: str, context: Context) -> list[Check]:
    """Check the model of `spec` by using it as every module of `context`, and then its server."""
    offered, endpoint, lengths = await asyncio.to_thread(_offered, spec)
    if offered[1] == "no":
        return [offered]
    start = time.perf_counter()
    trials = await asyncio.gather(*(_trial(context, request) for request in _requests(context)))
    seconds = time.perf_counter() - start
    usage = [reply.usage_metadata for _, reply in trials if reply and reply.usage_metadata]
    written = sum(one["output_tokens"] for one in usage)
    per_second = f"{math.ceil(written / seconds):,} tokens/s for {len(trials)} requests at once"
    speed: Check = ("speed", "ok", per_second) if written else ("speed", "-", "the server counts no tokens")
    checks = [offered, *(check for check, _ in trials), speed]
    if endpoint is None:
        return checks
    prompt = max((one["input_tokens"] for one in usage), default=0)
    cold, warm = [await asyncio.to_thread(_sampled, endpoint, temperature) for temperature in TEMPERATURES]
    known = [_context_length(lengths.get(endpoint.model), prompt, context), _logprobs(cold, warm), _token_ids(cold)]
    return [*checks, *known]


def _offered(spec: str) -> tuple[Check, Endpoint | None, dict[str, int | None]]:
    """Check that the server of `spec` answers, and return the context lengths of the models that it lists.

    A list may be incomplete, or absent: whether the model can be used, only a request shows. A model of another
    provider is loaded.
    """
    try:
        parsed = parse(spec)
        if parsed.provider not in PROVIDERS:
            load_model(spec)
            return (spec, "ok", "loads"), None, {}
        endpoint = endpoint_of(parsed)
        endpoint = endpoint if endpoint.model else with_sole_model(endpoint)
        lengths = context_lengths(endpoint)
    except ModelError as error:
        return (spec, "no", str(error)), None, {}
    except (httpx.HTTPError, ValueError) as error:
        says = f"{endpoint.base_url}/models lists no models ({endpoint.without_key(one_line(str(error)))})"
        down = isinstance(error, httpx.TransportError)
        return (spec, "no" if down else "-", f"{says}; is the server running?" if down else says), endpoint, {}
    known = "" if endpoint.model in lengths else f", and not '{endpoint.model}'"
    says = f"{endpoint.base_url} answers; {listed(list(lengths))}{known}"
    return (spec, "-" if known else "ok", says), endpoint, lengths


def _requests(context: Context) -> list[Request]:
    """Return a request for each module, of a run that has multiplied two numbers."""
    cards, state = standard_cards(context.tools), State(question=QUESTION)
    if context.analyses:
        state.analysis = "A product is asked for."
    plan = Plan(sub_goal="Compute 17 * 23", tool="python_coder", context="17 * 23")
    action = Action(arguments={"code": "print(17 * 23)"}, result=ToolResult(status="ok", output="391"))
    turn = Turn(turn=1, plan=plan, action=action, verdict=Verdict(analysis="The product is 391.", signal="stop"))
    call, planned = executor.reply_form(cards[plan.tool]), planner.conversation_of(state, context, cards)
    called = executor.conversation_of(state, context, plan, cards[plan.tool])
    judged = verifier.conversation_of(state, context, plan, action)
    answered = generator.messages(QUESTION, [turn], generator.PROMPTS[context.profile_of("generator")])

    def said(parsed: object) -> str:
        return "" if parsed else "no text"

    def formed(form: ReplyForm, what: str) -> tuple[Callable[[str], str], ReplyForm]:
        return lambda text: "" if form.readable(text) else f"{what} could not be read", form

    requests: list[Request] = [
        ("planner", planned, lambda text: planner.parse(text, cards).problem, planner.reply_form(cards)),
        ("executor", called, *formed(call, "the arguments of the call")),
        ("verifier", judged, *formed(verifier.FORM, "the verdict")),
        ("generator", answered, lambda text: said(answer_text.parse(text)), None),
    ]
    if context.analyses:
        asked = analyst.messages(QUESTION, [*cards])
        requests.insert(0, ("analyst", asked, lambda text: said(analyst.parse(text)), None))
    return requests


async def _trial(context: Context, request: Request) -> tuple[Check, AIMessage | None]:
    """Return whether a module's reply can be read, and the reply."""
    module, conversation, problem_of, form = request
    try:
        async with asyncio.timeout(SECONDS):
            model = await aload_model(context.model_of(module), context.sampling_of(module))
            try:
                reply = await reply_of(model, conversation)
            except ModelError as error:
                if form and error.code in MUTE and (formed := await enforced(model, conversation, form)):
                    return (module, "-", f"{error}; {FORMED}"), formed
                raise
            text, cut_off = written(reply), reply.response_metadata.get("finish_reason") == "length"
            if not (problem := problem_of(text)):
                note = "cut off; raise max_tokens: " if cut_off else ""
                return (module, "ok", f"readable: {note}{cut(one_line(text), 100)}"), reply
            if form and await enforced(model, conversation, form):
                return (module, "-", f"{problem}; {FORMED}"), reply
    except TimeoutError:
        return (module, "no", f"no reply within {SECONDS:.0f} s; lower max_tokens, or use a faster model"), None
    except ModelError as error:
        return (module, "no", str(error)), None
    remedy = "use a larger model, or a server that enforces forms, such as vLLM"
    if cut_off:
        remedy = f"the reply was cut off; raise max_tokens, or {remedy}"
    return (module, "no", f"{problem}: {cut(one_line(text), 60)!r}; {remedy}"), reply


def _context_length(length: int | None, prompt: int, context: Context) -> Check:
    """Compare the server's context of `length` tokens with the largest request, with a first prompt of `prompt`."""
    reply = context.sampling_of("planner").max_tokens or 0
    needed = context.memory_tokens + reply + prompt
    parts = f"results {context.memory_tokens:,} + reply {reply:,} + first prompt {prompt:,} = {needed:,} tokens"
    if length is None:
        return "context length", "-", f"the server does not state it; it must hold {parts}"
    if length >= needed:
        return "context length", "ok", f"{length:,} tokens hold {parts}"
    if length >= reply + prompt:
        return "context length", "-", f"{length:,} tokens, which long results may exceed: {fitting(length)}"
    return "context length", "no", f"{length:,} tokens, but {parts}; {fitting(length)}"


def _sampled(endpoint: Endpoint, temperature: float) -> dict[str, Any]:
    """Return the reply to a request for first tokens with log-probabilities and ids; empty if it is refused."""
    asked = {"model": endpoint.model, "messages": [{"role": "user", "content": "Write one word."}]}
    body = {**asked, "max_tokens": 1, "temperature": temperature, "logprobs": True}
    url, headers = f"{endpoint.base_url}/chat/completions", {"Authorization": f"Bearer {endpoint.key}"}
    # llama.cpp takes as many samples as it has slots, of which there may be one.
    for samples, ids in product((SAMPLES, 1), ({"return_token_ids": True}, {})):
        try:
            sent = body | ids | {"n": samples}
            reply = httpx.post(url, json=sent, headers=headers, timeout=SERVER_SECONDS).raise_for_status()
            found = reply.json()
        except (httpx.HTTPError, ValueError):
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _logprobs(cold: dict[str, Any], warm: dict[str, Any]) -> Check:
    """Tell log-probabilities of the sampling distribution from raw ones, which are the same at every temperature."""
    name, at_cold, at_warm = "log-probabilities", _first_logprobs(cold), _first_logprobs(warm)
    if not at_cold or not at_warm:
        return name, "-", "the server returns none, which only training needs"
    shared = [(at_cold[token], at_warm[token]) for token in at_cold.keys() & at_warm.keys()]
    if any(abs(one - other) > NOISE for one, other in shared):
        return name, "ok", "those of the sampling distribution: they differ between temperatures 0.3 and 1.0"
    if any(min(pair) < -2 * NOISE for pair in shared):
        return name, "-", "raw: to train on replies, serve with --logprobs-mode processed_logprobs"
    return name, "-", "too certain a model to tell those of the sampling distribution from raw ones"


def _first_logprobs(reply: dict[str, Any]) -> dict[str, float]:
    """Return the log-probability of each token that was sampled."""
    try:
        first = [choice["logprobs"]["content"][0] for choice in reply["choices"]]
        return {str(token["token"]): float(token["logprob"]) for token in first}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}


def _token_ids(reply: dict[str, Any]) -> Check:
    choices = reply.get("choices") or [{}]
    if reply.get("prompt_token_ids") and choices[0].get("token_ids"):
        return "token ids", "ok", "returned for prompt and reply, as training needs"
    return "token ids", "-", "not returned; to train on replies, serve with vLLM, which takes return_token_ids"
