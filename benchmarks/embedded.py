"""Ask the embedded model what people ask it first: `python -m benchmarks.embedded`.

Twenty elementary sums, of which none can occur in its training data, and 200 questions of many kinds that it cannot
answer and should decline. An answer to one of these counts as answered whatever it says.

`--generated N` asks N questions each from the generators of its training data instead, everyday ones of the split that
is held out, and others that it should decline. `--model embedded:DIRECTORY` measures another checkpoint, and `--all`
prints every answer. Takes a minute.
"""

import argparse
import asyncio
import random
from pathlib import Path

from rich.progress import track

from agentflow import Context, build_graph
from agentflow.evals.atlas.world import split_of
from recipes.micro import everyday, outside

QUESTIONS = Path(__file__).parent / "questions"
DECLINED = "the small model that comes with AgentFlow"
"""Part of the reply that declines (`rl.micro.declining`), in every version of the model."""
AT_ONCE = 8

Asked = tuple[str, str]
"""A question, and its answer; "" if it should be declined."""


def kind(answer: str, gold: str) -> str:
    """Return "right", "wrong", "declined", or "answered" if there is nothing to compare with."""
    if DECLINED in answer:
        return "declined"
    return "answered" if not gold else "right" if answer.strip() == gold else "wrong"


async def answers(questions: list[str], context: Context) -> list[str]:
    """Return the agent's answers."""
    graph, found = build_graph(), list[str]()
    for start in track(range(0, len(questions), AT_ONCE), f"{len(questions)} questions"):
        states = (
            graph.ainvoke({"messages": [("user", text)]}, context=context)
            for text in questions[start : start + AT_ONCE]
        )
        found += [state["messages"][-1].text for state in await asyncio.gather(*states)]
    return found


def written() -> dict[str, list[Asked]]:
    """Read the questions of the two files."""
    found = {}
    for name in ("elementary", "off_topic"):
        lines = (QUESTIONS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        found[name] = [(line.partition("\t")[0], line.partition("\t")[2]) for line in lines]
    return found


def generated(number: int) -> dict[str, list[Asked]]:
    """Generate `number` questions of each kind, none of which can occur in the training data of sums."""
    rng, sums = random.Random(987), list[Asked]()
    while len(sums) < number:
        problem = rng.choice((everyday.calculation, everyday.conversion))(rng)
        if split_of(problem.question) != "train":
            sums.append((problem.question, problem.answer))
    rng = random.Random(987)
    return {"everyday": sums, "outside": [(outside.question(rng), "") for _ in range(number)]}


def main(model: str, every: bool, number: int) -> None:
    """Print how many questions of each set got which kind of answer, and the answers that should not be."""
    for name, asked in (generated(number) if number else written()).items():
        questions, golds = zip(*asked, strict=True)
        found = asyncio.run(answers(list(questions), Context(model=model)))
        kinds = [kind(answer, gold) for answer, gold in zip(found, golds, strict=True)]
        counts = {one: kinds.count(one) for one in ("right", "wrong", "answered", "declined") if one in kinds}
        print(name, ", ".join(f"{number} {one}" for one, number in counts.items()))
        for question, answer, one in zip(questions, found, kinds, strict=True):
            if every or one in ("wrong", "answered") or (one == "declined" and golds[0]):
                print(f"  {one}: {question} -> {answer[:100]!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="default: embedded")
    parser.add_argument("--generated", dest="number", type=int, default=0, help="number of generated questions")
    parser.add_argument("--all", dest="every", action="store_true", help="print every answer")
    main(**vars(parser.parse_args()))
