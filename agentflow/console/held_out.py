"""Mean reward of the held-out tasks before and after a training or a search for prompts."""

from typing import TYPE_CHECKING

from rich.console import Console

from agentflow.console.terminal import counted

if TYPE_CHECKING:
    from agentflow.rl.training_log import HeldOut


def print_held_out(out: Console, held: "HeldOut") -> None:
    """Print both means, and the 95 % interval of the difference."""
    points = f"{100 * held.low:+.1f} to {100 * held.high:+.1f} points (95 %)"
    number = counted(held.tasks, "held-out task")
    out.print(f"{number}: {held.before:.3f} before, {held.after:.3f} after; difference {points}")
