"""Report of a training run: the viewer's page as one self-contained HTML file, with the run's data inside.

It is generated from the run folder, so it can be written at any time, also while the run is in progress.
"""

from pathlib import Path

from agentflow.view.export import training


def write_report(out: Path) -> Path:
    """Write report.html into the run folder; returns its path."""
    path = out / "report.html"
    path.write_text(training(out).html, encoding="utf-8")
    return path
