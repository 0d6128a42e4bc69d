"""The verifier: what the memory establishes, and whether that answers the question (paper section 3.1, v^t).

Its analysis and signal become part of memory, and the planner reads them. Like the planner's, its prompt only grows.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from agentflow.graph.context import Context, is_decision_model
from agentflow.graph.models.loading import ask, decide
from agentflow.graph.models.providers import Profile
from agentflow.graph.models.structured import ReplyForm
from agentflow.graph.state import Action, Plan, Signal, State, Status, Turn, Verdict
from agentflow.nodes.attachments import with_attachments
from agentflow.nodes.calibrated import stop_probability
from agentflow.nodes.demonstrations import JUDGED
from agentflow.nodes.reply_parsing import bare, read_labels, spoken, unfence, without_loop
from agentflow.tools.redaction import cut
from agentflow.tools.result import ErrorClass

PROMPT = """\
You check the work of an agent turn by turn. After each turn, say in one or two sentences what its result establishes, \
or why it failed, and what the question still needs. Then decide: stop when the results answer the whole question \
reliably, continue when something is missing, wrong or unproved. End with exactly these two lines:
Analysis: what is established and what is missing
Verdict: stop or continue"""

LEAN = """\
You check the work of an agent turn by turn. After each turn, say what the question still needs, and decide: stop when \
the results so far answer the whole question, continue when something is missing or a result is an error. Reply with \
one line, which begins with Verdict: stop or Verdict: continue."""

PROMPTS: dict[Profile, str] = {"paper": PROMPT, "lean": LEAN}

IS_ANSWERED = "Do the results of the turns of this agent, and its answer if there is one, answer the question reliably?"
"""The question to a decision model."""

LABELS = {
    "analysis": ("analysis", "explanation", "reasoning"),
    "verdict": ("verdict", "final verdict", "conclusion", "decision", "signal", "stop signal"),
}
UNREADABLE = "The verdict could not be read, so the work goes on."

LATE = "The run was out of time before this turn was checked."

MAX_SAME_PLANS = 3
"""Identical unreadable plans in a row after which a run ends: nothing suggests that the next one differs."""

MAX_REPEATS = 3
"""Turns that are the same (`repeats`) after which a run ends, in the lean profile."""

STOPPABLE = (None, ErrorClass.REFUSED, ErrorClass.UNCERTAIN)
"""Results after which a run may stop, in the lean profile: there is one, or a person, or a crash, is in its way."""

MAX_CALL = 300
"""Maximum number of characters of a call that the verifier sees, in the lean profile."""

MAX_CHARACTERS = 1500
_SIGNALS: dict[str, Signal] = {"stop": "stop", "continue": "continue"}
_BOOLEANS: dict[str, Signal] = {"true": "stop", "false": "continue"}
_REASON = re.compile(r"\W*continue\b[\s,.:;*_-]*(?:since\b|because\b)?[\s.]*(?P<why>[^\n]*)", re.IGNORECASE)
_NEGATIONS = {"not", "never", "cannot", "can't", "don't"}


def messages(
    question: str,
    analysis: str,
    turns: list[tuple[Plan, Action]],
    verdicts: list[str],
    prompt: str = PROMPT,
    profile: Profile = "paper",
) -> list[BaseMessage]:
    """Return the verifier's conversation: one user message per turn, and one assistant message per turn already judged.

    `verdicts` holds the past replies, one fewer than `turns`.
    """
    conversation: list[BaseMessage] = [SystemMessage(prompt)]
    return [*conversation, *demonstrations(prompt), *_judged(question, analysis, turns, verdicts, profile)]


def demonstrations(prompt: str) -> list[BaseMessage]:
    """Return the example runs that stand after the lean prompt; none after another, which may ask for another form."""
    if prompt != LEAN:
        return []
    return [
        message
        for question, judged in JUDGED.items()
        for message in _judged(
            question,
            "",
            [(turn.plan, turn.action) for turn in judged],
            [reply_text(turn.verdict, "lean") for turn in judged],
            "lean",
        )
    ]


def _judged(
    question: str, analysis: str, turns: list[tuple[Plan, Action]], verdicts: list[str], profile: Profile
) -> list[BaseMessage]:
    lean = profile == "lean"
    opening = f"Question: {question}\n" + ("" if lean and not analysis else f"Analysis: {analysis}\n") + "\n"
    conversation: list[BaseMessage] = []
    for number, (plan, action) in enumerate(turns, start=1):
        conversation.append(HumanMessage(opening + describe_turn(number, plan, action, call=lean)))
        if number <= len(verdicts):
            conversation.append(AIMessage(verdicts[number - 1]))
        opening = ""
    return conversation


def describe_turn(number: int, plan: Plan, action: Action, *, call: bool = False) -> str:
    """Return one turn as the verifier's and the generator's prompts show it, with its call if `call`."""
    step = f"Sub-Goal: {plan.sub_goal}\nTool: {plan.tool}\n" if plan.sub_goal else ""
    if call and action.arguments:
        step += f"Call: {cut(describe_call(action.arguments), MAX_CALL)}\n"
    return f"Turn {number}\n{step}{action.result.describe()}"


def describe_call(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as prompts show them: as JSON, or the text itself if it is the only one."""
    if len(arguments) == 1 and isinstance(text := next(iter(arguments.values())), str):
        return text
    return json.dumps(arguments, ensure_ascii=False)


def reply_text(verdict: Verdict, profile: Profile = "paper") -> str:
    """Return a verdict in the format that the prompt asks for. Past verdicts are repeated in it."""
    if profile == "paper":
        return f"Analysis: {verdict.analysis}\nVerdict: {verdict.signal}"
    why = own_words(verdict)
    return f"Verdict: continue, {why}" if verdict.signal == "continue" and why else f"Verdict: {verdict.signal}"


def own_words(verdict: Verdict) -> str:
    """Return the analysis as the model wrote it, without the sentence of ours that may end it."""
    return verdict.analysis.removesuffix(UNREADABLE).removesuffix(LATE).strip()


def parse(text: str) -> Verdict:
    """Parse the verifier's reply. Never raises, and never stops a run on a word that only resembles a verdict."""
    reply = unfence(spoken(text))
    found = read_labels(text, LABELS)
    rest, _, last = reply.rpartition("\n")
    signal = _signal(found["verdict"]) if "verdict" in found else _SIGNALS.get(bare(last).lower())
    said = _before_verdict(reply if "verdict" in found or signal is None else rest)
    reason = _REASON.match(found.get("verdict", ""))
    analysis = found.get("analysis") or said or (reason["why"] if reason else "")
    analysis = cut(analysis, MAX_CHARACTERS, "")
    if signal is None:
        return Verdict(analysis=f"{analysis} {UNREADABLE}".strip(), signal="continue")
    return Verdict(analysis=analysis, signal=signal)


FORM = ReplyForm.of_lines(
    "verdict", {"Verdict": [*_SIGNALS]}, lambda text: not parse(text).analysis.endswith(UNREADABLE)
)
"""The one decision. A model that has written no readable verdict is asked for it, and not for prose again."""


def _signal(value: str) -> Signal | None:
    """Return the signal of a verdict: its first word, or the only one in capitals unless the verdict has a negation."""
    words = re.findall(r"[A-Za-z]+(?:'t)?", value.replace("’", "'"))
    lower = [word.lower() for word in words]
    if {"stop", "continue"} <= set(lower) <= {"stop", "or", "continue"}:
        return None  # the prompt's wording repeated, not a decision
    if len(words) == 1 and lower[0] in _BOOLEANS:
        return _BOOLEANS[lower[0]]
    if words and lower[0] in _SIGNALS:
        return _SIGNALS[lower[0]]
    shouted = {word for word in words if word in ("STOP", "CONTINUE")}
    return _SIGNALS[shouted.pop().lower()] if len(shouted) == 1 and not _NEGATIONS & set(lower) else None


def _before_verdict(text: str) -> str:
    """Return what a reply says before its verdict; an object is the verdict."""
    before = re.split(r"(?im)^[ \t#*>_-]*(?:verdict|conclusion|decision)\b", text)[0].strip()
    return "" if before.startswith("{") else before


def conversation_of(state: State, context: Context, plan: Plan, action: Action) -> list[BaseMessage]:
    """Return the verifier's conversation in a run, of which `plan` and `action` are the current turn."""
    turns = [*((turn.plan, turn.action) for turn in state.memory), (plan, action)]
    profile = context.profile_of("verifier")
    verdicts = [reply_text(turn.verdict, profile) for turn in state.memory]
    prompt = context.prompts.get("verifier", PROMPTS[profile])
    conversation = messages(state.question, state.analysis, turns, verdicts, prompt, profile)
    return with_attachments(conversation, state.messages, after=1 + len(demonstrations(prompt)))


class Verifier:
    """The node that judges the current turn and adds it to memory."""

    async def __call__(self, state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the finished turn."""
        context = Context.of(runtime)
        if state.plan is None or state.action is None:
            raise RuntimeError("the verifier runs after the planner and the executor")
        action = kept(state.action, context)
        if context.profile_of("verifier") == "lean":  # two rules, whatever a model would say
            if _nothing_found(state.memory, action):
                return close(state, Verdict(analysis="", signal="continue"), context)
            if _found_before(state.memory, state.plan, action):
                return close(state, Verdict(analysis="", signal="stop"), context)
        if probability := await stop_probability(state, state.plan, action, context):
            return close(state, Verdict(analysis="", signal="stop", probability=probability), context)
        try:
            async with asyncio.timeout(state.seconds_left()):
                verdict = await verdict_on(conversation_of(state, context, state.plan, action), context)
        except TimeoutError:
            verdict = Verdict(analysis=LATE, signal="continue")
        return close(state, verdict, context)


async def verdict_on(conversation: list[BaseMessage], context: Context) -> Verdict:
    """Return the verdict of the run's verifier on a conversation that begins with its prompt."""
    if is_decision_model(model := context.model_of("verifier")):
        from langchain_core.decisions import Noul  # late: only a version that has decision models has it

        question = context.prompts.get("verifier", IS_ANSWERED)
        run = conversation[1 + len(demonstrations(conversation[0].text)) :]
        probability = (await decide(model, run, Noul(instructions=question))).noul
        return Verdict(analysis="", signal="stop" if probability >= 0.5 else "continue", probability=probability)
    return parse(without_loop(await ask(context, "verifier", conversation, FORM)))


def kept(action: Action, context: Context) -> Action:
    """Return the action as memory stores it, with its result cut to the turn's share of the budget."""
    return action.model_copy(update={"result": action.result.shortened(context.result_tokens)})


def close(state: State, verdict: Verdict, context: Context) -> dict[str, Any]:
    """Return the update that ends a turn with `verdict`. Memory grows by the whole turn, or not at all."""
    if state.plan is None or state.action is None:
        raise RuntimeError("the verifier runs after the planner and the executor")
    action = kept(state.action, context)
    turn = Turn(turn=len(state.memory) + 1, plan=state.plan, action=action, verdict=verdict)
    lean = context.profile_of("verifier") == "lean"
    status = status_after(turn, state, context)
    if lean and status == "running" and repeats([*state.memory, turn]) >= MAX_REPEATS:
        status = "out_of_turns"  # further turns would be the same
    if status != "answered" and _without_plan([*state.memory, turn], ended=status != "running"):
        status = "no_plan"
    return {"memory": [turn], "action": action, "verdict": verdict, "status": status}


def _nothing_found(memory: list[Turn], action: Action) -> bool:
    """Return whether no turn has brought what could be an answer."""
    return all(one.result.error not in STOPPABLE for one in (*(turn.action for turn in memory), action))


def _found_before(memory: list[Turn], plan: Plan, action: Action) -> bool:
    """Return whether a turn made the same call with the same result, which was no failure. Of 273 recorded runs in
    which one did, 263 found nothing afterwards that was not known.
    """
    new = plan.tool, action.arguments, action.result.output
    known = [(turn.plan.tool, turn.action.arguments, turn.action.result.output) for turn in memory]
    return action.result.error is None and new in known


def repeats(memory: list[Turn]) -> int:
    """Return how many turns are as the last one, which is one of them: the same call and result, or the same plan, and
    a failure. For one plan, the executor may write two calls by turns.
    """
    last = memory[-1]
    return sum(_step(turn) == _step(last) or (_fails(turn, last.plan) and _fails(last, last.plan)) for turn in memory)


def _fails(turn: Turn, plan: Plan) -> bool:
    return turn.action.result.error is not None and turn.plan.text == plan.text


def _step(turn: Turn) -> tuple[object, ...]:
    action = turn.action
    return turn.plan.tool, action.arguments or turn.plan.text, action.result.error, action.result.output


def _without_plan(memory: list[Turn], *, ended: bool) -> bool:
    """Return whether a run ends without a plan: none could be read before it ended, or the last ones are the same."""
    last = memory if ended else memory[-MAX_SAME_PLANS:]
    unreadable = all(turn.plan.error is ErrorClass.BAD_PLAN for turn in last)
    same = len(last) == MAX_SAME_PLANS and len({turn.plan.text for turn in last}) == 1
    return unreadable and (ended or same)


def status_after(turn: Turn, state: State, context: Context) -> Status:
    """Return the status of a run after `turn`, which decides whether it continues."""
    if turn.verdict.signal == "stop":
        return "answered"
    if state.seconds_left() <= 0:
        return "out_of_time"
    return "out_of_turns" if turn.turn >= context.max_turns else "running"
