"""Scorer of Atlas: literal equality, or an expression that makes a number."""

from agentflow.evals.scorers.expression import makes_target


def correct(answer: str, gold: str, numbers: tuple[int, ...] = (), target: int = 0) -> bool:
    """Return whether `answer` is correct.

    With `numbers`, it must be an expression of them that makes `target`. Without, it must equal `gold`, ignoring case,
    outer spaces and a final full stop.
    """
    answer = answer.strip().rstrip(".")
    return makes_target(answer, numbers, target) if numbers else answer.casefold() == gold.casefold()
