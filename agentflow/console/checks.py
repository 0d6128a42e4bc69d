"""Tables of checks and of tool trials."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.checks.doctor import Check, Trial
from agentflow.console.terminal import counted, print_json, shortened
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.rl.rollout.template import Certificate
    from agentflow.rl.rollout.tool_calls import ToolCertificate


def print_checks(out: Console, checks: Iterable[Check], *, as_json: bool = False) -> None:
    """Print checks as a table of three columns, name, status and details, or as JSON."""
    if as_json:
        print_json({"checks": [{"name": what, "works": works, "says": says} for what, works, says in checks]})
        return
    colours = {"ok": "green", "no": "red", "-": "dim"}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold", max_width=28)
    for what, works, says in checks:
        table.add_row(
            Text(one_line(what), overflow="fold"),
            Text(works, style=colours[works]),
            Text(one_line(says), overflow="fold"),
        )
    out.print(table)


def unusable(names: list[str]) -> str:
    """Return the error about what does not work."""
    return f"{', '.join(names)} {'does' if len(names) == 1 else 'do'} not work: see above"


def print_trials(out: Console, trials: Iterable[Trial]) -> None:
    """Print trials as checks, with seconds, sandbox tier and call before the result."""
    checks: list[Check] = []
    for trial in trials:
        cost = "" if trial.seconds is None else f"{trial.seconds:.2f} s {trial.tier}".strip() + ": "
        call = f"{shortened(trial.call)} → " if trial.call else ""
        checks.append((trial.name, trial.works, f"{cost}{call}{shortened(trial.says)}"))
    print_checks(out, checks)


def _calls(found: "ToolCertificate") -> str:
    """Describe what a template does to tool calls."""
    unread = "; ".join(f"{kind} is not read as it is written ({why})" for kind, why in found.unread.items())
    rows = f"4 turns with two results are {counted(found.rows, 'row')}" if found.rows else "the conversation is refused"
    once = "" if found.exact or not found.rows else ", but not every sampled token is trained on once"
    return f"{unread or 'a reply, a call and two calls are read'}; {rows}{once}"


def print_template(out: Console, found: "Certificate") -> None:
    """Print what a chat template costs in training."""
    checks: list[Check] = [("chat template", "ok", "takes the planner's roles: system, user, assistant")]
    for name, packed in (("plain replies", found.plain), ("replies that think", found.thinking)):
        if packed.rows == 1:
            checks.append((name, "ok", f"3 turns are one row of {packed.tokens:,} tokens"))
        else:
            costs = f"3 turns are {packed.rows} rows, {packed.ratio:.1f} times the tokens of one"
            checks.append((name, "no", f"{costs}: {packed.breaks}"))
    if found.as_tools and found.as_tools.rows < found.thinking.rows:
        saved = found.thinking.tokens / found.as_tools.tokens
        rows = f"replies that think are {counted(found.as_tools.rows, 'row')} with options.result_role=tool"
        checks.append(("results as tools", "-", f"{rows}, with {saved:.1f} times fewer tokens"))
    checks += [(name, "ok" if calls.works else "no", _calls(calls)) for name, calls in found.calls.items()]
    end = f"is {'the token' if found.ends_itself else 'another token than the one'} that the tokenizer calls the end"
    checks.append(("end of a reply", "ok" if found.ends_itself else "no", end))
    opens = "opens a <think> block, which is the prompt's and not trained" if found.opens_thinking else "opens no block"
    print_checks(out, [*checks, ("generation prompt", "-", opens)])
