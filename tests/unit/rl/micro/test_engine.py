import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentflow.rl.micro import engine as module
from agentflow.rl.micro.engine import Completion, ContextWindowExceeded, Engine
from agentflow.rl.micro.kv_cache import BLOCK
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer
from tests.cases import table
from tests.unit.rl.micro import checkpoint
from tests.waiting import LAST_RESORT, until

Ids = list[int]


@pytest.fixture
def make(directory: Path) -> Callable[..., Engine]:
    model, tokenizer = MicroModel.load(directory), MicroTokenizer.load(directory)
    return lambda **options: Engine(model, tokenizer, **options)


@pytest.fixture
def engine(make: Callable[..., Engine]) -> Engine:
    return make()


def _prompt(seed: int, length: int) -> Ids:
    return np.random.default_rng(seed).integers(3, checkpoint.VOCABULARY, length).tolist()


def _reply(engine: Engine, prompt: Ids, **options: Any) -> Completion:
    return engine.submit(prompt, **options).result(timeout=LAST_RESORT)


def test_greedy_decoding_equals_a_plain_loop(engine: Engine, directory: Path) -> None:
    model = MicroModel.load(directory)
    prompt = _prompt(0, 40)
    seen: list[tuple[int, float]] = []
    completion = _reply(engine, prompt, max_tokens=10, on_token=lambda *token: seen.append(token))
    ids = list(prompt)
    assert seen == list(zip(completion.token_ids, completion.logprobs, strict=True)), "handed over as they are drawn"
    for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True):
        logits = model.prefill(model.new_cache(), 0, ids, 0).astype(np.float64)
        assert token == logits.argmax()
        assert logprob == pytest.approx(logits[token] - np.log(np.exp(logits).sum()), abs=1e-4)
        ids.append(token)


@pytest.mark.parametrize("length", range(BLOCK - 8, BLOCK + 1))
def test_a_sequence_that_moves_as_it_begins_a_block_loses_no_token(make: Callable[..., Engine], length: int) -> None:
    """It takes the slot of one that ends in the same step, and what that step wrote of it goes with it."""
    prompt = _prompt(1, length)
    alone = _reply(make(), prompt, max_tokens=20)
    engine = make()
    first = engine.submit(_prompt(0, 300), max_tokens=6)
    moved = engine.submit(prompt, max_tokens=20).result(timeout=LAST_RESORT)
    first.result(timeout=LAST_RESORT)
    assert moved.token_ids == alone.token_ids
    assert moved.logprobs == pytest.approx(alone.logprobs, abs=1e-5)


def test_the_seed_decides_a_sampled_reply(engine: Engine) -> None:
    prompt = _prompt(1, 20)
    options = {"temperature": 1.0, "max_tokens": 20}
    first = _reply(engine, prompt, seed=5, **options)
    assert _reply(engine, prompt, seed=5, **options).token_ids == first.token_ids
    assert _reply(engine, prompt, seed=6, **options).token_ids != first.token_ids
    # Two replies without a seed may be the same: in one of 12 this model ends at once.
    assert len({tuple(_reply(engine, prompt, **options).token_ids) for _ in range(20)}) > 1


def test_only_what_is_new_in_a_prompt_is_computed(make: Callable[..., Engine]) -> None:
    engine = make()
    first = _prompt(2, 200)
    reply = _reply(engine, first, max_tokens=10)
    assert engine.prefilled == 200
    second = [*first, *reply.token_ids, *_prompt(3, 30)]
    warm = _reply(engine, second, max_tokens=10)
    assert engine.prefilled == 200 + 31  # the last sampled token had not been fed
    assert warm.token_ids == _reply(make(), second, max_tokens=10).token_ids
    _reply(engine, second, max_tokens=1)
    assert engine.prefilled == 200 + 31 + 1  # logits need one token


def test_a_request_ends_with_the_model_that_it_began_with(
    make: Callable[..., Engine], directory: Path, slow: Callable[[Engine], None]
) -> None:
    """Rollouts that are sampled while the trainer computes are under way when new weights come."""
    other = MicroModel(MicroModel.load(directory).config, checkpoint.weights(checkpoint.CONFIG, seed=7))
    engine, begun = make(), threading.Event()
    slow(engine)
    prompt = _prompt(8, 40)
    before = _reply(make(), prompt, max_tokens=12)
    running = engine.submit(prompt, max_tokens=12, on_token=lambda token, logprob: begun.set())
    assert begun.wait(LAST_RESORT)
    engine.replace(other, version=3)
    waiting = engine.submit(prompt, max_tokens=12)
    assert running.result(timeout=LAST_RESORT) == before
    after = waiting.result(timeout=LAST_RESORT)
    assert after.version == 3
    fresh = Engine(other, MicroTokenizer.load(directory))
    expected = _reply(fresh, prompt, max_tokens=12)
    assert after.token_ids == expected.token_ids
    assert after.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert after.token_ids != before.token_ids


def test_threads_change_no_bit_and_no_work(make: Callable[..., Engine]) -> None:
    """Prompts that begin alike, of which one is computed first, and others, which are computed together."""
    common = _prompt(5, 60)
    prompts = [[*common, *_prompt(6 + i, 5)] if i % 3 else _prompt(50 + i, 20 + i) for i in range(24)]

    def replies(threads: int) -> tuple[list[Completion], int]:
        engine = make(threads=threads)
        with engine._wake:  # all are there when the first is admitted
            futures = [engine.submit(ids, temperature=1.0, seed=i, max_tokens=9) for i, ids in enumerate(prompts)]
        return [future.result(timeout=LAST_RESORT) for future in futures], engine.prefilled

    alone, prefilled = replies(1)
    assert prefilled == 60 + 16 * 5 + sum(20 + i for i in range(0, 24, 3))
    assert replies(4) == (alone, prefilled)


def test_a_stop_string_cuts_the_text_but_not_the_tokens(engine: Engine) -> None:
    prompt = _prompt(7, 30)
    free = _reply(engine, prompt, max_tokens=30, temperature=1.0, seed=3)
    stop = free.text[8:11]
    stopped = _reply(engine, prompt, max_tokens=30, temperature=1.0, seed=3, stop=["never occurs", stop])
    assert stopped.finish_reason == "stop"
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.token_ids == free.token_ids[: len(stopped.token_ids)]
    assert len(stopped.token_ids) == len(stopped.logprobs) < len(free.token_ids)


def test_a_reply_ends_where_the_positions_do_and_a_prompt_without_room_is_refused(engine: Engine) -> None:
    completion = _reply(engine, _prompt(8, checkpoint.POSITIONS - 3), max_tokens=50)
    assert (len(completion.token_ids), completion.finish_reason) == (3, "length")
    with pytest.raises(ContextWindowExceeded, match=r"600 .* 512"):
        engine.submit(_prompt(9, 600))


@pytest.mark.parametrize(("prompt", "options"), table(__file__, "bad_requests.txt"))
def test_bad_requests_are_refused_at_once(engine: Engine, prompt: Ids, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        engine.submit(prompt, **options)


def test_cancelling_frees_the_slot(make: Callable[..., Engine], slow: Callable[[Engine], None]) -> None:
    engine, drawn = make(slots=1), list[int]()
    slow(engine)
    long = engine.submit(_prompt(10, 5), temperature=1.0, seed=24, on_token=lambda token, _: drawn.append(token))
    never = engine.submit(_prompt(12, 50))
    waiting = engine.submit(_prompt(11, 5), max_tokens=2)
    until(lambda: len(engine._running) == 1)
    assert never.cancel(), "and what waits is not computed"
    assert long.cancel()
    assert waiting.result(timeout=LAST_RESORT).finish_reason == "length"
    assert len(drawn) < 200, "its reply has 286 tokens"
    with pytest.raises(CancelledError):
        long.result()
    until(lambda: not engine._running)
    assert engine.prefilled <= 5 + 5


def test_a_failure_goes_to_its_caller_and_the_engine_lives(directory: Path) -> None:
    model, tokenizer = MicroModel.load(directory), MicroTokenizer.load(directory)
    prefill, step = model.prefill, model.step

    def failing_prefill(cache: Any, slot: int, ids: Ids, start: int) -> Any:
        if ids == [7]:
            raise MemoryError("prefill")
        return prefill(cache, slot, ids, start)

    def failing_step(cache: Any, ids: Any, positions: Any, first: int = 0) -> Any:
        if 400 in positions:
            raise MemoryError("step")
        return step(cache, ids, positions, first)

    model.prefill, model.step = failing_prefill, failing_step  # type: ignore[method-assign]
    engine = Engine(model, tokenizer)
    with pytest.raises(MemoryError, match="prefill"):
        _reply(engine, [7])
    with pytest.raises(MemoryError, match="step"):
        _reply(engine, _prompt(1, 400), max_tokens=3)
    assert len(_reply(engine, _prompt(1, 10), max_tokens=3).token_ids) == 3


def test_an_engine_that_nobody_asks_frees_its_caches_and_answers_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    before = _reply(engine, _prompt(0, 40), max_tokens=5)
    until(lambda: engine._worker is None)
    assert engine._prefixes.tokens == 0
    assert _reply(engine, _prompt(0, 40), max_tokens=5) == before


def test_versions_that_no_longer_answer_leave_no_memory_behind(
    make: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that learns kept the engine of each version, 190 MB, for as long as it ran."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    engine = make()
    _reply(engine, _prompt(0, 40), max_tokens=5)
    kept = weakref.ref(engine)
    del engine
    until(lambda: gc.collect() >= 0 and kept() is None)


def test_a_request_that_comes_while_the_worker_ends_is_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    ending = threading.Event()
    answered = threading.Event()

    def end_slowly() -> None:
        ending.set()
        answered.wait(LAST_RESORT)

    monkeypatch.setattr(module, "return_free_memory", end_slowly)
    before = _reply(engine, _prompt(0, 5), max_tokens=1)
    assert ending.wait(LAST_RESORT)
    assert _reply(engine, _prompt(0, 5), max_tokens=1) == before
    answered.set()
