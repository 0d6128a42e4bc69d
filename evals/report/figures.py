"""The figures of a report as PNG and SVG files, for a paper or a page. Matplotlib is in the extra `report`."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from agentflow.evals.report.drawing import SERIES, plot, save, style
from agentflow.evals.report.paper import paper
from agentflow.evals.runs import Cell, Run


def write_figures(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """Write each figure that `runs` have data for as .png and .svg, and return the paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = [cell for run in runs for cell in run.cells if cell.ended]
    drawings = {"accuracy": _accuracy, "turns": _turns, "tools": _tools, "errors": _errors}
    written = []
    with style():
        for name, draw in drawings.items():
            if (figure := draw(cells)) is None:
                continue
            for kind in ("png", "svg"):
                written.append(folder / f"{name}.{kind}")
                save(figure, written[-1])
    return written


def _accuracy(cells: Sequence[Cell]) -> Figure | None:
    """Draw the accuracy with its interval, one row per run and benchmark."""
    if not cells:
        return None
    figure, axes = _rows(cells)
    for row, cell in enumerate(cells):
        whiskers = [[max(0.0, cell.accuracy - cell.low)], [max(0.0, cell.high - cell.accuracy)]]
        axes.errorbar([cell.accuracy], [row], xerr=whiskers, fmt="o", color="C0", capsize=3)
        if cell.benchmark in (printed := paper().methods[-1].accuracy):
            axes.plot([printed[cell.benchmark] / 100], [row], "D", color="C1", markerfacecolor="none")
    named = any(cell.benchmark in paper().methods[-1].accuracy for cell in cells)
    axes.set(xlim=(0, 1), xlabel=f"accuracy, 95 % interval{' (diamond: trained, in the paper)' if named else ''}")
    return figure


def _turns(cells: Sequence[Cell]) -> Figure | None:
    """Draw the accuracy over the turn limit, one line per planner and benchmark that was run with several limits."""
    series: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda one: one.max_turns):
        series[cell.planner, cell.benchmark].append(cell)
    lines = {name: line for name, line in series.items() if len({cell.max_turns for cell in line}) > 1}
    if not lines:
        return None
    figure, axes = plot()
    for number, ((planner, benchmark), line) in enumerate(lines.items()):
        turns, colour = [cell.max_turns for cell in line], f"C{number}"
        axes.plot(turns, [cell.accuracy for cell in line], marker="o", color=colour, label=f"{planner}, {benchmark}")
        low, high = [cell.low for cell in line], [cell.high for cell in line]
        axes.fill_between(turns, low, high, alpha=0.15, color=colour, linewidth=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.set_xticks(sorted({cell.max_turns for line in lines.values() for cell in line}))
    axes.set(xlabel="most turns", ylabel="accuracy, 95 % interval", ylim=(0, 1))
    axes.legend()
    return figure


def _tools(cells: Sequence[Cell]) -> Figure | None:
    """Draw the share of the calls by tool, one row per run and benchmark."""
    return _stacked(
        "share of the calls",
        cells,
        [Counter({name: tool.calls for name, tool in cell.tools.items()}) for cell in cells],
    )


def _errors(cells: Sequence[Cell]) -> Figure | None:
    """Draw the share of failed calls by tool and error class, one row per run and benchmark."""
    return _stacked(
        "share of the calls that failed",
        cells,
        [
            Counter({f"{name}: {kind}": n for name, tool in cell.tools.items() for kind, n in tool.errors.items()})
            for cell in cells
        ],
    )


def _stacked(label: str, cells: Sequence[Cell], counts: Sequence[Counter[str]]) -> Figure | None:
    """Draw stacked bars of `counts` as shares of each cell's calls, most frequent part first; None without counts."""
    parts = [name for name, _ in sum(counts, Counter[str]()).most_common()]
    if not parts:
        return None
    figure, axes = _rows(cells)
    left = [0.0] * len(cells)
    for number, part in enumerate(parts):
        shares = [count[part] / max(1, cell.calls) for cell, count in zip(cells, counts, strict=True)]
        hatch = None if number < len(SERIES) else "//"
        axes.barh(range(len(cells)), shares, left=left, height=0.6, label=part, color=f"C{number}", hatch=hatch)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.set(xlabel=label, xlim=(0, max(left) or 1))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _rows(cells: Sequence[Cell]) -> tuple[Figure, Axes]:
    """Return a figure and its axes with one row per cell, from the top."""
    figure, axes = plot(0.8 + 0.45 * len(cells))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    several = len({cell.run for cell in cells}) > 1
    labels = [f"{cell.planner}, {cell.benchmark}{f' ({cell.run})' if several else ''}" for cell in cells]
    axes.set_yticks(range(len(cells)), labels)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    return figure, axes
