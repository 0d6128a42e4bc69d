"""Judges that a test scripts; they do what `evals.judge.Judge` does, without a model."""

from collections.abc import Callable, Mapping

from agentflow.evals.scorers.score import Decision


class ScriptedJudge:
    """A judge with a fixed or computed decision, which records the questions."""

    def __init__(self, says: Decision | Callable[[str, str, str], Decision], chooses: str = "") -> None:
        self._says, self._chooses = says, chooses
        self.asked: list[tuple[object, ...]] = []

    async def decide(self, question: str, gold: str, answer: str) -> Decision:
        self.asked.append((question, gold, answer))
        return self._says if isinstance(self._says, Decision) else self._says(question, gold, answer)

    async def choose(self, question: str, options: Mapping[str, str], answer: str) -> str:
        self.asked.append((question, dict(options), answer))
        return self._chooses
