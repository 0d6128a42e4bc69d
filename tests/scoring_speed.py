"""How fast rules score: `python -m tests.scoring_speed` scores 10,000 answers and prints their CPU seconds."""

import time

from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.gaia import quasi_exact
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option

EPISODES = 10_000
REASONING = "First I look it up, then I compute 3 * 14 and compare both. " * 12
OPTIONS = {"A": "the liver", "B": "the heart", "C": "the lungs", "D": "none of the above"}
SCORERS = {
    "number": lambda answer: number(answer, "204"),
    "expression": lambda answer: expression(answer, (3, 3, 8, 8), 24),
    "option": lambda answer: option(answer, OPTIONS, "B"),
    "free text": lambda answer: free_text(answer, ["3 November 1929", "November 1929", "1929"]),
    "gaia": lambda answer: quasi_exact(answer, "b, c, 3"),
}
ANSWERS = (
    "204",
    f"{REASONING}\nAnswer: 8/(3-8/3)",
    f"{REASONING}<answer>B. the heart</answer>",
    f"{REASONING} \\boxed{{\\text{{3 November 1929}}}}",
    REASONING,
)


def main() -> None:
    """Prints a line per scorer and the total."""
    total = 0.0
    for name, scorer in SCORERS.items():
        start = time.process_time()
        for position in range(EPISODES // len(SCORERS)):
            scorer(ANSWERS[position % len(ANSWERS)])
        seconds = time.process_time() - start
        total += seconds
        print(f"{name:<12}{EPISODES // len(SCORERS):>7,} answers {seconds:6.2f} s")
    print(f"{'all':<12}{EPISODES:>7,} answers {total:6.2f} s")


if __name__ == "__main__":
    main()
