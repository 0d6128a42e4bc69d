"""Tables of evaluations: summaries, comparisons, changed scores, and the benchmarks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import SHORT, counted, percent, table
from agentflow.evals.scorers.score import Decision
from agentflow.tools.redaction import cut
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.evals.evaluate import Results
    from agentflow.evals.metrics import GroupSummary, Summary
    from agentflow.evals.record import Record
    from agentflow.evals.statistics import Comparison
    from agentflow.graph.run.cost import Price

_SHOWN_FAILURES, _SHOWN_CHANGES = 8, 20
_EARLY = {"out_of_turns": "out of turns", "out_of_time": "out of time", "no_plan": "no readable plan"}

Figures = tuple["Summary", tuple[float, float]]
"""Summary of an evaluation and the 95 % interval of its accuracy."""


def print_summaries(
    out: Console, by_benchmark: "Mapping[str, Figures]", prices: "Mapping[str, Price]", gated: Collection[str] = ()
) -> None:
    """Print each benchmark's table by family and its totals; for several benchmarks also one table of all.

    Errors of benchmarks in `gated` are not shown, since they may contain the question.
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
    shown = table("family", figures=("n", "correct", "accuracy", "turns"))
    for group in summary.families if len(summary.families) > 1 else ():
        shown.add_row(*_row(group, one_line(group.name) or "-"))
    shown.add_section()
    shown.add_row(*_row(summary.total, "all"), style="bold")
    out.print(shown)
    for name, value in (*_totals(summary, interval), *_usage(summary, prices), *_failures(summary, quiet=quiet)):
        out.print(Text(f"{name:<18}{value}"))


def _table_of_all(by_benchmark: "Mapping[str, Figures]") -> Table:
    doubtful = any(summary.total.undecided for summary, _ in by_benchmark.values())
    bounds = ("once decided",) if doubtful else ()
    passes = ("pass@k",) if any(summary.pass_at for summary, _ in by_benchmark.values()) else ()
    headings = ("n", "accuracy", "95 % interval", *passes, *bounds, "turns", "tool-call errors")
    shown = table("benchmark", figures=headings)
    for name, (summary, (low, high)) in by_benchmark.items():
        total = summary.total
        cells = [_questions(total), f"{total.accuracy:.3f}", f"{low:.3f} to {high:.3f}"]
        cells += [", ".join(f"@{k} {share:.3f}" for k, share in summary.pass_at.items())] if passes else []
        cells += [f"{total.accuracy:.3f} to {total.most:.3f}"] if doubtful else []
        shown.add_row(name, *cells, f"{total.mean_turns:.2f}", percent(summary.error_rate))
    return shown


def _row(group: "GroupSummary", name: str) -> Iterable[str]:
    return name, _questions(group), str(group.correct), f"{group.accuracy:.2f}", f"{group.mean_turns:.1f}"


def _questions(group: "GroupSummary") -> str:
    """Format the number of questions, with the tries of each if more than one."""
    tries = group.number / max(1, group.questions)
    return f"{group.questions}" if tries <= 1 else f"{group.questions} x {tries:.3g}"


def _totals(summary: "Summary", interval: tuple[float, float]) -> Iterable[tuple[str, str]]:
    total = summary.total
    yield "", ""
    span = f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}"
    yield "accuracy", f"{total.accuracy:.3f} ({span}, n = {_questions(total)})"
    for k, share in summary.pass_at.items():
        yield f"pass@{k}", f"{share:.3f}"
    for name, mean in summary.metrics.items():
        yield name, f"{mean:.3f}"
    if total.undecided:
        bounds = f"accuracy {total.accuracy:.3f} to {total.most:.3f} once decided"
        yield "undecided", f"{total.undecided} by no rule, counted as wrong ({bounds}); score them with --judge MODEL"
    if abstained := summary.ended["abstained"]:
        given = total.number - abstained
        right = f", {total.correct / given:.3f} of them right" if given else ""
        yield "answered", f"{given} of {total.number}{right}; the others were not sure enough"
    if early := ", ".join(f"{how} {summary.ended[status]}" for status, how in _EARLY.items() if summary.ended[status]):
        yield "ended early", early
    yield "turns", f"{total.mean_turns:.2f} per question"
    errors = ", ".join(f"{name} {count}" for name, count in summary.errors.most_common())
    yield "tool-call errors", f"{percent(summary.error_rate)} of turns{f' ({errors})' if errors else ''}"
    tools = ", ".join(f"{name} {percent(count / summary.tools.total())}" for name, count in summary.tools.most_common())
    yield "tools chosen", one_line(tools) or "none"
    if summary.sources:
        yield "searched", one_line(", ".join(f"{name} {count}" for name, count in summary.sources.most_common()))
    yield "readable plans", f"{percent(summary.readable_rate)} of turns"
    if summary.verdict_rate < 1:
        yield "readable verdicts", f"{percent(summary.verdict_rate)} of turns"
    if summary.cut_off:
        modules = ", ".join(f"{name} {count}" for name, count in summary.cut_off.most_common())
        yield "cut-off replies", one_line(f"{modules} (at max_tokens)")
    yield "seconds", f"{summary.seconds:.1f} per question"


def _usage(summary: "Summary", prices: "Mapping[str, Price]") -> Iterable[tuple[str, str]]:
    """Yield the tokens of all modules and of each, with their cost in USD if known."""
    from agentflow.graph.run.cost import cost
    from agentflow.graph.run.trace import Tokens

    modules = {module: (sum(models.values(), Tokens()), models) for module, models in summary.modules.items()}
    costs = {module: cost(models, prices) for module, (_, models) in modules.items()}
    known = [one for one in costs.values() if one is not None]
    all_of_it = f", ${sum(known):.4f}" if known and len(known) == len(costs) else ""
    tokens = summary.tokens
    number = f"{tokens.input_tokens:,} read, {tokens.output_tokens:,} written"
    yield "tokens", f"{number}, {summary.calls:,} model calls{all_of_it}"
    if right := summary.total.correct:
        each = f", ${sum(known) / right:.4f}" if all_of_it else ""
        number = f"{summary.calls / right:.1f} model calls, {tokens.total_tokens / right:,.0f} tokens"
        yield "per right answer", f"{number}{each}"
    for module, (of, _) in modules.items():
        dollars = "" if costs[module] is None else f", ${costs[module]:.4f}"
        yield f"  {one_line(module)}", f"{of.input_tokens:,} read, {of.output_tokens:,} written{dollars}"


def _failures(summary: "Summary", *, quiet: bool) -> Iterable[tuple[str, str]]:
    if quiet and summary.failures:
        yield "failed runs", f"{summary.failures.total()}, for reasons that are in the traces"
        return
    for reason, count in summary.failures.most_common(_SHOWN_FAILURES):
        yield "failed runs", f"{count} x {one_line(reason)}"
    if (rest := len(summary.failures) - _SHOWN_FAILURES) > 0:
        yield "failed runs", f"... and {counted(rest, 'other reason')}"


def results_data(results: "Results") -> dict[str, dict[str, object]]:
    """Return the metrics of each benchmark as JSON data."""
    return {name: _summary_data(results.summary(name), results.interval(name)) for name in results.records}


def _summary_data(summary: "Summary", interval: tuple[float, float]) -> dict[str, object]:
    total = summary.total
    return {
        "tries": total.number,
        "questions": total.questions,
        "correct": total.correct,
        "undecided": total.undecided,
        "ended": summary.ended,
        "accuracy": total.accuracy,
        "interval": interval,
        "families": {group.name: {"tries": group.number, "correct": group.correct} for group in summary.families},
        "metrics": summary.metrics,
        "pass_at": summary.pass_at,
        "turns": total.mean_turns,
        "tool_call_errors": summary.errors,
        "tools": summary.tools,
        "cut_off": summary.cut_off,
        "failures": summary.failures.total(),
        "seconds": summary.seconds,
        "modules": summary.modules,
    }


def print_comparison(out: Console, names: tuple[str, str], found: Mapping[str, "Comparison"]) -> None:
    """Print the difference of two evaluations by benchmark, in percent, and a one-sentence verdict for each."""
    several = ("corrected",) if len(found) > 1 else ()
    passes = ("pass@k",) if any(one.pass_at for one in found.values()) else ()
    headings = ("questions", *names, *passes, "difference", "95 % interval", "p-value", *several)
    shown = table("benchmark", figures=headings)
    for name, one in found.items():
        span = f"{100 * one.low:+.1f} to {100 * one.high:+.1f}"
        p_values = (f"{p:.4f}" if p >= 0.0001 else "< 0.0001" for p in (one.p_value, one.corrected)[: 1 + len(several)])
        shares = [f"{100 * share:.1f}" for share in (one.first, one.second)]
        shares += [_passes(one)] if passes else []
        shown.add_row(Text(name), f"{one.questions:,}", *shares, f"{100 * one.difference:+.1f}", span, *p_values)
    out.print(shown)
    for name, one in found.items():
        out.print(Text(f"{name}: {one_line(one.verdict(*names))}"))


def _passes(found: "Comparison") -> str:
    if found.pass_at is None:
        return ""
    k, first, second = found.pass_at
    return f"@{k} {100 * first:.1f} -> {100 * second:.1f}"


def comparison_data(names: tuple[str, str], found: Mapping[str, "Comparison"]) -> dict[str, object]:
    """Return a comparison as JSON data, with shares from 0 to 1."""
    return {
        "evaluations": names,
        "benchmarks": {
            name: {
                "questions": one.questions,
                "first": one.first,
                "second": one.second,
                "difference": one.difference,
                "interval": (one.low, one.high),
                "p_value": one.p_value,
                "corrected": one.corrected,
                "differs": one.shown,
            }
            for name, one in found.items()
        },
    }


def print_rescored(out: Console, before: "Sequence[Record]", after: "Sequence[Record]", gated: Collection[str]) -> None:
    """Print counts of decisions before and after, and the changes; without answers for benchmarks in `gated`."""
    headings = ("tries", "correct before", "after", "undecided before", "after", "changed")
    shown = table("benchmark", figures=headings)
    pairs = list(zip(before, after, strict=True))
    changes = [(one, other) for one, other in pairs if one.decision != other.decision]
    for name in dict.fromkeys(record.benchmark for record in before):
        sides = [[record.decision for record in records if record.benchmark == name] for records in (before, after)]
        counts = [side.count(decision) for decision in (Decision.CORRECT, Decision.UNDECIDED) for side in sides]
        changed = sum(one.benchmark == name for one, _ in changes)
        shown.add_row(Text(one_line(name)), *map(str, (len(sides[0]), *counts, changed)))
    out.print(shown)
    for one, other in changes[:_SHOWN_CHANGES]:
        out.print(Text(_change(one, other, quiet=one.benchmark in gated)))
    if len(changes) > _SHOWN_CHANGES:
        out.print(Text(f"... and {counted(len(changes) - _SHOWN_CHANGES, 'other change')}"))


def _change(one: "Record", other: "Record", *, quiet: bool) -> str:
    line = f"{one.task.id}/{one.sample}  {one.decision} ({one.decided_by}) -> {other.decision} ({other.decided_by})"
    texts = "" if quiet else f"  {cut(one_line(one.task.gold), SHORT)} | {cut(one_line(one.answer[-SHORT:]), SHORT)}"
    return one_line(line + texts)


def print_benchmarks(out: Console, rows: Iterable[tuple[str, str, str, str, str]]) -> None:
    """Print benchmarks as a table: name, state, number of questions, licence, title."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True, min_width=15)  # to be typed
    table.add_column("state")
    table.add_column("questions", justify="right")
    for heading in ("licence", "data set"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
