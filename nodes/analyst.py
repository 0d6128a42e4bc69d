"""The initial query analysis: what is asked, what it requires, which tools fit. It can be switched off
(`Context.analyst`).

It also resets the state for each run, and completes a question that refers to an earlier exchange (`follow_up`).
"""

import asyncio
import time
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from agentflow.graph.context import Context
from agentflow.graph.conversation import asked
from agentflow.graph.models.loading import ask
from agentflow.graph.models.spec import misconfigured
from agentflow.graph.prompts import fill
from agentflow.graph.state import InputState
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import follow_up
from agentflow.nodes.approval import require_checkpointer
from agentflow.nodes.attachments import check_attachments, texts, with_attachments, with_files
from agentflow.nodes.reply_parsing import read_labels, spoken, unfence, without_loop
from agentflow.tools.redaction import cut

PROMPT = """\
You prepare a question for an agent that can use these tools: {tools}.
Say in at most three short lines what kind of answer is asked for, which facts or computations it takes and in which \
order, and what to beware of. Do not answer the question."""

MAX_CHARACTERS = 2000


def messages(question: str, tools: list[str], prompt: str = PROMPT) -> list[BaseMessage]:
    """Return the analyst's conversation; `tools` are names."""
    return [SystemMessage(fill(prompt, tools=", ".join(tools))), HumanMessage(f"Question: {question}")]


def parse(text: str) -> str:
    """Return the analysis without a heading. Any text is accepted; an overlong one is cut."""
    reply = without_loop(unfence(spoken(text)))
    analysis = read_labels(reply, {"analysis": ("query analysis", "analysis")}).get("analysis", reply)
    return cut(analysis, MAX_CHARACTERS, "")


class Analyst:
    """The node that resets the memory, takes the question from the conversation and analyses it."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    async def __call__(self, state: InputState, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the update that begins a run.

        Raises ModelError, also if approval is requested without a checkpointer.
        """
        context = Context.of(runtime)
        run = begin(state, context)
        require_checkpointer(context)
        await check_attachments(state.messages, context)
        try:
            async with asyncio.timeout(run["deadline"] - time.time()):
                question = await follow_up.standing_alone(_question(state), state.messages, context)
                run["question"] = with_files(question, state.messages, context)
                if not context.analyses:
                    return run
                available = await self.toolbox.available_tools(context)
                prompt = context.prompts.get("analyst", PROMPT)
                conversation = messages(run["question"], [*available.tools], prompt)
                reply = await ask(context, "analyst", with_attachments(conversation, state.messages))
        except TimeoutError:
            reply = ""  # the first turn reports that the time is up
        return {**run, "analysis": parse(reply)}


def begin(state: InputState, context: Context) -> dict[str, Any]:
    """Return the update that begins a run: a person's last message is its question, and memory is empty.

    Raises ModelError if there is no question.
    """
    return {
        "question": with_files(_question(state), state.messages, context),
        "analysis": "",
        "memory": Overwrite([]),
        "plan": None,
        "pending_call": None,
        "action": None,
        "verdict": None,
        "answer": "",
        "confidence": None,
        "status": "running",
        "deadline": time.time() + context.max_seconds - context.answer_seconds,
    }


def _question(state: InputState) -> str:
    last = asked(state.messages)
    if last is None or not (question := texts(last)):
        raise misconfigured("no_question", "there is no question: a person's last message must hold it as text")
    return question
