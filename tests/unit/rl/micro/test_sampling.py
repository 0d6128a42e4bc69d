import numpy as np
import pytest

from agentflow.rl.micro.sampling import Sampler, sample

LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))


def _samplers(n: int, temperature: float, top_p: float) -> list[Sampler]:
    return [Sampler(temperature, top_p, np.random.default_rng(seed)) for seed in range(n)]


def _draws(temperature: float, top_p: float, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    return sample(np.tile(LOGITS, (n, 1)), _samplers(n, temperature, top_p))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_and_logprobs_are_those_of_the_tempered_distribution(temperature: float) -> None:
    expected = np.exp(LOGITS / temperature)
    expected /= expected.sum()
    tokens, logprobs = _draws(temperature, 1.0)
    np.testing.assert_allclose(np.bincount(tokens, minlength=4) / len(tokens), expected, atol=0.03)
    np.testing.assert_allclose(logprobs, np.log(expected)[tokens], atol=1e-5)


@pytest.mark.parametrize(("top_p", "kept"), [(0.01, {0}), (0.5, {0}), (0.6, {0, 1}), (0.75, {0, 1}), (0.8, {0, 1, 2})])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float, kept: set[int]) -> None:
    tokens, logprobs = _draws(1.0, top_p, n=300)
    assert set(tokens.tolist()) == kept
    np.testing.assert_allclose(logprobs, LOGITS[tokens], atol=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-39, 1e-6])
def test_the_lowest_temperatures_take_the_most_probable(temperature: float) -> None:
    tokens, logprobs = sample(np.tile(1000 * LOGITS, (5, 1)), _samplers(5, temperature, 0.9))
    assert tokens.tolist() == [0] * 5
    np.testing.assert_allclose(logprobs, 0, atol=1e-6)
