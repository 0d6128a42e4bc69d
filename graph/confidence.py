"""Two probabilities, for the models and the kind of task that a calibration was fitted on: that an answer is right (its
confidence), and that a run may stop after a turn without losing a right answer.

Each is read from the evidence in memory, not from the model's own probabilities, which tell less
(`docs/lab/confidence`): whether the answer stands in a result, and whether the calls asked for what the question names.
So any model has them, and they cost no token. `agentflow calibrate` fits them on scored runs
(`agentflow.evals.confidence`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, fsum, lgamma, log, log1p
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow.tools.json_codec import model_from_json, read_regular
from agentflow.tools.result import ToolResult

AUTO, OFF, FILE = "auto", "off", "calibration.json"

ERROR_RATE = 0.1
"""Probability, over the draw of the held-out questions, that a threshold keeps less than the precision it promises."""

_NAME = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]\w*")


class Call(NamedTuple):
    """A turn, as far as signals need it."""

    tool: str
    context: str
    arguments: Mapping[str, object]
    result: ToolResult


def signals(question: str, answer: str, status: str, calls: Sequence[Call]) -> dict[str, float]:
    """Return what the memory tells about the answer, by name."""
    asked = _asked(calls)
    found = "\n".join(call.result.output for call in calls if call.result.error is None)
    return {
        "answered": float(status == "answered"),
        "covered": _covered(question, calls),
        "grounded": float(_holds(found, answer)),
        "asked": float(_holds(asked, answer)),
        "echoed": float(_holds(question, answer)),
        "words": log1p(len(answer.split())),
        "turns": float(len(calls)),
        "errors": float(sum(call.result.error is not None for call in calls)),
    }


def stop_signals(question: str, calls: Sequence[Call]) -> dict[str, float]:
    """Return what the memory tells about whether the run may stop after its last turn, by name."""
    last = calls[-1]
    return {
        f"tool {last.tool}": 1.0,
        "first": float(len(calls) == 1),
        "turns": float(len(calls)),
        "covered": _covered(question, calls),
        "words": log1p(len(last.result.output.split())),
        "errors": float(sum(call.result.error is not None for call in calls)),
    }


def _covered(question: str, calls: Sequence[Call]) -> float:
    """Return the share of the question's names and numbers that calls asked for."""
    names = _names(question)
    return 1 - len(unasked(question, calls)) / len(names) if names else 1.0


def unasked(question: str, calls: Sequence[Call]) -> list[str]:
    """Return the names and numbers of the question for which no call asked."""
    return sorted(_names(question) - {*_NAME.findall(_asked(calls))})


def _asked(calls: Sequence[Call]) -> str:
    return "\n".join(f"{json.dumps(call.arguments, ensure_ascii=False)} {call.context}" for call in calls)


def common_words(question: str) -> set[str]:
    """Return the words of a question that are neither names nor numbers, by which kinds of questions differ."""
    return {word for word in _NAME.findall(question[:1].lower() + question[1:]) if word.islower()}


def _names(question: str) -> set[str]:
    """Return the numbers and the names of a question: its words with a capital, without the first one."""
    return {word for word in _NAME.findall(question[:1].lower() + question[1:]) if not word.islower()}


def _holds(text: str, part: str) -> bool:
    """Return whether `part` stands in `text` as whole words, in any case."""
    part, text = part.strip(" .\n").casefold(), text.casefold()
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        if not (text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()):
            return True
        start = text.find(part, end)
    return False


class HeldOut(NamedTuple):
    """An answer, or a turn, that the weights were not fitted on."""

    confidence: float
    right: bool
    """The label of a turn: False if the turns after it brought a right answer."""


class Regression(BaseModel):
    """A logistic regression on signals, and what it may promise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: dict[str, float]
    bias: float
    thresholds: list[float]
    """Thresholds to test, in descending order, chosen without the held-out answers."""
    held_out: list[HeldOut]

    def probability(self, given: Mapping[str, float]) -> float:
        """Return the probability that an answer is right, or that the run may stop."""
        logit = self.bias + fsum(weight * given.get(name, 0.0) for name, weight in self.weights.items())
        return 1 / (1 + exp(-max(-50.0, min(50.0, logit))))

    def threshold(self, precision: float) -> float | None:
        """Return the confidence from which answers are right with probability `precision`; None if none promises it.

        With probability 1 - ERROR_RATE over the held-out questions, the promise holds for questions of the same kind.
        The thresholds are tested in a fixed order by the binomial test until the first one fails. Conformal risk
        control bounds risks that fall as the threshold rises, and precision need not. A threshold that so few answers
        reach that it would fail though all were right is left out.

        Source: A. Angelopoulos et al., "Learn then Test: Calibrating predictive algorithms to achieve risk control",
        Annals of Applied Statistics 19, 2025.
        """
        kept: float | None = None
        for threshold in self.thresholds:
            shown = [one.right for one in self.held_out if one.confidence >= threshold]
            if _tail(0, len(shown), 1 - precision) > ERROR_RATE:
                continue
            if _tail(shown.count(False), len(shown), 1 - precision) > ERROR_RATE:
                break
            kept = threshold
        return kept


class Calibration(Regression):
    """Confidence of the answers of certain models to a kind of task, by `signals`."""

    benchmarks: list[str]
    """The tasks that it was fitted on."""
    models: dict[str, str]
    """Models by module."""
    checkpoints: dict[str, str] = {}
    """Hash of the weights of each embedded model, by its spec."""
    tools: list[str]
    profile: str
    words: list[str]
    """Words of the questions that it was fitted on."""
    familiar: float = Field(ge=0, le=1)
    """Share of a question's words that must be among `words`, else the question is of another kind."""
    stop: Regression | None = None
    """Whether a run may stop after a turn, by `stop_signals`; None if too few turns tell."""

    def covers(self, question: str) -> bool:
        """Return whether it holds for a question, by the words of those that it was fitted on."""
        own = common_words(question)
        return len(own & {*self.words}) >= self.familiar * len(own)

    def mismatch(self, models: Mapping[str, str], tools: Sequence[str], profile: str) -> str:
        """Return how settings differ from those that it was fitted for; "" if they do not."""
        for module, spec in self.models.items():
            if models.get(module) != spec:
                return f"the {module}'s model is {models.get(module)}, not {spec}"
        if profile != self.profile:
            return f"the profile is {profile}, not {self.profile}"
        return "" if {*tools} == {*self.tools} else f"the tools are not {', '.join(self.tools)}"


def _tail(wrong: int, number: int, share: float) -> float:
    """Return the probability of at most `wrong` wrong answers of `number` if each is wrong with probability `share`."""
    if number == 0:
        return 1.0

    def logarithm(k: int) -> float:
        ways = lgamma(number + 1) - lgamma(k + 1) - lgamma(number - k + 1)
        return ways + k * log(share) + (number - k) * log(1 - share)

    return fsum(exp(logarithm(k)) for k in range(wrong + 1))


def read_calibration(path: Path) -> Calibration:
    """Read a calibration from its file or from the folder of its run. Raises ValueError."""
    file = path / FILE if path.is_dir() else path
    try:
        return _read(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise ValueError(
            f"{file} cannot be read ({error.strerror or error}); make it with agentflow calibrate"
        ) from error
    except ValidationError as error:
        raise ValueError(f"{file} is no calibration; make one with agentflow calibrate") from error


@lru_cache(maxsize=8)
def _read(file: Path, version: int) -> Calibration:
    return model_from_json(Calibration, read_regular(file))
