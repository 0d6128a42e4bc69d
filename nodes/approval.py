"""Approval of tool calls: before a call is made, a person approves, edits or refuses it.

Proposals and answers are plain data, so that Studio, the SDK and the command line work alike. In addition to
AgentFlow's fields, the payload has those of LangChain's HumanInTheLoopMiddleware (`action_requests`, `review_configs`).
Its answers are accepted, and those of the older agent inbox.
"""

import json
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, ValidationError

from agentflow.graph.context import Context
from agentflow.graph.models.spec import misconfigured
from agentflow.graph.state import PendingCall
from agentflow.nodes.at_most_once import has_checkpointer
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import argument_problem
from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:  # it takes a second to import
    from langchain.agents.middleware.human_in_the_loop import ActionRequest, ReviewConfig


class Proposal(TypedDict):
    """The value of the interrupt of a run that waits for approval."""

    tool: str
    arguments: dict[str, Any]
    sub_goal: str
    """The planner's purpose of the call."""
    turn: int
    note: str
    """A warning: the call may have been made before, or the last edit is invalid. Usually empty."""
    action_requests: list["ActionRequest"]
    """The one call, in LangChain's format."""
    review_configs: list["ReviewConfig"]


class ApprovalDecision(BaseModel):
    """A person's answer, with which a client resumes the run (as JSON)."""

    model_config = ConfigDict(extra="ignore")

    decision: Literal["approve", "edit", "refuse"]
    arguments: Any = None
    """For "edit": the arguments to call with; None for the proposed ones."""
    tool: str | None = None
    """For "edit": the tool that the answer names. No other than the proposed one can be called."""
    reason: str | None = None
    """For "refuse": the reason, which the planner reads."""


def require_checkpointer(context: Context) -> None:
    """Raise ModelError if approval is requested and there is no checkpointer to keep the run until then."""
    if context.approve_tools and not has_checkpointer():
        raise misconfigured(
            "no_checkpointer",
            "approve_tools needs a checkpointer, which keeps the run while it waits: build_graph(checkpointer=...)",
        )


def is_asked_for(context: Context, tool: str) -> bool:
    """Return whether the tool's calls wait for a person."""
    return tool in context.approve_tools or "*" in context.approve_tools


def ask_person(call: PendingCall, turn: int, tool: BaseTool) -> dict[str, Any] | ToolResult:
    """Interrupt the run until a person has decided. Return the arguments to call with, or the refusal.

    If an edit does not fit the tool's schema, the person is asked again.
    """
    note = "the run was interrupted when it made this call, which may have been carried out"
    note = note if call.interrupted else ""
    while True:
        decision = read_decision(interrupt(_proposal(call, turn, note)))
        if decision.decision == "refuse":
            reason = json.dumps(bounded_line(decision.reason or "no reason given", 160), ensure_ascii=False)
            return ToolResult.failed(ErrorClass.REFUSED, f"a person refused this call: {reason}")
        if decision.tool not in (None, call.plan.tool):
            note = f"the edit cannot be used: it is for another tool than {call.plan.tool}; refuse the call instead"
            continue
        if decision.decision == "approve" or decision.arguments is None:
            return call.arguments
        if (problem := argument_problem(tool, decision.arguments)) is None:
            return dict(decision.arguments)
        note = f"the edit cannot be used: {problem}"


def read_decision(answer: object) -> ApprovalDecision:
    """Return a person's answer, given in any of its forms. Any other value is a refusal. Never raises.

    The forms are {"decision": "approve" | "edit" | "refuse", "arguments": {...}, "reason": ...}, one of those words
    alone, LangChain's {"decisions": [{"type": "approve" | "edit" | "reject", "edited_action": {...}, "message": ...}]},
    and the agent inbox's {"type": "accept" | "edit" | "response" | "ignore", "args": ...}. An object may be in a list.
    """
    if isinstance(answer, dict) and "decisions" in answer:
        answer = answer["decisions"]
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, str):
        answer = {"decision": answer.strip().lower()}
    if isinstance(answer, dict) and "type" in answer:
        answer = _typed(answer)
    try:
        return ApprovalDecision.model_validate(answer)
    except ValidationError:
        return ApprovalDecision(decision="refuse", reason="the answer was not approve, edit or refuse")


def _typed(answer: dict[str, Any]) -> dict[str, Any]:
    match answer["type"]:
        case "approve" | "accept":
            return {"decision": "approve"}
        case "edit":
            edited = answer.get("edited_action", answer.get("args"))
            if not isinstance(edited, dict):
                return {"decision": "edit", "arguments": edited}
            tool = edited.get("name", edited.get("action"))
            return {"decision": "edit", "arguments": edited.get("args"), "tool": tool}
        case "reject" | "respond" | "response" | "ignore":
            reason = answer.get("message", answer.get("args"))
            return {"decision": "refuse", "reason": None if reason is None else str(reason)}
    return answer


def _proposal(call: PendingCall, turn: int, note: str) -> Proposal:
    tool, arguments, sub_goal = call.plan.tool, call.arguments, call.plan.sub_goal
    return Proposal(
        tool=tool,
        arguments=arguments,
        sub_goal=sub_goal,
        turn=turn,
        note=note,
        action_requests=[{"name": tool, "args": arguments, "description": f"{sub_goal}\n\n{note}".strip()}],
        review_configs=[{"action_name": tool, "allowed_decisions": ["approve", "edit", "reject"]}],
    )
