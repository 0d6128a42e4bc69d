"""Rollouts: calls by node, rows, and rewards before and after a training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import counted, shortened
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.rl.launch.preview import Preview
    from agentflow.rl.rollout.rollout import Rollout
    from agentflow.rl.run.training_log import HeldOut


def print_rollout(out: Console, rollout: "Rollout", texts: Sequence[str]) -> None:
    """Print a rollout: its task, its outcome, and each trained call with the sampled text in `texts`."""
    task, reward = rollout.trace.task, f", reward {rollout.reward:g}" if rollout.status == "ok" else ""
    out.print(Text(shortened(task.question), "bold"))
    for call, text in zip(rollout.calls, texts, strict=True):
        tokens = f"{len(call.prompt_ids):,} + {len(call.response_ids):,} tokens"
        note = " unreadable" if call.unreadable else ""
        out.print(Text(f"  {one_line(call.node)} · {tokens}{note} · {shortened(text)}"))
    why = f" ({shortened(rollout.trace.error)})" if rollout.trace.error else ""
    out.print(Text(f"  {rollout.status}{reward}, {rollout.trace.seconds:.1f} s{why}", "dim"))


def print_preview(out: Console, preview: "Preview") -> None:
    """Print the nodes and the rows of a preview."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in ("node", "learns", "calls", "prompt tokens", "sampled tokens"):
        table.add_column(head, justify="left" if head in ("node", "learns") else "right", overflow="fold")
    for path, use in preview.nodes.items():
        tokens = (f"{use.prompt_tokens:,}", f"{use.sampled_tokens:,}") if use.learns else ("", "")
        table.add_row(one_line(path), "yes" if use.learns else "no", f"{use.calls:,}", *tokens)
    out.print(table)
    rewards, finished = ([one.reward for one in some] for some in (preview.counted, preview.finished))
    average = f", average reward {sum(rewards) / len(rewards):.2f}" if rewards else ""
    if finished and len(finished) < len(rewards):
        average += f" ({sum(finished) / len(finished):.2f} of those that finished)"
    lost = 1 - len(rewards) / max(len(preview.rollouts), 1)
    left_out = f", {lost:.0%} left out" if lost else ""
    statuses = ", ".join(f"{number} {status}" for status, number in preview.statuses.items())
    out.print(f"rollouts: {statuses}{average}{left_out}")
    varied, several = preview.groups_with_signal
    if several and not preview.scripted:
        out.print(f"signal: {varied} of {counted(several, 'task')} with different rewards")
    rows = counted(len(preview.rows), "row")
    out.print(f"would train on {rows} of {preview.forward_tokens:,} tokens ({preview.unpacked_tokens:,} if not packed)")


def print_held_out(out: Console, held: "HeldOut") -> None:
    """Print both means, and the 95 % interval of the difference."""
    points = f"{100 * held.low:+.1f} to {100 * held.high:+.1f} points (95 %)"
    number = counted(held.tasks, "held-out task")
    out.print(f"{number}: {held.before:.3f} before, {held.after:.3f} after; difference {points}")
