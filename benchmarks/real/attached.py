"""Questions about a file that a person attaches, to a real small model: AgentFlow, or the model alone.

`python -m benchmarks.real.attached --model SPEC` makes 27 files with 10, 40 and 160 lines (sales in CSV, people in TSV,
a log), asks one question of each, and prints how many answers are right. Another `--seed` makes other files.
"""

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from agentflow import Context, Sampling, Task
from agentflow.evals.agents import agent_graph
from agentflow.evals.scorers.free_text import free_text
from agentflow.graph.agent import Agent
from agentflow.graph.context import MODULES
from agentflow.graph.run.runner import asking, run
from agentflow.graph.run.trace import Trace, append

SIZES = (10, 40, 160)
REGIONS, CITIES = ("north", "south", "east", "west"), ("Bern", "Lyon", "Graz", "Turin")
FIRST, LAST = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn"), ("Abel", "Berg", "Cole", "Dahl", "Egli", "Frank")
SERVICES = ("login", "search", "basket", "payment")
MONTHS = ("January", "February", "March", "April")


class Case(NamedTuple):
    """A file, a question about it, and the answer."""

    name: str
    text: str
    question: str
    gold: str


def cases(seed: int, sizes: Sequence[int] = SIZES) -> Iterator[Case]:
    """Yield the cases of a seed, the same ones each time."""
    for size in sizes:
        draw = random.Random(f"{seed} {size}")
        yield from _sales(draw, size)
        yield from _people(draw, size)
        yield from _log(draw, size)


def _sales(draw: random.Random, size: int) -> Iterator[Case]:
    rows = [(draw.randrange(4), draw.randint(1, 28), draw.choice(REGIONS), draw.randint(1, 99)) for _ in range(size)]
    lines = [f"2024-{month + 1:02}-{day:02},{region},{units}" for month, day, region, units in rows]
    text = "\n".join(["date,region,units", *lines])
    region, month, least = draw.choice(REGIONS), draw.randrange(4), draw.randint(30, 70)
    units = Counter[str]()
    for _, _, where, sold in rows:
        units[where] += sold
    yield Case("sales.csv", text, f"How many units were sold in the {region}?", str(units[region]))
    sold = sum(one[3] for one in rows if one[0] == month)
    yield Case("sales.csv", text, f"How many units were sold in {MONTHS[month]} 2024?", str(sold))
    large = sum(one[3] > least for one in rows)
    yield Case("sales.csv", text, f"How many of the sales have more than {least} units?", str(large))
    yield Case("sales.csv", text, "Which region sold the most units in all?", units.most_common(1)[0][0])


def _people(draw: random.Random, size: int) -> Iterator[Case]:
    ages = draw.sample(range(180, 1000), size)  # in tenths of a year, so that no two are the same
    rows = [(f"{draw.choice(FIRST)} {draw.choice(LAST)}", draw.choice(CITIES), age / 10) for age in ages]
    text = "\n".join(["name\tcity\tage", *(f"{name}\t{city}\t{age}" for name, city, age in rows)])
    city = draw.choice(CITIES)
    yield Case("people.tsv", text, f"How many people live in {city}?", str(sum(one[1] == city for one in rows)))
    yield Case("people.tsv", text, "Who is the oldest?", max(rows, key=lambda one: one[2])[0])
    middle = f"{median(one[2] for one in rows):.2f}"
    yield Case("people.tsv", text, "What is the median age, to two decimals?", middle)


def _log(draw: random.Random, size: int) -> Iterator[Case]:
    rows = [(draw.choice(("INFO", "INFO", "WARN", "ERROR")), draw.choice(SERVICES)) for _ in range(size)]
    lines = [
        f"2024-05-03 {n // 60 + 8:02}:{n % 60:02} {level} {service}: done" for n, (level, service) in enumerate(rows)
    ]
    text, service = "\n".join(lines), draw.choice(SERVICES)
    yield Case("server.log", text, "How many errors are in the log?", str(sum(one[0] == "ERROR" for one in rows)))
    warned = sum(one == ("WARN", service) for one in rows)
    yield Case("server.log", text, f"How many warnings of {service} are in the log?", str(warned))


async def answered(graph: Agent, case: Case, context: Context, inline: bool) -> Trace:
    """Return the trace of a case. Raises the failure of its run."""
    block = {"type": "text-plain", "mime_type": "text/plain", "title": case.name, "text": case.text}
    inputs = asking(f"{case.question}\n\n{case.name}:\n{case.text}") if inline else asking(case.question, [block])
    trace = await run(graph, Task.of(case.question, case.gold), context, inputs=inputs)
    if trace.failure:
        raise trace.failure
    return trace


async def measure(options: argparse.Namespace) -> None:
    """Ask, and print each answer and how many are right. The traces are added to a file."""
    tools = ["base_generator"] if options.agent == "direct" else ["base_generator", "python_coder"]
    sampling = dict.fromkeys(MODULES, Sampling(max_tokens=400))
    context = Context(model=options.model, tools=tools, max_turns=4, max_seconds=3600, sampling=sampling)
    graph, turns = agent_graph(options.agent), asyncio.Semaphore(options.concurrency)

    async def right(case: Case) -> bool:
        async with turns:
            trace = await answered(graph, case, context, options.inline)
        append(options.out, trace)
        score = free_text(trace.answer, [case.gold])
        print(f"{score.decision}: {case.question} {case.gold} {trace.answer[:60]!r}", flush=True)
        return score.correct

    scores = await asyncio.gather(*map(right, cases(options.seed, options.lines)))
    print(f"{sum(scores)} of {len(scores)} right")


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.attached", description=__doc__)
    parser.add_argument("--model", required=True, metavar="SPEC", help="a server that runs")
    parser.add_argument("--agent", choices=("agentflow", "direct"), default="agentflow")
    parser.add_argument("--inline", action="store_true", help="write the file into the question")
    parser.add_argument("--lines", type=int, nargs="+", default=SIZES, help="lengths of the files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--out", type=Path, default="attached.jsonl", help="file of the traces")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
