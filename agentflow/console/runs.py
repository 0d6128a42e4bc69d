"""Output of a run: live turns, the answer, its usage, and runs of one question side by side."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import counted, shortened, table
from agentflow.tools.redaction import cut
from agentflow.tools.untrusted_text import clean, one_line

if TYPE_CHECKING:
    from agentflow.graph.run.cost import Price
    from agentflow.graph.run.run_events import Event
    from agentflow.graph.run.trace import Tokens, Trace, TraceTurn, Usage


_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 800


class RunView:
    """Live view of a run: finished turns, and a spinner naming the active module; plain lines without a terminal.

    At a terminal, the answer is shown as it is written. It is left in `answer`, to be printed when it is whole.
    """

    def __init__(self, out: Console) -> None:
        self._out = out
        self.answer = ""
        self._working = _Working(out)
        self._live = Live(self._working, console=out, transient=True, refresh_per_second=8) if out.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def streams(self) -> bool:
        """Return whether the view shows an answer that is being written."""
        return self._live is not None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop drawing inside the block, so that other code can use the terminal."""
        if self._live:
            self._live.stop()
        yield
        if self._live:
            self._live.start()

    def show(self, event: "Event") -> None:
        """Show an event of the run."""
        from agentflow.graph.run.run_events import Restated, Started, Writing

        match event:
            case Started():
                where = "" if event.module in ("analyst", "generator") else f"turn {event.turn} · "
                self._working.now(f"{where}{event.module}{f' · {one_line(event.tool)}' if event.tool else ''}")
            case Restated():
                self._out.print(Text(f"read as: {one_line(event.question)}", style="dim"))
            case Writing():
                self.answer = self._working.text = event.text
            case _:
                self._out.print(turn_text(event))


class _Working:
    """A spinner with the seconds since the last change, below the end of the text that is being written."""

    def __init__(self, out: Console) -> None:
        self._spinner, self._out, self.text = Spinner("dots"), out, ""
        self.now("starting")

    def now(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()

    def __rich__(self) -> RenderableType:
        self._spinner.update(text=Text(f"{self._what} · {time.monotonic() - self._since:.0f} s", style="dim"))
        if not self.text:
            return self._spinner
        lines = Text(clean(self.text)).wrap(self._out, self._out.width)
        return Group(Text("\n").join(lines[-max(1, self._out.height - 4) :]), self._spinner)


def turn_text(turn: "TraceTurn") -> Text:
    """Format a turn in a few lines: sub-goal, call, result, verdict, and replies that were cut off."""
    from agentflow.graph.run.trace import cut_off

    text = Text(f"Turn {turn.turn}  ", style="bold")
    text.append(one_line(turn.sub_goal) or "(no step could be read)", style="not bold")
    if turn.tool:
        text.append(f"\n  {one_line(turn.tool)} ", style="not bold cyan")
        text.append(_indented(call_text(turn.arguments)), style="not bold")
    result = turn.result
    output = result.output if result.error is None else f"failed ({result.error}): {result.output}"
    text.append("\n  → ", style="not bold green" if result.error is None else "not bold red")
    text.append(_indented(_clipped(output)), style="not bold")
    said = one_line(turn.verdict.analysis)
    sure = f" with probability {probability:.2f}" if (probability := turn.verdict.probability) is not None else ""
    text.append(f"\n  verifier: {turn.verdict.signal}{sure}{said and f'. {said}'}", style="not bold dim")
    if modules := cut_off(turn.finish_reasons):
        text.append(f"\n  cut off at max_tokens: {', '.join(map(one_line, modules))}", style="not bold yellow")
    return text


def answer_text(trace: "Trace") -> Text:
    """Format the answer with the facts of its run."""
    text = Text("\n").append("Answer: ", style="bold green").append(clean(trace.answer).strip(), style="bold")
    text.append(confidence_text(trace), style="not bold")
    return text.append("\n").append(facts_text(trace))


def confidence_text(trace: "Trace") -> str:
    """Format the confidence of a given answer; "" if it has none."""
    known = trace.confidence is not None and trace.status != "abstained"
    return f"   (confidence {trace.confidence:.2f})" if known else ""


def facts_text(trace: "Trace") -> Text:
    """Format the run's status, its counts of turns, calls, tokens and seconds, and what was said in place of a plan."""
    from agentflow.graph.run.trace import cut_off

    how = {
        "out_of_turns": "out of turns, answered from what was found",
        "out_of_time": "out of time, likewise",
        "no_plan": "no plan could be read",
        "abstained": "not sure enough to answer",
    }
    tokens = trace.usage.total_tokens
    facts = [
        how.get(trace.status, trace.status),
        counted(len(trace.turns), "turn"),
        counted(trace.usage.calls, "model call"),
        *([counted(tokens, "token")] if tokens else []),
        f"{trace.seconds:.1f} s",
        *(f"{module} cut off at max_tokens" for module in cut_off(trace.finish_reasons)),
    ]
    text = Text(f"({', '.join(facts)})", style="dim")
    if trace.status == "no_plan" and (said := next((turn.plan for turn in reversed(trace.turns) if turn.plan), "")):
        text.append("\nThe model wrote, and nothing verified: ", "yellow not dim").append(
            _clipped(said).strip(), "not dim"
        )
    return text


def print_compared(out: Console, traces: Mapping[str, "Trace"]) -> None:
    """Print runs of one question side by side: a column for each planner, a row for each turn, the answers last."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for planner in traces:
        table.add_column(Text(one_line(planner)), ratio=1, overflow="fold")
    for turns in zip_longest(*(trace.turns for trace in traces.values())):
        table.add_row(*(_short_turn(turn) if turn else Text() for turn in turns))
    table.add_section()
    table.add_row(*(Text(f"Answer: {one_line(trace.answer)}", style="bold") for trace in traces.values()))
    out.print(table)


def _short_turn(turn: "TraceTurn") -> Text:
    text = Text(f"{turn.turn} {one_line(turn.tool) or '(no tool)'}: ", style="cyan")
    text.append(one_line(turn.sub_goal), style="not bold default")
    text.append("\n→ ", style="green" if turn.result.error is None else "red")
    text.append(shortened(turn.result.output), style="default")
    return text


def call_text(arguments: dict[str, Any], *, whole: bool = False) -> str:
    """Format arguments for reading: code as lines, everything else as JSON. Long text is cut unless `whole`."""
    shown = clean if whole else _clipped
    if set(arguments) == {"code"} and isinstance(arguments["code"], str):
        return shown("\n" + arguments["code"] if "\n" in arguments["code"] else arguments["code"])
    return shown(json.dumps(arguments, ensure_ascii=False, default=str)) if arguments else ""


def _clipped(text: str) -> str:
    lines = clean(text).split("\n")
    more = [f"... {counted(len(lines) - _SHOWN_LINES, 'more line')}"] if len(lines) > _SHOWN_LINES else []
    shown = "\n".join([*lines[:_SHOWN_LINES], *more])
    return cut(shown, _SHOWN_CHARACTERS + 4, " ...")


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def print_usage(out: Console, usage: "Usage", prices: "Mapping[str, Price]") -> None:
    """Print a row for each module and model whose server counts tokens, and their sum; costs if any is known."""
    from agentflow.graph.run.cost import cost
    from agentflow.graph.run.trace import Tokens

    costs = {
        (module, model): cost({model: tokens}, prices)
        for module, models in usage.modules.items()
        for model, tokens in models.items()
    }
    known = [each for each in costs.values() if each is not None]
    shown = table("module", "model", figures=("calls", "read", "written", *(["dollars"] if known else [])))
    for module, models in usage.modules.items():
        for model, tokens in models.items():
            shown.add_row(
                Text(one_line(module)), Text(one_line(model)), *_counts(tokens), *_dollars(costs[module, model], known)
            )
    shown.add_section()
    total = sum(usage.models.values(), Tokens())
    whole = sum(known) if len(known) == len(costs) else None
    shown.add_row("all", "", *_counts(total), *_dollars(whole, known), style="bold")
    out.print()
    out.print(shown)
    if usage.calls > total.calls:
        out.print(Text(f"{usage.calls - total.calls} further calls failed, or their server counts no tokens", "dim"))


def _counts(tokens: "Tokens") -> tuple[str, str, str]:
    return f"{tokens.calls:,}", f"{tokens.input_tokens:,}", f"{tokens.output_tokens:,}"


def _dollars(cost: float | None, known: list[float]) -> list[str]:
    if not known:
        return []
    return ["?" if cost is None else f"{cost:.6f}"]
