"""The generator: from the question and the finished memory to the answer (paper section 3.1, o)."""

import asyncio
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from agentflow.graph.context import Context
from agentflow.graph.conversation import answer_stream
from agentflow.graph.models.loading import ask, stream_text
from agentflow.graph.models.providers import Profile
from agentflow.graph.state import Action, State, Turn
from agentflow.nodes.abstention import assess
from agentflow.nodes.answer_text import AnswerStream, parse, shown
from agentflow.nodes.attachments import with_attachments
from agentflow.nodes.demonstrations import ANSWERED
from agentflow.nodes.verifier import describe_turn, own_words
from agentflow.tools.result import ErrorClass

PROMPT = """\
You write the final answer of an agent from what its turns established. Rely on the results below, not on memory of \
your own, and do not mention the turns or the tools. Explain briefly if the question needs it, then end with:
Answer: the answer alone, in the form that the question asks for"""

LEAN = """\
You write the final answer of an agent from what its turns found. Take it from the results below, names and numbers \
to the letter; where they do not hold it, use what you know. Do not mention the turns or the tools. Explain in one or \
two sentences if the question needs it, then end with:
Answer: the answer alone, in the form that the question asks for"""

PROMPTS: dict[Profile, str] = {"paper": PROMPT, "lean": LEAN}

OUT_OF_TIME = (
    "No answer: the run's time ran out before the model had written one. Allow more with --context max_seconds=N "
    "(Context.max_seconds), or use a faster model."
)
"""The answer of a run whose generator did not reply in time. Evaluation and training take the run as failed."""

NO_PLAN = (
    "No answer: the planner's model ({spec}) wrote no plan that could be read ({problem}). Check it with: agentflow "
    "doctor --model {spec}. Serve it where the format can be enforced (--context structured_output=always, for example "
    "on vLLM), or use a larger model."
)
"""The answer of a run that ended without a readable plan."""

SHORT_RESULT = 400
"""Most characters of a result that the generator reads after the question."""

_UNREADABLE = (ErrorClass.BAD_PLAN, ErrorClass.BAD_ARGUMENTS)
"""Failures of turns in which no tool was called, because a model's text could not be read."""


def messages(question: str, memory: list[Turn], prompt: str = PROMPT, profile: Profile = "paper") -> list[BaseMessage]:
    """Return the generator's conversation: the question and every turn that may hold a fact.

    Our own texts about a model's reply are left out, since a weak model repeats them as facts.
    """
    return [SystemMessage(prompt), *demonstrations(prompt), _found(question, memory, profile)]


def demonstrations(prompt: str) -> list[BaseMessage]:
    """Return the examples that stand after the lean prompt; none after another, which may ask for another form."""
    shown = ANSWERED.items() if prompt == LEAN else ()
    pairs = [(_found(question, memory, "lean"), AIMessage(reply)) for question, (memory, reply) in shown]
    return [message for pair in pairs for message in pair]


def _found(question: str, memory: list[Turn], profile: Profile) -> HumanMessage:
    """Return the question and the turns; in the lean profile, it stands after the last long result.

    A small model that reads it before five passages repeats them in place of an answer, and one that reads it after a
    program's number answers it anew.
    """
    turns = [turn for turn in memory if _may_hold_a_fact(turn.action)]
    long = [number for number, turn in enumerate(turns, 1) if len(turn.action.result.output) > SHORT_RESULT]
    texts = [_described(turn) for turn in turns]
    texts.insert(long[-1] if long and profile == "lean" else 0, f"Question: {question}")
    return HumanMessage("\n\n".join(texts))


def _may_hold_a_fact(action: Action) -> bool:
    error = action.result.error
    called_too_late = error is ErrorClass.TIMEOUT and not action.arguments
    return error not in _UNREADABLE and not called_too_late


def _described(turn: Turn) -> str:
    described, analysis = describe_turn(turn.turn, turn.plan, turn.action), own_words(turn.verdict)
    return f"{described}\nVerifier: {analysis}" if analysis else described


class Generator:
    """The node that writes the answer and adds it to the conversation."""

    async def __call__(self, state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the answer, within the rest of the run's time and what is kept for the answer. Raises ModelError."""
        context = Context.of(runtime)
        if state.status == "no_plan":
            spec, problem = context.model_name_of("planner"), state.memory[-1].plan.problem
            return _without_model(NO_PLAN.format(spec=spec, problem=problem))
        profile = context.profile_of("generator")
        prompt = context.prompts.get("generator", PROMPTS[profile])
        message_id = str(uuid4())
        try:
            async with asyncio.timeout(state.seconds_left() + context.answer_seconds):
                conversation = messages(state.question, state.memory, prompt, profile)
                conversation = with_attachments(conversation, state.messages, after=1 + len(demonstrations(prompt)))
                reply = await _reply(context, conversation, message_id)
        except TimeoutError:
            return {**_without_model(OUT_OF_TIME, message_id), "status": "out_of_time"}
        answer = parse(reply)
        confidence, doubt = await assess(state, context, answer)
        if doubt:
            return {**_without_model(doubt, message_id), "confidence": confidence, "status": "abstained"}
        return {"answer": answer, "confidence": confidence, "messages": [AIMessage(shown(reply), id=message_id)]}


def _without_model(answer: str, message_id: str | None = None) -> dict[str, Any]:
    return {"answer": answer, "messages": [AIMessage(answer, id=message_id)]}


async def _reply(context: Context, conversation: list[BaseMessage], message_id: str) -> str:
    """Return the model's reply. Where somebody reads the answer as it is written, it is streamed too."""
    # An answer that may be withheld is not shown before it is whole.
    push = answer_stream(message_id) if context.abstain is None else None
    if push is None:
        return await ask(context, "generator", conversation)
    answer = AnswerStream()
    async for piece in stream_text(context, "generator", conversation):
        if text := answer.add(piece):
            push(text)
    if text := answer.end():
        push(text)
    return answer.reply
