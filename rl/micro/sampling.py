"""Batched temperature and nucleus sampling (Holtzman et al., arXiv:1904.09751).

Each row has its own random stream, so that a request's tokens do not depend on the other rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentflow.rl.micro.kv_cache import Floats, Ints

LOWEST = 1e-5
"""Temperatures between 0 and this one are this one: logits divided by less are infinite in float32."""


@dataclass(frozen=True)
class Sampler:
    """Sampling parameters of one request. Temperature 0 is greedy; otherwise `rng` advances once per token."""

    temperature: float
    top_p: float
    rng: np.random.Generator


def sample(logits: Floats, samplers: Sequence[Sampler]) -> tuple[Ints, Floats]:
    """Draw a token for each row of `logits` [n, vocab]. Return the tokens [n] and their log-probabilities [n].

    Log-probabilities are those of softmax(logits / temperature), or of softmax(logits) at temperature 0. That is the
    sampling distribution for top_p = 1; a smaller top_p removes tokens without renormalising the log-probabilities.
    """
    temperature = np.array([[max(s.temperature, LOWEST) if s.temperature else 1.0] for s in samplers], np.float32)
    logprobs = logits / temperature
    logprobs -= logprobs.max(axis=1, keepdims=True)
    logprobs -= np.log(np.exp(logprobs).sum(axis=1, keepdims=True))
    tokens = logprobs.argmax(axis=1)
    drawn = [row for row, sampler in enumerate(samplers) if sampler.temperature > 0]
    if drawn:
        tokens[drawn] = _draw(np.exp(logprobs[drawn]), [samplers[row] for row in drawn])
    return tokens, logprobs[np.arange(len(tokens)), tokens]


def _draw(probabilities: Floats, samplers: Sequence[Sampler]) -> Ints:
    """Draw a token for each row of `probabilities` [n, vocab]."""
    for row, sampler in enumerate(samplers):
        if sampler.top_p < 1:
            probabilities[row] = _nucleus(probabilities[row], sampler.top_p)
    cumulative: npt.NDArray[np.float64] = np.cumsum(probabilities, axis=1, dtype=np.float64)
    drawn = np.array([sampler.rng.random() for sampler in samplers]) * cumulative[:, -1]
    tokens: Ints = (cumulative <= drawn[:, None]).sum(axis=1)
    return tokens


def _nucleus(probabilities: Floats, top_p: float) -> Floats:
    """Set the probabilities to 0 except for the smallest set of most probable tokens that reaches `top_p`."""
    order = np.argsort(-probabilities, kind="stable")
    before = np.cumsum(probabilities[order], dtype=np.float64) - probabilities[order]
    kept: Floats = probabilities.copy()
    kept[order[before >= top_p]] = 0
    return kept
