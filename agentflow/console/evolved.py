"""Progress and result of a search for prompts."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.text import Text

from agentflow.console.held_out import print_held_out
from agentflow.console.progress import Bar
from agentflow.console.terminal import counted
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.rl.prompts.result import Found
    from agentflow.rl.prompts.search import Progress


class SearchView(Bar):
    """Rollouts of the budget, best score and dollars; without a terminal, a line for each validated candidate."""

    def __init__(self, out: Console, total: int) -> None:
        self._total, self._candidates = total, 0
        columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"))
        super().__init__(out, *columns, says="rollouts with the default prompts", total=total)

    def show(self, progress: "Progress") -> None:
        """Show the state of the search."""
        text = _score(progress)
        self._bar.update(self._task, completed=progress.rollouts, description=text)
        if not self._out.is_terminal and progress.candidates > self._candidates:
            self._candidates = progress.candidates
            self._out.print(f"{progress.rollouts}/{self._total} rollouts, {text}")


def _score(progress: "Progress") -> str:
    dollars = f", ${progress.dollars:.4f}" if progress.dollars else ""
    if progress.best is None:
        return f"rollouts with the default prompts{dollars}"
    scores = f"best {progress.best:.3f}, default {progress.default:.3f}"
    return f"{scores}, {counted(progress.candidates, 'candidate')} validated{dollars}"


def print_found(out: Console, found: "Found") -> None:
    """Print the diff of the prompts, and the held-out rewards before and after."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in found.diff.splitlines():
        out.print(Text(one_line(line), colours.get(line[:1], "")))
    if found.refused:
        out.print(f"{counted(found.refused, 'prompt')} could not be used, and were not run")
    dollars = f", ${found.progress.dollars:.4f}" if found.progress.dollars else ""
    out.print(f"{_score(found.progress).partition(',')[0]} on validation, {found.progress.rollouts} rollouts{dollars}")
    if not found.changed:
        out.print("no candidate was better; the prompts stay as they are")
        return
    print_held_out(out, found.held_out)
    out.print(f"prompts: {found.file}\ndiff: {found.diff_file}")
