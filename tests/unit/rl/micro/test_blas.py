from pathlib import Path

import numpy as np
import pytest

from agentflow.rl.micro.blas import VARIABLE, kernels
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        ("fpu sse4_2 avx", {}),
        ("fpu sse4_2 avx fma avx2", {VARIABLE: "Sandybridge"}),
        ("fpu sse4_2 avx fma avx2 avx512f avx512vl", {}),
    ],
)
def test_only_the_kernels_that_tell_rows_apart_are_replaced(tmp_path: Path, flags: str, chosen: dict[str, str]) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: any\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
    assert kernels(tmp_path / "cpuinfo") == chosen


@pytest.mark.parametrize("text", ["", "flags", "processor : 0\nFeatures : fp asimd\n"])
def test_of_another_processor_nothing_is_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert kernels(tmp_path / "cpuinfo") == kernels(tmp_path / "missing") == {}


def test_log_probabilities_are_the_same_bits_whatever_runs_beside() -> None:
    """With the kernels of OpenBLAS for AVX2, those of more than half of the replies were not.

    One prompt is long: the sums of others, over the blocks that it has, must not go in another order than alone.
    """
    model, tokenizer, chance = MicroModel.load(SEED), MicroTokenizer.load(SEED), np.random.default_rng(0)
    prompts = [chance.integers(300, 1300, length).tolist() for length in [1500, *chance.integers(30, 900, 12)]]
    batch, alone = Engine(model, tokenizer), Engine(model, tokenizer)
    options = [{"seed": seed, "temperature": 1.0, "max_tokens": 12} for seed in range(len(prompts))]
    together = [batch.submit(ids, **given) for ids, given in zip(prompts, options, strict=True)]
    for ids, given, future in zip(prompts, options, together, strict=True):
        found, expected = future.result(), alone.submit(ids, **given).result()
        assert (found.token_ids, found.logprobs) == (expected.token_ids, expected.logprobs)
