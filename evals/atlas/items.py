"""Atlas as items that the runner evaluates."""

from functools import partial

from agentflow.evals.atlas.families import questions
from agentflow.evals.atlas.world import Split
from agentflow.evals.runner import Item
from agentflow.evals.scorers.exact import correct


def items(split: Split, number: int) -> list[Item]:
    """The first `number` items of `split`, the families in turn; a smaller number is a prefix of a larger one."""
    return [
        Item(
            question=task.question,
            gold=task.answer,
            family=task.family,
            correct=partial(correct, gold=task.answer, numbers=task.numbers, target=task.target),
        )
        for task in questions(split, number)
    ]
