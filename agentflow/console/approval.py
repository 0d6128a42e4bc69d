"""Approval of a tool call at the terminal."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agentflow.console.reading import interruptible
from agentflow.console.runs import call_text
from agentflow.tools.json_codec import from_json
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.nodes.approval import ApprovalDecision, Proposal


def proposal_text(proposal: "Proposal") -> Text:
    """Format the call and its sub-goal, without truncation, since a person has to judge it."""
    text = Text(f"Turn {proposal['turn']}  ", style="bold").append(one_line(proposal["sub_goal"]), style="not bold")
    text.append(f"\n  {one_line(proposal['tool'])} ", style="not bold cyan")
    text.append(call_text(proposal["arguments"], whole=True).replace("\n", "\n    "), style="not bold")
    if proposal["note"]:
        text.append(f"\n  beware: {one_line(proposal['note'])}", style="not bold red")
    return text


def ask_for_approval(out: Console, proposal: "Proposal") -> "ApprovalDecision":
    """Ask the person at the terminal for a decision. The end of the input refuses the call."""
    from agentflow.nodes.approval import ApprovalDecision

    out.print(proposal_text(proposal))
    while True:
        answer = _line(out, "approve, edit or refuse? [a/e/r] ")
        if answer is None or "refuse".startswith(answer.lower() or "?"):
            reason = _line(out, "why? (for the planner) ") if answer is not None else None
            return ApprovalDecision(decision="refuse", reason=reason or None)
        if answer and "approve".startswith(answer.lower()):
            return ApprovalDecision(decision="approve")
        if answer and "edit".startswith(answer.lower()):
            edited = _edited(out)
            if edited is not None:
                return ApprovalDecision(decision="edit", arguments=edited)


def _edited(out: Console) -> object:
    """Read arguments from the terminal; None if the input is not JSON."""
    text = _line(out, "arguments, as JSON on one line: ")
    try:
        return from_json(text or "")
    except ValueError as error:
        out.print(f"this is not JSON ({error})")
        return None


def _line(out: Console, prompt: str) -> str | None:
    try:
        with interruptible():
            return out.input(prompt, markup=False, emoji=False).strip()
    except EOFError:
        out.print()
        return None
