"""Measure AgentFlow with real small models on 60 everyday questions that no prompt was tuned on.

`python -m benchmarks.real` serves Qwen2.5-Coder-Instruct of 0.5 and 1.5 billion parameters with llama.cpp, evaluates
each, and prints what its modules wrote beside the last recorded run; `--record` records this one. An evaluation that
was interrupted goes on where it was.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.real.figures import figures
from benchmarks.real.llamacpp import PORTS, lacking, serving

HERE = Path(__file__).parent
QUESTIONS, RECORDED = HERE / "check.jsonl", HERE / "recorded.json"
SIZES = ("0.5b", "1.5b")
SETTINGS = ("--tools", "base_generator,python_coder", "--max-turns", "4")
CONTEXT = ("max_tokens=400", "max_seconds=3600")


def measured(size: str, out: Path, limit: int, model: str) -> dict[str, float]:
    """Evaluate one model, the one that is given as `model` if it runs elsewhere; return its figures."""
    with serving(size, PORTS[size], model) as spec:
        settings = [*SETTINGS, *(part for setting in CONTEXT for part in ("--context", setting))]
        command = [sys.executable, "-m", "agentflow", "eval", str(QUESTIONS), "--model", spec, *settings]
        command += ["--limit", str(limit), "--concurrency", "8", "--out", str(out / size)]
        subprocess.run(command, check=True)  # noqa: S603 - our own words
    return figures(json.loads(line) for line in (out / size / "traces.jsonl").read_text(encoding="utf-8").splitlines())


def main() -> int:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("--size", action="append", choices=SIZES, help="only this model; may be repeated")
    parser.add_argument("--model", default="", metavar="SPEC", help="a server of that model which runs, not llama.cpp")
    parser.add_argument("--limit", type=int, default=60, help="most questions")
    parser.add_argument("--out", type=Path, default=Path("runs/real"), help="folder of the traces")
    parser.add_argument("--record", action="store_true", help="keep the figures in recorded.json")
    options = parser.parse_args()
    if not options.model and (lacks := lacking()):
        print(f"no real model can be served: {lacks}", file=sys.stderr)
        return 2
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for size in options.size or SIZES:
        found = measured(size, options.out, options.limit, options.model)
        print(f"\nQwen2.5-Coder-{size.upper()}-Instruct{'':24} now  recorded")
        for name, value in found.items():
            print(f"  {name:32} {value:16,.3g} {recorded.get(size, {}).get(name, float('nan')):10,.3g}")
        recorded[size] = found
    if options.record:
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
