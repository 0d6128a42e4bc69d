"""Tables of an evaluation's passport: scores, models, tools, provenance and the tries that the audit flagged."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import percent
from agentflow.tools.tool_model import RUN
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.evals.passport.passport import BenchmarkScore, Passport
    from agentflow.evals.provenance import Provenance

_SHOWN = 20
"""Largest number of flagged tries shown for a benchmark; --json lists all."""
NONE = "-"


def print_passport(out: Console, passport: "Passport") -> None:
    """Print the whole passport, scores first."""
    out.print(_scores(passport))
    out.print()
    out.print(_modules(passport))
    out.print()
    if passport.provenance and passport.provenance[-1].tools:
        out.print(_tools(passport.provenance[-1]))
        out.print()
    for name, value in _facts(passport):
        out.print(Text(f"{name:<18}{one_line(value)}"))
    for score in passport.scores:
        if score.audit.tries:
            out.print()
            _print_audit(out, score)


def _scores(passport: "Passport") -> Table:
    rows = []
    for score in passport.scores:
        audit = score.audit
        n = str(score.number) if score.epochs == 1 else f"{score.questions} x {score.epochs}"
        row = [score.benchmark, n, f"{score.accuracy:.3f}", _span(score.low, score.high)]
        if not passport.flagged:
            rows.append([*row, "none"])
            continue
        flagged = f"{audit.tries} ({percent(audit.share)})"
        rows.append([*row, flagged, f"{audit.accuracy:.3f}", _span(audit.low, audit.high)])
    headings = ("benchmark", "n", "accuracy", "95 % interval", "flagged", "if these are wrong", "95 % interval")
    return _table(headings[: len(rows[0])], rows)


def _span(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"


def _modules(passport: "Passport") -> Table:
    rows = []
    for name, module in passport.modules.items():
        sampling = [NONE if one is None else f"{one:g}" for one in (module.sampling.temperature, module.sampling.seed)]
        prompt = f"{module.prompt}{' (set by the run)' if module.own_prompt else ''}"
        served = "" if module.weights else ", ".join(module.served)
        rows.append([name, module.model, *sampling, prompt or NONE, module.weights or NONE, served or NONE])
    return _table(("module", "model", "temperature", "seed", "prompt", "weights", "served as"), rows)


def _tools(provenance: "Provenance") -> Table:
    models = {"": "none", RUN: "the run's, see module tools"}
    tools = provenance.tools.items()
    rows = [[name, models.get(tool.model, tool.model), tool.card, tool.prompt or NONE] for name, tool in tools]
    return _table(("tool", "model behind it", "card", "prompt"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Build a table without its empty columns. Wide cells are folded, since a truncated hash is useless."""
    shown = [at for at in range(len(headings)) if any(row[at] != NONE for row in rows)]
    table = Table(box=None, pad_edge=False)
    for at in shown:
        table.add_column(headings[at], overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(row[at])) for at in shown))
    return table


def _facts(passport: "Passport") -> Iterator[tuple[str, str]]:
    timeout = "" if passport.timeout is None else f", {passport.timeout:g} s of a try"
    yield "agent", f"{passport.agent}, at most {passport.max_turns} turns and {passport.max_seconds:g} s{timeout}"
    questions = [part for part in (passport.subset, passport.file) if part]
    yield "questions", ", ".join([*questions, *(f"{one.benchmark} {one.digest}" for one in passport.scores)])
    yield "judge", passport.judge or "none"
    search = f"corpus {passport.corpus}, engine {passport.search_engine}, cache {passport.search_cache}"
    yield "search", f"{search}{f', embeddings {passport.embeddings}' if passport.embeddings else ''}"
    if passport.answered:
        yield "searched", ", ".join(f"{name} {number:,}" for name, number in passport.answered.items())
    if passport.sandboxes:
        yield "sandbox", ", ".join(f"{name} {number:,}" for name, number in passport.sandboxes.items())
    for provenance in passport.provenance:
        yield "made", f"{provenance.at}, after try {provenance.before:,}" if provenance.before else provenance.at
        yield "  versions", ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
        if provenance.inputs:
            yield "  files", ", ".join(f"{name} {content}" for name, content in provenance.inputs.items())
        yield "  call", provenance.call
    yield "traces.jsonl", f"SHA-256 {passport.traces}"
    if not passport.doubts:
        yield "to repeat it", "nothing is known that stands against it"
    for doubt in passport.doubts:
        yield "to repeat it", doubt


def _print_audit(out: Console, score: "BenchmarkScore") -> None:
    audit = score.audit
    of = f"{score.benchmark}: {audit.tries:,} of {score.number:,} tries are flagged, {audit.correct:,} of them correct"
    out.print(Text(one_line(of), style="bold"))
    for reason, number in audit.reasons.items():
        out.print(Text(f"  {reason:<26}{number:,}"))
    rows = [
        [item.id, str(item.sample + 1), "yes" if item.correct else "no", "; ".join(map(str, item.flags))]
        for item in audit.items[:_SHOWN]
    ]
    out.print(_table(("question", "try", "correct", "flags"), rows))
    if (rest := len(audit.items) - _SHOWN) > 0:
        out.print(Text(f"... and {rest:,} more, which --json lists"))
