"""Tables of threads, and one thread with its turns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.approval import asked_text
from agentflow.console.runs import turn_text
from agentflow.console.terminal import shortened
from agentflow.tools.untrusted_text import clean, one_line

if TYPE_CHECKING:
    from agentflow.graph.threads import SavedThread, Thread


def print_threads(out: Console, threads: "Sequence[Thread]") -> None:
    """Print a table of threads."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)  # the question takes what the others leave
    for heading, justify in (("thread", "left"), ("state", "left"), ("turns", "right"), ("last used", "left")):
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=heading != "thread")
    table.add_column("question", overflow="ellipsis", no_wrap=True, ratio=1)
    for thread in threads:
        used = thread.updated.astimezone().strftime("%Y-%m-%d %H:%M")
        name, question = Text(one_line(thread.id)), Text(shortened(thread.question))
        table.add_row(name, thread.state, f"{thread.turns:,}", used, question)
    out.print(table)


def thread_data(run: "SavedThread") -> dict[str, object]:
    """Return a thread as JSON data: its last run, and what was said before."""
    from agentflow.graph.run.trace import TraceTurn

    turns = [TraceTurn.of(turn) for turn in run.turns]
    earlier = [{"role": said.type, "text": said.text} for said in run.earlier]
    last = {"question": run.question, "answer": run.answer, "turns": turns, "waits": run.waits}
    return {"state": run.state, "earlier": earlier, **last}


def thread_text(name: str, run: "SavedThread") -> Text:
    """Format what was said in a thread: the last question with its turns, and the answer or how to resume."""
    from agentflow.graph.run.trace import TraceTurn

    text = Text(f"{one_line(name)}: {run.state}\n")
    for said in run.earlier:
        text.append(f"{'> ' if said.type == 'human' else ''}{clean(said.text).strip()}\n", style="dim")
    text.append(one_line(run.question), style="bold")
    for turn in run.turns:
        text.append("\n").append_text(turn_text(TraceTurn.of(turn)))
    if run.waits:
        text.append("\n").append_text(asked_text(run.waits))
    if run.state == "finished":
        text.append("\nAnswer: ", style="bold green").append(clean(run.answer).strip(), style="bold")
    else:
        text.append(f"\nresume it with agentflow solve --thread {one_line(name)}", style="dim")
    return text
