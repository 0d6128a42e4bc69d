"""Rows of the table: each measure with its goal."""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

from benchmarks.speed.catalogue import AGENT, ENDPOINT, KEPT, PLAIN, STATE_GRAPH, TOOLS, TRACED
from benchmarks.speed.results import Line, SpeedResults

MB = 1e6


@dataclass(frozen=True)
class ComparisonRow:
    """One line of the table."""

    title: str
    measure: str
    value: str
    ours: str
    """Name of our contender."""
    unit: str
    _: KW_ONLY
    scale: float = 1.0
    """The value that is one unit."""
    higher: bool = False
    """True if more is better."""
    reach: float | None = None
    floor: str = ""
    """Name of the floor's contender, or a number."""

    peer: str = ""
    """Text in the names of the peers that count."""

    def found(self, results: SpeedResults, name: str) -> float | None:
        """Return a contender's value in the row's unit."""
        value = results.median(self.measure, name, self.value)
        return None if value is None else value / self.scale

    def best_peer(self, results: SpeedResults) -> tuple[Line, float] | None:
        """Return the best peer, None if none was measured."""
        peers = [line for line in results.contenders(self.measure) if line.role == "peer" and self.peer in line.name]
        figures = [(line, value) for line in peers if (value := self.found(results, line.name)) is not None]
        choose: Callable[..., tuple[Line, float]] = max if self.higher else min
        return choose(figures, key=lambda one: one[1]) if figures else None

    def floor_of(self, results: SpeedResults) -> float | None:
        """Return the lower bound of the cost."""
        try:
            return float(self.floor)
        except ValueError:
            return self.found(results, self.floor) if self.floor else None

    def met(self, figure: float) -> bool | None:
        """Return whether the goal is met, None without a goal."""
        if self.reach is None:
            return None
        return figure >= self.reach if self.higher else figure <= self.reach


GRAPH = "agentflow.graph.agent"

ROWS = (
    ComparisonRow(
        "processor per turn, plain graph", "turn", "turn", PLAIN.name, "ms", reach=1.5, floor=STATE_GRAPH.name
    ),
    ComparisonRow("the same with tools bound", "turn", "turn", TOOLS.name, "ms", reach=1.5, floor=STATE_GRAPH.name),
    ComparisonRow(
        "processor per model call, AgentFlow's graph", "turn", "call", AGENT.name, "ms", floor=STATE_GRAPH.name
    ),
    ComparisonRow(
        "the same at an endpoint, uncaptured", "turn", "call", ENDPOINT.name, "ms", reach=1.6, floor=STATE_GRAPH.name
    ),
    ComparisonRow(
        "rollouts a second, plain graph",
        "load",
        "rate",
        PLAIN.name,
        "/s",
        higher=True,
        reach=150,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow(
        "rollouts a second, AgentFlow's graph",
        "load",
        "rate",
        AGENT.name,
        "/s",
        higher=True,
        reach=150,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow(
        "rollouts a second at an endpoint, plain graph",
        "load",
        "rate",
        TRACED.name,
        "/s",
        higher=True,
        reach=100,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow(
        "the same, AgentFlow's graph",
        "load",
        "rate",
        ENDPOINT.name,
        "/s",
        higher=True,
        reach=100,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow("p50 of a rollout, plain graph", "load", "p50", PLAIN.name, "s", reach=1.5, floor=STATE_GRAPH.name),
    ComparisonRow(
        "p50 of a rollout, AgentFlow's graph", "load", "p50", AGENT.name, "s", reach=1.5, floor=STATE_GRAPH.name
    ),
    ComparisonRow(
        "p50 of a rollout at an endpoint, plain graph", "load", "p50", TRACED.name, "s", reach=3, floor=STATE_GRAPH.name
    ),
    ComparisonRow("the same, AgentFlow's graph", "load", "p50", ENDPOINT.name, "s", reach=3, floor=STATE_GRAPH.name),
    ComparisonRow(
        "memory per rollout under way, plain graph",
        "load",
        "memory",
        PLAIN.name,
        "kB",
        scale=1000,
        reach=120,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow(
        "the same, plain graph with tools",
        "load",
        "memory",
        TOOLS.name,
        "kB",
        scale=1000,
        reach=120,
        floor=STATE_GRAPH.name,
    ),
    ComparisonRow(
        "the same, AgentFlow's graph", "load", "memory", AGENT.name, "kB", scale=1000, reach=120, floor=STATE_GRAPH.name
    ),
    ComparisonRow("stored per token of a call", "store", "token", KEPT.name, "B", reach=16, floor="8"),
    ComparisonRow(
        "traces to the trainer's batch",
        "batch",
        "rate",
        "ours",
        "M tokens/s",
        scale=MB,
        higher=True,
        reach=40,
        floor="floor",
    ),
    ComparisonRow("padding in the batch", "batch", "padding", "ours", "%", scale=0.01, reach=0, floor="floor"),
    ComparisonRow(
        "forward tokens per trained token", "batch", "forward", "ours", "", reach=4, floor="floor", peer="rerendered"
    ),
    ComparisonRow("import agentflow", "imports", "seconds", "agentflow", "s", reach=0.2),
    ComparisonRow("import of the graph", "imports", "seconds", GRAPH, "s", reach=1.5, floor="langgraph.graph"),
    ComparisonRow("memory of that", "imports", "memory", GRAPH, "MB", scale=MB, reach=90, floor="langgraph.graph"),
    ComparisonRow("core install", "install", "bytes", "agentflow", "MB", scale=MB, reach=150, floor="langgraph"),
    ComparisonRow("embedded model, 64 at once", "embedded", "rate", "ours", "tokens/s", higher=True, floor="products"),
    ComparisonRow("Flow-GRPO step over rollouts and passes alone", "step", "ratio", "step", "x", reach=1.3, floor="1"),
)

TIMES_GENERATE = 3.0
"""Goal of the embedded model, as a multiple of the tokens per second of transformers' `generate`."""


def cells(results: SpeedResults) -> Iterator[tuple[str, str, str, str, str, str, str]]:
    """Yield title, best peer, floor, ours, ratio to the peer, goal and whether it is met, of rows with a value."""
    for row in ROWS:
        ours, peer, floor = row.found(results, row.ours), row.best_peer(results), row.floor_of(results)
        ratio = _ratio(row, ours, peer[1] if peer else None)
        reach, met = _reach(row, ours, ratio)
        yield (
            row.title,
            f"{shown(peer[1], row.unit)} ({peer[0].version or peer[0].label})" if peer else "-",
            shown(floor, row.unit),
            shown(ours, row.unit) if ours is not None else _why(results, row),
            "-" if ratio is None else f"{ratio:.1f}",
            reach,
            met,
        )


def _ratio(row: ComparisonRow, ours: float | None, peer: float | None) -> float | None:
    """Return how many times better ours is than the best peer."""
    over, under = (ours, peer) if row.higher else (peer, ours)
    return over / under if over is not None and under else None


def _reach(row: ComparisonRow, ours: float | None, ratio: float | None) -> tuple[str, str]:
    if row.measure == "embedded":
        return f">= {TIMES_GENERATE:g} x the peer", "" if ratio is None else _yes(ratio >= TIMES_GENERATE)
    if row.reach is None:
        return "-", ""
    met = None if ours is None else row.met(ours)
    return f"{'>=' if row.higher else '<='} {row.reach:g} {row.unit}".strip(), "" if met is None else _yes(met)


def _yes(met: bool) -> str:
    return "yes" if met else "no"


def _why(results: SpeedResults, row: ComparisonRow) -> str:
    errors = [line.error for line in results.of(row.measure, row.ours) if line.error]
    return errors[-1] if errors else "not measured"


def shown(value: float | None, unit: str) -> str:
    """Format a value with three digits and its unit."""
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}".strip() if abs(value) >= 100 else f"{value:.3g} {unit}".strip()
