"""Tasks and the reward of the example agents: sums in words.

python -m examples.agents.sums > sums.jsonl
"""

import json
import random
import re

NUMBERS = 200


def score(task, state) -> float:
    """Return 1 if the last number of the agent's answer is the result."""
    answer = str(state["answer"] if "answer" in state else state["messages"][-1].text)
    numbers = re.findall(r"-?\d+", answer.replace(",", ""))
    return float(bool(numbers) and numbers[-1] == task.gold)


def main() -> None:
    """Print the tasks, one line of JSON each."""
    rng = random.Random(0)
    for _ in range(NUMBERS):
        a, b, c = (rng.randint(2, 50) for _ in range(3))
        question, result = rng.choice(
            [(f"What is {a} plus {b}?", a + b), (f"What is {a} plus {b}, times {c}?", (a + b) * c)]
        )
        print(json.dumps({"question": question, "answer": str(result)}))


if __name__ == "__main__":
    main()
