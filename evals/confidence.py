"""Fitting the confidence of answers on a scored run, and its report on another one.

Half of the questions, by the hash of their ids, fit a logistic regression; the other half stay held out, for the
promises of `Calibration.threshold` and for the figures that are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from agentflow.evals.intervals import Floats
from agentflow.evals.record import EvaluationSettings, Record
from agentflow.graph.confidence import Calibration, Call, HeldOut, Regression, common_words, signals, stop_signals
from agentflow.graph.context import MODULES
from agentflow.tools.coded_error import CodedError

LEAST = 20
"""Least wrong answers, and least right ones, in a run that a calibration is fitted on."""

PENALTY = 1.0
"""Ridge penalty of the weights of the standardised signals."""

COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.5)
"""Shares of the answers, the most confident ones first, whose accuracy is reported."""

BINS = 10


class CalibrationError(CodedError, ValueError):
    """A run cannot be calibrated on; `str()` is one line with the reason."""


def fit(records: Sequence[Record], settings: EvaluationSettings) -> Calibration:
    """Fit a calibration on the records of a run. Raises CalibrationError."""
    scored = [record for record in records if record.scorable and record.status != "abstained"]
    if settings.agent != "agentflow" or not scored:
        raise CalibrationError(
            "only answers of the agent itself can be calibrated, not a baseline's", code="no_answers"
        )
    right = sum(record.correct for record in scored)
    if min(right, len(scored) - right) < LEAST:
        raise CalibrationError(
            f"{right:,} of {len(scored):,} answers are right; a calibration needs at least {LEAST} right and {LEAST} "
            "wrong ones, so run more questions",
            code="too_few",
        )
    ours, held = _halves(scored)
    vocabulary = set().union(*(common_words(record.task.question) for record in ours))
    shares = [len(own & vocabulary) / len(own) for one in held if (own := common_words(one.task.question))]
    context = settings.context
    return Calibration(
        **_regression(_answers(ours), _answers(held)).model_dump(),
        benchmarks=sorted({record.benchmark for record in scored}),
        models={module: context.model_name_of(module) for module in MODULES},
        checkpoints=dict(settings.checkpoints),
        tools=context.tools,
        profile=context.profile_of("planner"),
        words=sorted(vocabulary),
        familiar=round(min(0.9, float(np.quantile(shares, 0.05))) if shares else 0.0, 4),
        stop=_stops(ours, held, settings),
    )


Known = list[tuple[dict[str, float], bool]]
"""Signals, and whether the answer was right, or whether the run could have stopped."""


def _answers(records: Sequence[Record]) -> Known:
    return [(signals_of(record), record.correct) for record in records]


def _stops(ours: Sequence[Record], held: Sequence[Record], settings: EvaluationSettings) -> Regression | None:
    """Return the regression of whether a run may stop; None if the verifier did not judge enough turns."""
    if settings.context.profile_of("verifier") == "paper" or settings.context.skip_verifier is not None:
        return None  # it may not be skipped, or it was: then nobody knows what going on would have brought
    fitted, tested = _turns(ours), _turns(held)
    return _regression(fitted, tested) if min(len(fitted), len(tested)) >= LEAST else None


def _turns(records: Sequence[Record]) -> Known:
    """Return the turns without an error, and whether a run that had ended there had lost no right answer.

    That is so for the last turn of any run, and for every turn of a run whose answer is wrong all the same. A right
    answer is taken to need all turns, though it may have been there before.
    """
    return [
        (
            stop_signals(record.task.question, calls_of(record)[: number + 1]),
            turn is record.turns[-1] or not record.correct,
        )
        for record in records
        for number, turn in enumerate(record.turns)
        if turn.result.error is None
    ]


def _regression(ours: Known, held: Known) -> Regression:
    """Fit a regression on `ours`, and keep `held` for its promises."""
    names = sorted({name for given, _ in ours for name in given})
    inputs = np.array([[given.get(name, 0.0) for name in names] for given, _ in ours])
    weights, bias = logistic(inputs, np.array([right for _, right in ours], float))
    rounded = dict(zip(names, (round(float(one), 6) for one in weights), strict=True))
    fitted = Regression(weights=rounded, bias=round(float(bias), 6), thresholds=[], held_out=[])
    levels = np.quantile([fitted.probability(given) for given, _ in ours], np.linspace(0.7, 0, 15), method="lower")
    return fitted.model_copy(
        update={
            "thresholds": sorted({float(level) for level in levels}, reverse=True),
            "held_out": [HeldOut(fitted.probability(given), right) for given, right in held],
        }
    )


def signals_of(record: Record) -> dict[str, float]:
    """Return the signals of a scored trace."""
    return signals(record.task.question, record.answer, record.status, calls_of(record))


def calls_of(record: Record) -> list[Call]:
    """Return the turns of a trace as signals read them."""
    return [Call(turn.tool, turn.context, turn.arguments, turn.result) for turn in record.turns]


def _halves(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return two halves of the questions; all tries of a question are in the same one."""
    order = sorted({record.task.id for record in records}, key=lambda name: sha256(name.encode()).digest())
    first = {*order[: len(order) // 2]}
    return [one for one in records if one.task.id in first], [one for one in records if one.task.id not in first]


def logistic(signals: Floats, right: Floats) -> tuple[Floats, float]:
    """Return the weights and the bias of a logistic regression, by Newton's method."""
    mean, spread = signals.mean(axis=0), signals.std(axis=0)
    spread[spread == 0] = 1.0
    inputs = np.column_stack([(signals - mean) / spread, np.ones(len(signals))])
    penalty = np.append(np.full(signals.shape[1], PENALTY), 1e-6)
    found = np.zeros(inputs.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-inputs @ found))
        gradient = inputs.T @ (probability - right) + penalty * found
        curvature = (inputs.T * (probability * (1 - probability))) @ inputs + np.diag(penalty)
        found -= np.linalg.solve(curvature, gradient)
    weights: Floats = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)


@dataclass(frozen=True)
class Bin:
    """Answers of similar confidence: their number, mean confidence, and share of right ones."""

    number: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Covered:
    """The most confident answers: their share, lowest confidence, accuracy, and all runs' tokens per right one."""

    coverage: float
    threshold: float
    accuracy: float
    tokens: float | None


@dataclass(frozen=True)
class Reliability:
    """How well confidences tell right answers from wrong ones."""

    number: int
    auc: float
    """Probability that a right answer has a higher confidence than a wrong one; 0.5 is chance."""
    error: float
    """Expected calibration error, over bins of equal size."""
    bins: list[Bin]
    covered: list[Covered]


def reliability_of(records: Sequence[Record]) -> Reliability | None:
    """Return the reliability of the answers of scored traces that have a confidence; None if there is none."""
    given = [one for one in records if one.confidence is not None and one.status != "abstained"]
    known = [HeldOut(one.confidence or 0.0, one.correct) for one in given]
    return reliability(known, sum(record.usage.total_tokens for record in given)) if known else None


def reliability(answers: Sequence[HeldOut], tokens: int = 0) -> Reliability:
    """Return the reliability of at least one answer. `tokens` were used for all of them, 0 if unknown."""
    ordered = sorted(answers, key=lambda one: -one.confidence)
    confidence = np.array([one.confidence for one in ordered])
    right = np.array([one.right for one in ordered], float)
    parts = [part for part in np.array_split(np.arange(len(ordered)), BINS) if len(part)]
    bins = [Bin(len(part), float(confidence[part].mean()), float(right[part].mean())) for part in reversed(parts)]
    covered = []
    for coverage in COVERAGES:
        number = max(1, round(coverage * len(ordered)))
        shown = right[:number].sum()
        cost = tokens / shown if tokens and shown else None
        covered.append(Covered(coverage, float(confidence[number - 1]), float(shown / number), cost))
    error = sum(one.number * abs(one.confidence - one.right) for one in bins) / len(ordered)
    return Reliability(len(ordered), _auc(confidence, right), error, bins, covered)


def _auc(confidence: Floats, right: Floats) -> float:
    """Return the area under the ROC curve; equal confidences count half."""
    better, worse = confidence[right == 1], confidence[right == 0]
    if not len(better) or not len(worse):
        return 0.5
    worse = np.sort(worse)
    below = np.searchsorted(worse, better, "left") + np.searchsorted(worse, better, "right")
    return float(below.mean() / 2 / len(worse))
