"""Approval: a person sees a call before it is made, and approves, edits or refuses it.

What is shown and what is answered are plain data, so that Studio, the SDK and the command line work alike. The payload
has beside our own fields those of LangGraph's agent inbox (`action_request`, `config`, `description`), and its answers
are understood too.
"""

import json
from typing import Any, Literal, TypedDict

from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, ValidationError

from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import INTERRUPTED, State
from agentflow.nodes.at_most_once import has_checkpointer
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import argument_problem
from agentflow.tools.untrusted_text import bounded_line


class ActionRequest(TypedDict):
    """The call, as the agent inbox has it."""

    action: str
    args: dict[str, Any]


class Allowed(TypedDict):
    """What the agent inbox may answer: "response" is a refusal with its reason, "ignore" one without."""

    allow_accept: bool
    allow_edit: bool
    allow_respond: bool
    allow_ignore: bool


class Proposal(TypedDict):
    """What a run that waits for approval shows: the value of its interrupt."""

    tool: str
    arguments: dict[str, Any]
    sub_goal: str
    """What the planner wants the call for."""
    turn: int
    note: str
    """What to beware of: the call may have been made before, or the last edit cannot be used. Empty as a rule."""
    action_request: ActionRequest
    config: Allowed
    description: str


class Decision(BaseModel):
    """A person's answer; as JSON it is what a client resumes the run with."""

    model_config = ConfigDict(extra="ignore")

    decision: Literal["approve", "edit", "refuse"]
    arguments: Any = None
    """Of "edit": the arguments to call with; None for those that were proposed."""
    reason: str | None = None
    """Of "refuse": why, for the planner to read."""


def require_checkpointer(context: Context) -> None:
    """Raises ModelError where approval is asked for and nothing could keep the run until then."""
    if context.approve_tools and not has_checkpointer():
        raise ModelError(
            "approve_tools needs a checkpointer, which keeps the run while it waits: build_graph(checkpointer=...)",
            configuration=True,
        )


def is_asked_for(context: Context, tool: str) -> bool:
    """Whether the tool's calls wait for a person. Raises ModelError as `require_checkpointer` does."""
    require_checkpointer(context)
    return tool in context.approve_tools or "*" in context.approve_tools


def ask_person(state: State, tool: BaseTool) -> dict[str, Any] | ToolResult:
    """Interrupts the run until a person has decided: the arguments to call with, or the refusal.

    An edit that does not fit the tool's schema is asked for again.
    """
    proposed = state.proposed or {}
    note = "the run was interrupted when it made this call, which may have been carried out"
    note = note if state.mark == INTERRUPTED else ""
    while True:
        decision = read_decision(interrupt(_proposal(state, tool.name, note)))
        if decision.decision == "refuse":
            reason = json.dumps(bounded_line(decision.reason or "no reason given", 160), ensure_ascii=False)
            return ToolResult.failed(ErrorClass.REFUSED, f"a person refused this call: {reason}")
        if decision.decision == "approve" or decision.arguments is None:
            return proposed
        if (problem := argument_problem(tool, decision.arguments)) is None:
            return dict(decision.arguments)
        note = f"the edit cannot be used: {problem}"


def read_decision(answer: object) -> Decision:
    """A person's answer in any of its forms; what is none of them refuses. Never raises.

    {"decision": "approve" | "edit" | "refuse", "arguments": {...}, "reason": ...}, one of those words alone, or the
    agent inbox's {"type": "accept" | "edit" | "response" | "ignore", "args": ...}, also as a list of one.
    """
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, str):
        answer = {"decision": answer.strip().lower()}
    if isinstance(answer, dict) and "type" in answer:
        answer = _from_inbox(answer)
    try:
        return Decision.model_validate(answer)
    except ValidationError:
        return Decision(decision="refuse", reason="the answer was not approve, edit or refuse")


def _from_inbox(answer: dict[str, Any]) -> dict[str, Any]:
    given = answer.get("args")
    match answer["type"]:
        case "accept":
            return {"decision": "approve"}
        case "edit":
            return {"decision": "edit", "arguments": given.get("args") if isinstance(given, dict) else given}
        case "response":
            return {"decision": "refuse", "reason": str(given)}
        case "ignore":
            return {"decision": "refuse"}
    return answer


def _proposal(state: State, tool: str, note: str) -> Proposal:
    arguments, sub_goal = state.proposed or {}, state.plan.sub_goal if state.plan else ""
    return Proposal(
        tool=tool,
        arguments=arguments,
        sub_goal=sub_goal,
        turn=len(state.memory) + 1,
        note=note,
        action_request=ActionRequest(action=tool, args=arguments),
        config=Allowed(allow_accept=True, allow_edit=True, allow_respond=True, allow_ignore=True),
        description=f"{sub_goal}\n\n{note}".strip(),
    )
