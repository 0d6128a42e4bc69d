"""Tasks and the reward of the example agents: sums in words.

python -m examples.agents.sums > sums.jsonl
python -m examples.agents.sums --steps 1 > steps.jsonl    # for `structured`, which carries out one step
"""

import argparse
import json
import random
import re

NUMBERS = 400
"""Tasks that are printed."""
LARGEST = 20
"""Largest number of a question. Each digit is a token, and a small model must copy all of them."""


def score(task, state) -> float:
    """Return 1 if the last number of the agent's answer is the result."""
    answer = str(state["answer"] if "answer" in state else state["messages"][-1].text)
    numbers = re.findall(r"-?\d+", answer.replace(",", ""))
    return float(bool(numbers) and numbers[-1] == task.gold)


def example(rng: random.Random, steps: int = 2) -> tuple[str, int]:
    """Return a question of at most so many steps, and its result."""
    a, b, c = (rng.randint(2, LARGEST) for _ in range(3))
    other = (f"What is {a} times {b}?", a * b) if steps == 1 else (f"What is {a} plus {b}, times {c}?", (a + b) * c)
    return rng.choice([(f"What is {a} plus {b}?", a + b), other])


def main() -> None:
    """Print the tasks, one line of JSON each."""
    options = argparse.ArgumentParser(description="Sums in words, with their results.")
    options.add_argument("--steps", type=int, choices=(1, 2), default=2, help="most steps of a sum")
    steps = options.parse_args().steps
    rng = random.Random(0)
    for _ in range(NUMBERS):
        question, result = example(rng, steps)
        print(json.dumps({"question": question, "answer": str(result)}))


if __name__ == "__main__":
    main()
