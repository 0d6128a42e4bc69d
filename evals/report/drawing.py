"""How figures are drawn: one style, in the light colours of the pages. Matplotlib is in the extra `report`."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_CSS = (files(__package__) / "palette.css").read_text("utf-8")
PALETTE = dict(re.findall(r"--([\w-]+): light-dark\((#\w+),", _CSS))
"""Colour by name."""
SERIES = [PALETTE[name] for name in ("line", "other", "right", "violet", "teal", "quiet", "wrong", "doubt")]
"""Colours of the series of a figure, in order: C0, C1 and so on."""

STYLE = {
    "axes.edgecolor": PALETTE["quiet"],
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keeps text as text instead of paths
    "svg.hashsalt": "agentflow",  # makes files reproducible
}


def style() -> Any:
    """Return a context in which figures are made and saved."""
    return mpl.rc_context(STYLE)  # type: ignore[arg-type]  # annotated with a Literal of all names


def plot(height: float = 3.2) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; `height` is in inches."""
    figure = Figure(figsize=(6, height))
    return figure, figure.subplots()


def save(figure: Figure, path: Path) -> None:
    """Write a figure, the same bytes for the same data. Raises OSError."""
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else {}, bbox_inches="tight")


def lines(path: Path, series: Mapping[str, Sequence[tuple[float, float]]], *, marker: str = "o", **axes: Any) -> None:
    """Draw a line of points for each series, with a legend, and write the figure."""
    with style():
        figure, plane = plot()
        for name, points in series.items():
            plane.plot([x for x, _ in points], [y for _, y in points], marker=marker, label=name)
        plane.set(**axes)
        plane.legend()
        save(figure, path)
