"""Tables of the confidence of answers: how it agrees with their scores, and what it promises."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agentflow.console.terminal import percent, table

if TYPE_CHECKING:
    from agentflow.evals.confidence import Reliability
    from agentflow.graph.confidence import Calibration

PROMISES = (0.8, 0.9, 0.95, 0.99)


def print_reliability(out: Console, found: "Reliability") -> None:
    """Print the reliability curve, the accuracy at each coverage, and the cost of a right answer there."""
    curve = table(figures=("confidence", "answers", "right"))
    for one in found.bins:
        curve.add_row(f"{one.confidence:.2f}", f"{one.number:,}", f"{one.right:.2f}")
    out.print(curve)
    out.print()
    covered = table(figures=("answered", "from confidence", "right", "tokens per right answer"))
    for level in found.covered:
        tokens = "" if level.tokens is None else f"{level.tokens:,.0f}"
        covered.add_row(percent(level.coverage), f"{level.threshold:.2f}", f"{level.accuracy:.3f}", tokens)
    out.print(covered)
    out.print(Text(f"\nAUC {found.auc:.3f}, calibration error {found.error:.3f}, {found.number:,} answers"))


def print_calibrated(out: Console, path: Path, calibration: "Calibration", found: "Reliability") -> None:
    """Print the reliability on the held-out half, and from which confidence `abstain` answers."""
    print_reliability(out, found)
    for precision in PROMISES:
        threshold = calibration.threshold(precision)
        what = "not promised" if threshold is None else f"answers from confidence {threshold:.2f}"
        out.print(Text(f"{f'--abstain {precision:g}':<18}{what}"))
    if stop := calibration.stop:
        for precision in PROMISES:
            threshold = stop.threshold(precision)
            skipped = sum(threshold is not None and one.confidence >= threshold for one in stop.held_out)
            what = f"asks no verifier after {skipped:,} of {len(stop.held_out):,} turns" if skipped else "not promised"
            out.print(Text(f"{f'--context skip_verifier={precision:g}':<31}{what}"))
    out.print(Text(f"\n{path}: use it with agentflow solve --calibration {path}"))
