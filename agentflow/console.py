"""What the command line shows: turns as they happen, and tables; bars are in `progress`.

Whatever comes from a model, a tool or a server is untrusted: it is shown as plain text, never as markup, and without
the control characters by which it could rewrite or recolour the terminal (`clean`).
"""

import json
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agentflow.tools.containment import clean

if TYPE_CHECKING:
    from agentflow.evals.calibration import Calibration
    from agentflow.evals.cost import Price
    from agentflow.evals.episode import Episode, EpisodeTurn
    from agentflow.evals.metrics import Group, Summary
    from agentflow.evals.rollout import Started
    from agentflow.evals.statistics import Comparison
    from agentflow.tool_checks import Trial

Check = tuple[str, Literal["ok", "no", "-"], str]
"""A line of a report: what, whether it works ("-": nobody asked), and what there is to say or to do."""

_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 800
_SHOWN_FAILURES = 8
_SHORT = 160


def one_line(text: str) -> str:
    """`clean` text on a single line."""
    return " ".join(clean(text).split())


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is. Characters that its encoding lacks become question marks."""
    stream = sys.stderr if stderr else sys.stdout
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="replace")
    shown = Console(file=stream, highlight=False, markup=False, emoji=False)
    # Lines that go into a file or a pipe are not broken at eighty columns.
    shown.soft_wrap = not shown.is_terminal
    return shown


class RunView:
    """One run, live: finished turns above, a spinner below that says who is at work. Plain lines without a terminal."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._working = _Working()
        self._live = Live(self._working, console=out, transient=True, refresh_per_second=8) if out.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, event: "Started | EpisodeTurn") -> None:
        """A module begins, or a round is over."""
        from agentflow.evals.rollout import Started

        if isinstance(event, Started):
            where = "" if event.module in ("analyst", "generator") else f"turn {event.turn} · "
            self._working.now(f"{where}{event.module}{f' · {one_line(event.tool)}' if event.tool else ''}")
        else:
            self._out.print(turn_text(event))


class _Working:
    """A spinner with the seconds since the last change."""

    def __init__(self) -> None:
        self._spinner = Spinner("dots")
        self.now("starting")

    def now(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()

    def __rich__(self) -> Spinner:
        self._spinner.update(text=Text(f"{self._what} · {time.monotonic() - self._since:.0f} s", style="dim"))
        return self._spinner


def turn_text(turn: "EpisodeTurn") -> Text:
    """A round in a few lines: step, call, result, verdict."""
    text = Text(f"Turn {turn.turn}  ", style="bold")
    text.append(one_line(turn.sub_goal) or "(no step could be read)", style="not bold")
    if turn.tool:
        text.append(f"\n  {one_line(turn.tool)} ", style="not bold cyan")
        text.append(_indented(_call(turn.arguments)), style="not bold")
    result = turn.result
    said = result.output if result.error is None else f"failed ({result.error}): {result.output}"
    text.append("\n  → ", style="not bold green" if result.error is None else "not bold red")
    text.append(_indented(_clipped(said)), style="not bold")
    text.append(f"\n  verifier: {turn.verdict.signal}. {one_line(turn.verdict.analysis)}", style="not bold dim")
    return text


def answer_text(episode: "Episode") -> Text:
    """The answer, and how it came about."""
    how = {"out_of_turns": "out of turns, answered from what was found", "out_of_time": "out of time, likewise"}
    tokens = sum(model.total_tokens for model in episode.usage.models.values())
    facts = [
        how.get(episode.status, episode.status),
        _count(len(episode.turns), "turn"),
        _count(episode.usage.calls, "model call"),
        *([_count(tokens, "token")] if tokens else []),
        f"{episode.seconds:.1f} s",
    ]
    text = Text("\n").append("Answer: ", style="bold green").append(clean(episode.answer).strip(), style="bold")
    text.append(f"\n({', '.join(facts)})", style="dim")
    return text


def print_compared(out: Console, episodes: Mapping[str, "Episode"]) -> None:
    """Runs of one question side by side: a column for each planner, a row for each turn, the answers last."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for planner in episodes:
        table.add_column(Text(one_line(planner)), ratio=1, overflow="fold")
    for turns in zip_longest(*(episode.turns for episode in episodes.values())):
        table.add_row(*(_short_turn(turn) if turn else Text() for turn in turns))
    table.add_section()
    table.add_row(*(Text(f"Answer: {one_line(episode.answer)}", style="bold") for episode in episodes.values()))
    out.print(table)


def _short_turn(turn: "EpisodeTurn") -> Text:
    text = Text(f"{turn.turn} {one_line(turn.tool) or '(no tool)'}: ", style="cyan")
    text.append(one_line(turn.sub_goal), style="not bold default")
    text.append("\n→ ", style="green" if turn.result.error is None else "red")
    text.append(_first(turn.result.output), style="default")
    return text


def _call(arguments: dict[str, Any]) -> str:
    """Arguments as a person reads them: a program as lines, all else as JSON."""
    if set(arguments) == {"code"} and isinstance(arguments["code"], str):
        return _clipped("\n" + arguments["code"] if "\n" in arguments["code"] else arguments["code"])
    return _clipped(json.dumps(arguments, ensure_ascii=False, default=str)) if arguments else ""


def _clipped(text: str) -> str:
    lines = clean(text).split("\n")
    more = [f"... {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    shown = "\n".join([*lines[:_SHOWN_LINES], *more])
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]} ..."


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


Figures = tuple["Summary", tuple[float, float]]
"""The summary of an evaluation and the interval of its accuracy."""


def print_summaries(
    out: Console, by_benchmark: "Mapping[str, Figures]", prices: "Mapping[str, Price]", gated: Collection[str] = ()
) -> None:
    """Each benchmark's table by family and its totals; of several also a table of all.

    Errors are not repeated for those in `gated`, since they may have the question in them.
    """
    for name, (summary, interval) in by_benchmark.items():
        if len(by_benchmark) > 1:
            out.print(Text(f"\n{name}", style="bold"))
        _print_summary(out, summary, interval, prices, quiet=name in gated)
    if len(by_benchmark) > 1:
        out.print()
        out.print(_table_of_all(by_benchmark))


def _print_summary(
    out: Console, summary: "Summary", interval: tuple[float, float], prices: "Mapping[str, Price]", *, quiet: bool
) -> None:
    table = Table("family", box=None, pad_edge=False)
    for heading in ("n", "correct", "accuracy", "turns"):
        table.add_column(heading, justify="right")
    for group in summary.families if len(summary.families) > 1 else ():
        table.add_row(*_row(group, one_line(group.name) or "-"))
    table.add_section()
    table.add_row(*_row(summary.total, "all"), style="bold")
    out.print(table)
    for name, value in (*_totals(summary, interval), *_usage(summary, prices), *_failures(summary, quiet=quiet)):
        out.print(Text(f"{name:<18}{value}"))


def _table_of_all(by_benchmark: "Mapping[str, Figures]") -> Table:
    table = Table("benchmark", box=None, pad_edge=False)
    for heading in ("n", "accuracy", "95 % interval", "turns", "tool-call errors"):
        table.add_column(heading, justify="right")
    for name, (summary, (low, high)) in by_benchmark.items():
        total = summary.total
        cells = f"{total.accuracy:.3f}", f"{low:.3f} to {high:.3f}", f"{total.mean_turns:.2f}"
        table.add_row(name, str(total.number), *cells, percent(summary.error_rate))
    return table


def _row(group: "Group", name: str) -> Iterable[str]:
    return name, str(group.number), str(group.correct), f"{group.accuracy:.2f}", f"{group.mean_turns:.1f}"


def _totals(summary: "Summary", interval: tuple[float, float]) -> Iterable[tuple[str, str]]:
    total = summary.total
    yield "", ""
    yield "accuracy", f"{total.accuracy:.3f} (95 % interval {interval[0]:.3f} to {interval[1]:.3f}, n = {total.number})"
    for name, mean in summary.metrics.items():
        yield name, f"{mean:.3f}"
    if summary.undecided:
        yield "undecided", f"{summary.undecided}, counted as wrong; a --judge may decide"
    yield "turns", f"{total.mean_turns:.2f} per question"
    errors = ", ".join(f"{name} {count}" for name, count in summary.errors.most_common())
    yield "tool-call errors", f"{percent(summary.error_rate)} of turns{f' ({errors})' if errors else ''}"
    tools = ", ".join(f"{name} {percent(count / summary.tools.total())}" for name, count in summary.tools.most_common())
    yield "tools chosen", one_line(tools) or "none"
    if summary.sources:
        yield "searched", one_line(", ".join(f"{name} {count}" for name, count in summary.sources.most_common()))
    yield "readable plans", f"{percent(summary.readable_rate)} of turns"
    yield "seconds", f"{summary.seconds:.1f} per question"


def _usage(summary: "Summary", prices: "Mapping[str, Price]") -> Iterable[tuple[str, str]]:
    """Tokens of all modules and of each, with what they cost where that is known."""
    from agentflow.evals.cost import cost
    from agentflow.evals.episode import Tokens

    modules = {module: (sum(models.values(), Tokens()), models) for module, models in summary.modules.items()}
    costs = {module: cost(models, prices) for module, (_, models) in modules.items()}
    known = [one for one in costs.values() if one is not None]
    all_of_it = f", ${sum(known):.4f}" if known and len(known) == len(costs) else ""
    tokens = summary.tokens
    yield (
        "tokens",
        f"{tokens.input_tokens:,} read, {tokens.output_tokens:,} written, {summary.calls:,} model calls{all_of_it}",
    )
    for module, (of, _) in modules.items():
        dollars = "" if costs[module] is None else f", ${costs[module]:.4f}"
        yield f"  {one_line(module)}", f"{of.input_tokens:,} read, {of.output_tokens:,} written{dollars}"


def _failures(summary: "Summary", *, quiet: bool) -> Iterable[tuple[str, str]]:
    if quiet and summary.failures:
        yield "failed runs", f"{summary.failures.total()}, for reasons that are in the episodes"
        return
    for reason, count in summary.failures.most_common(_SHOWN_FAILURES):
        yield "failed runs", f"{count} x {one_line(reason)}"
    if (rest := len(summary.failures) - _SHOWN_FAILURES) > 0:
        yield "failed runs", f"... and {_count(rest, 'other reason')}"


def print_calibration(out: Console, found: "Calibration", prompt: str) -> None:
    """A judge's decisions on answers that are known: by kind, and what it got wrong. `prompt` names its version."""
    table = Table("answers", box=None, pad_edge=False)
    for heading in ("n", "false accepts", "false rejects", "undecided"):
        table.add_column(heading, justify="right")
    for kind, of in found.by_kind.items():
        table.add_row(*_calibrated(one_line(kind), of))
    table.add_section()
    table.add_row(*_calibrated("all", found), style="bold")
    out.print(table)
    right = [row for row in found.rows if row.correct]
    wrong = len(found.rows) - len(right)
    facts = {
        "kappa": f"{found.kappa:.3f} (1 is full agreement, 0 is chance)",
        "false accepts": f"{len(found.false_accepts)} of {wrong} incorrect answers",
        "false rejects": f"{len(found.false_rejects)} of {len(right)} correct answers",
        "undecided": str(len(found.undecided)),
        "prompt": prompt,
    }
    out.print()
    for name, value in facts.items():
        out.print(Text(f"{name:<18}{value}"))
    for name, rows in (("accepted", found.false_accepts), ("rejected", found.false_rejects)):
        for row in rows[:_SHOWN_FAILURES]:
            out.print(Text(f"wrongly {name}  {one_line(row.gold)[:_SHORT]} | {one_line(row.answer)[:_SHORT]}"))


def _calibrated(name: str, found: "Calibration") -> Iterable[str]:
    return name, *(str(len(rows)) for rows in (found.rows, found.false_accepts, found.false_rejects, found.undecided))


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f} %"


def print_checks(out: Console, checks: Iterable[Check]) -> None:
    """Checks as a table of three columns."""
    colours = {"ok": "green", "no": "red", "-": "dim"}
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, works, says in checks:
        table.add_row(Text(one_line(what)), Text(works, style=colours[works]), Text(one_line(says), overflow="fold"))
    out.print(table)


def print_trials(out: Console, trials: Iterable["Trial"]) -> None:
    """Tools that were tried: a line of whether each works, its seconds and tier; the call and the result below it."""
    colours = {"ok": "green", "no": "red", "-": "dim"}
    for trial in trials:
        text = Text(f"{one_line(trial.name):<20} ").append(f"{trial.works:<3}", style=colours[trial.works])
        text.append("" if trial.seconds is None else f"{trial.seconds:6.2f} s  {trial.tier}")
        call = f"{_first(trial.call)} → " if trial.call else ""
        out.print(text.append(f"\n  {call}{_first(trial.says)}", style="default"))


def _first(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHORT else f"{line[:_SHORT]} ..."


def print_benchmarks(out: Console, rows: Iterable[tuple[str, str, str, str, str]]) -> None:
    """Benchmarks as a table: name, state, number of questions, licence, title."""
    table = Table("name", "state", box=None, pad_edge=False)
    table.add_column("questions", justify="right")
    for heading in ("licence", "data set"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)


def print_comparison(out: Console, names: tuple[str, str], found: Mapping[str, "Comparison"]) -> None:
    """Two evaluations by benchmark, in percent, and in a sentence each what that allows to say."""
    table = Table("benchmark", box=None, pad_edge=False)
    for heading in ("questions", *names, "difference", "95 % interval", "p-value"):
        table.add_column(Text(one_line(heading)), justify="right")
    for name, one in found.items():
        span = f"{100 * one.low:+.1f} to {100 * one.high:+.1f}"
        p_value = "< 0.0001" if one.p_value < 0.0001 else f"{one.p_value:.4f}"
        shares = (f"{100 * share:.1f}" for share in (one.first, one.second))
        table.add_row(Text(name), f"{one.questions:,}", *shares, f"{100 * one.difference:+.1f}", span, p_value)
    out.print(table)
    for name, one in found.items():
        out.print(Text(f"{name}: {one_line(one.verdict(*names))}"))
