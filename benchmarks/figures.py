"""The figures of the first page: `python -m benchmarks.figures`, five minutes on two cores.

Evaluates what ships, the trained planner and the seed that it was trained from, on the subset `final` of Atlas: 200
questions that no validation, comparison or choice has seen. Writes docs/lab/final.json, and the table of it into
README.md. Its runs are kept in --out, where the same command resumes.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import agentflow
from agentflow.evals.statistics import compare

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "docs" / "lab" / "final.json"
PAGE = ROOT / "README.md"
PLANNERS = {"seed": "embedded:seed", "trained": "embedded"}
BLOCK = re.compile(r"(?<=<!-- final -->\n).*?(?=<!-- /final -->)", re.DOTALL)


def measured(out: Path) -> dict[str, Any]:
    """Evaluate both planners and return the figures."""
    found: dict[str, Any] = {"subset": "final"}
    tries = {}
    for name, planner in PLANNERS.items():
        context = agentflow.Context(models={"planner": planner})
        results = agentflow.evaluate("atlas", context=context, subset="final", out=out / name)
        records = results.records["atlas"]
        low, high = results.interval("atlas")
        found[name] = {"right": sum(one.correct for one in records), "low": round(low, 3), "high": round(high, 3)}
        found |= {"questions": len(records), "version": agentflow.__version__}
        tries[name] = {one.task.id: [one.correct] for one in records}
    both = compare(tries["seed"], tries["trained"])
    return found | {"difference": [round(100 * one, 1) for one in (both.low, both.high)]}


def table(found: dict[str, Any]) -> str:
    """Return the table that the page shows."""
    number = found["questions"]
    shares = [
        f"{found[name]['right'] / number:.3f} ({found[name]['low']:.3f} to {found[name]['high']:.3f})"
        for name in PLANNERS
    ]
    low, high = found["difference"]
    return (
        f"\n| | before training | after training |\n| --- | --- | --- |\n"
        f"| right answers to {number} questions | {found['seed']['right']} | {found['trained']['right']} |\n"
        f"| accuracy (95 %) | {' | '.join(shares)} |\n"
        f"| difference, question by question (95 %) | | {low:+.1f} to {high:+.1f} points |\n\n"
    )


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/final"), help="folder of the evaluations")
    found = measured(parser.parse_args().out)
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda _: table(found), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
