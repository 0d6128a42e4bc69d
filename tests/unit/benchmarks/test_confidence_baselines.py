"""Baselines of confidence are calibrated on other questions than they are measured on, and compared within a set."""

from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage

from agentflow.evals.confidence import reliability
from agentflow.graph.confidence import HeldOut
from agentflow.graph.models.spec import ModelError
from benchmarks.real.confidence_baselines import held_out, probability_of, within
from tests.failing import fails


def test_no_answer_is_calibrated_on_itself() -> None:
    """On noise, a regression with as many inputs as answers tells its own answers apart, and no others."""
    noise = np.random.default_rng(0)
    inputs, right = noise.normal(size=(200, 150)), noise.integers(2, size=200).astype(float)
    folds = np.arange(200) % 5.0
    confidence = held_out(inputs, right, folds)
    auc = reliability([HeldOut(float(one), bool(known)) for one, known in zip(confidence, right, strict=True)]).auc
    assert 0.4 < auc < 0.6
    told = held_out(right[:, None] + 0.1 * inputs[:, :1], right, folds)
    assert np.array_equal(told > 0.5, right == 1)


def record(benchmark: str, correct: bool) -> Any:
    return SimpleNamespace(benchmark=benchmark, correct=correct)


def test_an_easy_benchmark_and_a_hard_one_tell_nothing_within_one() -> None:
    records = [record("easy", one > 0) for one in range(10)] + [record("hard", one == 0) for one in range(10)]
    confidence = np.array([0.9] * 10 + [0.1] * 10)
    everywhere = [HeldOut(float(one), each.correct) for one, each in zip(confidence, records, strict=True)]
    assert reliability(everywhere).auc == pytest.approx(0.9)
    assert within(confidence, records) == 0.5


def test_the_probability_of_a_word_is_that_of_its_spellings() -> None:
    first = [
        {"token": token, "logprob": log(share)}
        for token, share in (("A", 0.5), (" A", 0.25), ("(A", 0.125), ("B", 0.1))
    ]
    reply = AIMessage("A", response_metadata={"logprobs": {"content": [{"top_logprobs": first}]}})
    assert probability_of("A", reply) == pytest.approx(0.875)
    with fails(ModelError, "no_logprobs"):
        probability_of("A", AIMessage("A"))
