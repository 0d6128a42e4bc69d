"""Literal equality, or an expression that makes a number: what Atlas is scored by."""

from agentflow.evals.scorers.expression import makes_target


def correct(answer: str, gold: str, numbers: tuple[int, ...] = (), target: int = 0) -> bool:
    """Exact: an expression of `numbers` makes `target`; without numbers, the text is `gold` but for case, outer spaces
    and a full stop."""
    answer = answer.strip().rstrip(".")
    return makes_target(answer, numbers, target) if numbers else answer.casefold() == gold.casefold()
