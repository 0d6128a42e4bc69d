"""docs/performance.md and its figures, from the results."""

from pathlib import Path

from agentflow.evals.report.drawing import lines
from benchmarks.analyses.report import table
from benchmarks.speed.growth import GROWING, SIZES, exponent
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.rows import cells, shown

HEAD = ("measure", "best peer", "floor", "ours", "times better", "reach", "reached")

UNITS = {"memory": "memory, kB", "concurrent": "concurrent rollouts", "turns": "turns", "tools": "tools"}

READING = Path(__file__).with_name("reading.md")
"""Interpretation of the published run, written by hand."""

PAGE = """\
# Performance

This page shows what AgentFlow costs in processor time, memory and disk, next to other agent libraries (*peers*) and to
a lower bound (*floor*). Repeat the measurement with:

```bash
make bench
```

It prints the table below and writes this page. A round takes eleven minutes on an idle machine with two cores, and
three are the default.

All contenders run in one session, by turns, on two cores of one machine; {rounds}. The model is a server on loopback
without weights. Each peer is at the version that `benchmarks/requirements` pins, in a venv of its own, and runs its own
code unchanged. In the table, *times better* compares ours with the best peer, above 1 in our favour. *Reach* is the
goal, and *reached* says whether ours meets it.

{table}

- *Plain graph* is a LangGraph graph of model and tool, like the peers' agents: four tool calls and the answer, which
  makes five model calls.
- *AgentFlow's graph* is planner, executor, verifier and generator with their memory. One turn makes three model calls,
  and a run of one turn makes five, so it compares with the others call by call.
- In both, the model is `policy`, and every call captures its exact ids and log-probabilities.
- *Endpoint* is a model behind an OpenAI-compatible endpoint, as `agentflow eval` calls it.

{reading}
## Everyone

{everyone}

## How cost grows

The exponent describes how the processor time of a rollout, or of all concurrent rollouts, grows with a size: 1 is
linear, and below 1 is better. It is fitted over the larger half of the sizes.

{growth}

{figures}

## Where the time goes

Shares of processor time by package, from a profile of rollouts that run one after another.

{profiles}

## Not measured

{missing}
"""

EVERYONE = {
    "turn": (("turn", "ms per turn", 1.0), ("call", "ms per model call", 1.0)),
    "load": (("rate", "rollouts/s", 1.0), ("p50", "p50, s", 1.0), ("memory", "kB per rollout", 1000.0)),
    "store": (("call", "bytes per call", 1.0), ("token", "bytes per token", 1.0)),
    "batch": (("rate", "M tokens/s", 1e6), ("padding", "padding, %", 0.01), ("forward", "forward per trained", 1.0)),
    "imports": (("seconds", "s", 1.0), ("memory", "MB", 1e6)),
    "install": (("bytes", "MB", 1e6),),
    "embedded": (("rate", "tokens/s", 1.0),),
    "step": (
        ("seconds", "s", 1.0),
        ("floor", "floor, s", 1.0),
        ("ratio", "ratio", 1.0),
        ("parts", "of its parts", 1.0),
    ),
}
"""For each measure, the values on the page with their labels and scales."""


def write(docs: Path, results: SpeedResults) -> Path:
    """Write the page and its figures; return the page's path."""
    folder = docs / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    axes = [axis for axis in SIZES if any(results.of(f"growth:{axis}"))]
    for axis in axes:
        _growth(results, axis, folder / f"growth-{axis}.svg")
    page = PAGE.format(
        rounds="one round" if results.repeats == 1 else f"medians of {results.repeats} rounds",
        reading=READING.read_text(encoding="utf-8"),
        table=table(HEAD, [list(row) for row in cells(results)]),
        everyone="\n\n".join(_everyone(results, measure) for measure in EVERYONE if results.of(measure)),
        growth=_exponents(results),
        figures="\n".join(f"![Cost by {UNITS[axis]}](figures/growth-{axis}.svg)" for axis in axes),
        profiles=_profiles(results),
        missing=missing(results),
    )
    path = docs / "performance.md"
    path.write_text(page, encoding="utf-8")
    return path


def missing(results: SpeedResults) -> str:
    """Return the contenders that were not measured, with the reason."""
    known = {(line.measure, line.name) for line in results.lines if line.values}
    lines = [line for line in results.lines if (line.measure, line.name) not in known]
    errors = {f"{line.measure}, {line.label}": line.error for line in lines}
    return "\n".join(f"- {who}: {why}" for who, why in errors.items()) or "All were."


def _everyone(results: SpeedResults, measure: str) -> str:
    columns = EVERYONE[measure]
    rows = []
    for line in results.contenders(measure):
        medians = [(results.median(measure, line.name, value), scale) for value, _, scale in columns]
        figures = [shown(None if found is None else found / scale, "") for found, scale in medians]
        rows.append([line.label, line.role, line.version, *figures])
    return f"### {measure}\n\n{table(['who', '', 'version', *(title for _, title, _ in columns)], rows)}"


def _exponents(results: SpeedResults) -> str:
    rows = []
    for axis, sizes in SIZES.items():
        found = [exponent(results, axis, one.name) for one in GROWING]
        figures = ["-" if one is None else f"{one:.2f}" for one in found]
        rows.append([f"{UNITS[axis]}, {sizes[0]} to {sizes[-1]:,}", *figures])
    return table(["", *(one.label for one in GROWING)], rows)


def _profiles(results: SpeedResults) -> str:
    found = {line.label: line.profile for line in results.of("turn") if line.profile}
    shares = [
        f"- {label}: {', '.join(f'{name} {share:.0%}' for name, share in profile.items())}"
        for label, profile in found.items()
    ]
    return "\n".join(shares) or "Not measured."


def _growth(results: SpeedResults, axis: str, path: Path) -> None:
    series = {}
    for one in GROWING:
        points = [(size, results.median(f"growth:{axis}", one.name, "cpu", size)) for size in SIZES[axis]]
        series[one.label] = [(size, cost) for size, cost in points if cost is not None]
    lines(path, series, xlabel=UNITS[axis], ylabel="processor, ms", ylim=(0, None))
