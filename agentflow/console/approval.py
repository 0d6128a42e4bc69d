"""Questions of a run to the person at the terminal: approval of a call, or what a tool asks by `interrupt`."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from agentflow.console.reading import interruptible
from agentflow.console.runs import call_text
from agentflow.tools.json_codec import from_json
from agentflow.tools.untrusted_text import clean, one_line

if TYPE_CHECKING:
    from agentflow.nodes.approval import ApprovalDecision


def is_proposal(asked: object) -> bool:
    """Return whether the value of an interrupt is a call that waits for approval, not the question of a tool."""
    return isinstance(asked, dict) and "sub_goal" in asked


def asked_text(asked: Any) -> Text:
    """Format what a run asks a person, without truncation, since a person has to judge it."""
    if not is_proposal(asked):
        return Text(f"  {clean(str(asked))}", style="bold")
    text = Text(f"Turn {asked['turn']}  ", style="bold").append(one_line(asked["sub_goal"]), style="not bold")
    text.append(f"\n  {one_line(asked['tool'])} ", style="not bold cyan")
    text.append(call_text(asked["arguments"], whole=True).replace("\n", "\n    "), style="not bold")
    if asked["note"]:
        text.append(f"\n  beware: {one_line(asked['note'])}", style="not bold red")
    return text


def answer_of_person(out: Console, asked: Any) -> Any:
    """Ask the person at the terminal, and return what answers the interrupt. Raises Unanswered at the end of the input.

    That of a proposal does not raise: it refuses the call.
    """
    from agentflow.graph.run.runner import Unanswered

    out.print(asked_text(asked))
    if is_proposal(asked):
        return _decision(out).model_dump()
    if (answer := _line(out, "> ")) is None:
        raise Unanswered("the run waits for a person, and the input has ended; answer at a terminal")
    return answer


def _decision(out: Console) -> "ApprovalDecision":
    from agentflow.nodes.approval import ApprovalDecision

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
