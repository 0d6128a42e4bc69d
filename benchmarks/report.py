"""Measure the report page of many traces: `python -m benchmarks.report`.

Writes an evaluation of 30,000 traces, builds its page, and prints the CPU seconds, their ratio to reading the lines as
JSON (the floor), and the page's size. Goals: 10 seconds and 5 megabytes.

Names and numbers are all random, as in a benchmark: repeated texts would compress too well.
"""

import gc
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agentflow.evals.record import Dataset, EvaluationSettings, Record
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import SETTINGS
from agentflow.evals.runs import read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.graph.context import Context
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Tokens, TraceTurn, Usage
from agentflow.graph.state import Verdict
from agentflow.tools.result import ToolResult
from agentflow.view.export import BYTES, evaluations

NUMBER, GOAL = 30_000, 10.0
BENCHMARK = "bamboogle"


def evaluation(folder: Path, number: int) -> Path:
    """Write a deterministic evaluation of `number` traces with one to four turns to `folder`."""
    folder.mkdir(parents=True)
    settings = EvaluationSettings(benchmarks={BENCHMARK: Dataset(questions=number, digest="d")}, context=Context())
    (folder / SETTINGS).write_text(settings.model_dump_json())
    with (folder / TRACES).open("w") as file:
        file.writelines(f"{record.model_dump_json()}\n" for record in _records(number, random.Random(0)))
    return folder


def _records(number: int, chance: random.Random) -> Iterator[Record]:
    for _ in range(number):
        question = f"Who leads the country whose capital is {_name(chance)}, and when was {_name(chance)} born?"
        turns = [_turn(at + 1, chance) for at in range(chance.randint(1, 4))]
        answer = _name(chance)
        tokens = Tokens(input_tokens=20, output_tokens=3, total_tokens=23)
        usage = Usage(calls=3, modules={"planner": {"m": tokens}})
        yield Record(
            task=Task(id=f"{chance.getrandbits(64):016x}", question=question, gold=answer),
            analysis="Look both up.",
            answer=answer,
            status="answered",
            turns=turns,
            usage=usage,
            seconds=1.25,
            benchmark=BENCHMARK,
            decision=Decision.CORRECT,
            decided_by="exact match",
        )


def _turn(number: int, chance: random.Random) -> TraceTurn:
    wanted, found, year = f"{_name(chance)} Works", _name(chance), chance.randint(1700, 2000)
    return TraceTurn(
        turn=number,
        sub_goal=f"Find the founder of {wanted}",
        context=wanted,
        tool="wikipedia_search",
        arguments={"query": wanted},
        result=ToolResult(status="ok", output=f"{wanted}: Firm, founded in {year} by {found}, base {_name(chance)}."),
        verdict=Verdict(analysis=f"{found} founded it.", signal="stop"),
        plan=f"Sub-Goal: Find the founder of {wanted}\nTool: wikipedia_search\nContext: {wanted}",
    )


def _name(chance: random.Random) -> str:
    return "".join(chance.choice("bcdfghjklmnpqrstvwz") + chance.choice("aeiou") for _ in range(3)).capitalize()


def _floor(folder: Path) -> float:
    """Return the CPU seconds to read the lines as JSON."""
    gc.disable()
    start = time.process_time()
    kept = [json.loads(line) for line in (folder / TRACES).read_bytes().splitlines()]
    seconds = time.process_time() - start
    gc.enable()
    del kept
    return seconds


def main() -> None:
    """Print one line for the time and one for the size."""
    with tempfile.TemporaryDirectory() as made:
        folder = evaluation(Path(made) / "run", NUMBER)
        floor = _floor(folder)
        start = time.process_time()
        report = evaluations(read_runs([folder]))
        seconds = time.process_time() - start
    size = len(report.html.encode())
    print(f"{NUMBER:,} traces {seconds:6.2f} s of {GOAL:g}, {seconds / floor:.1f} times reading them as JSON")
    print(f"page {size / 1e6:.2f} MB of {BYTES / 1e6:g}, with the texts of {report.with_text:,}")


if __name__ == "__main__":
    main()
