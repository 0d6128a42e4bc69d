"""Continuous batching of one model for many callers (Orca, OSDI 2022), on one worker thread.

Requests join and leave at token boundaries: each iteration of the worker admits what waits, as long as there are slots,
and then computes one token of every running request in one forward pass. A request's prompt is computed only beyond its
longest prefix that a running or an earlier request has in its cache.

The tokens of a request do not depend on the others: it has its own random stream, and the model's arithmetic is the
same in any batch (see `model`).

The worker limits BLAS to its own thread. The products are too small to gain from more, and BLAS threads that wait for
each other on a busy machine made a prompt ten times slower.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from agentflow.rl.micro.kv_cache import Ints
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.prefix_cache import CachedSequence, PrefixCache, common_prefix
from agentflow.rl.micro.sampling import Sampler, sample
from agentflow.rl.micro.tokenizer import MicroTokenizer


class PromptTooLong(ValueError):
    """The prompt leaves no position for a reply."""


@dataclass(frozen=True)
class Completion:
    """What a request yielded. Invariant: token_ids and logprobs have the same length, at least 1."""

    token_ids: list[int]
    """Every sampled token in order, the end token and those of a stop string included."""
    logprobs: list[float]
    """Log-probability of each token under the distribution at the request's temperature, before top_p removed any;
    at temperature 1 for greedy requests (temperature 0)."""
    text: str
    """The reply, without end token and from before the stop string."""
    finish_reason: Literal["stop", "length"]
    """stop: a stop string or a special token, none of which belongs in a reply; length: max_tokens or the model's
    positions are used up."""


@dataclass(eq=False)
class _Request:
    """A request and its state. Invariant while it runs: all of prompt and tokens but the last token are in its slot."""

    prompt: Ints
    sampler: Sampler
    max_tokens: int
    stop: tuple[str, ...]
    on_token: Callable[[int, float], None] | None
    future: Future[Completion]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def cached(self) -> int:
        return len(self.prompt) + len(self.tokens) - 1

    def sequence(self) -> Ints:
        """The tokens whose keys and values are in the slot."""
        return np.concatenate([self.prompt, np.array(self.tokens[:-1], np.int64)])


class Engine:
    """Serves completions of `model`. Thread-safe; its worker starts with the first request."""

    def __init__(
        self, model: MicroModel, tokenizer: MicroTokenizer, *, slots: int = 64, prefix_tokens: int = 65536
    ) -> None:
        """`slots`: requests that run at once, others wait; `prefix_tokens`: bound of the cache of prefixes."""
        self._model = model
        self._tokenizer = tokenizer
        self._slots = slots
        self._cache = model.new_cache()
        self._prefixes = PrefixCache(prefix_tokens)
        self._running: list[_Request] = []  # the index is the slot
        self._waiting: deque[_Request] = deque()
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self.prefilled = 0
        """Prompt tokens computed so far; the others came from the cache."""

    @property
    def positions(self) -> int:
        """Most tokens of a prompt and its reply together."""
        return self._model.config.positions

    def submit(
        self,
        prompt_ids: Sequence[int],
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        seed: int | None = None,
        on_token: Callable[[int, float], None] | None = None,
    ) -> Future[Completion]:
        """Ask for a completion; cancelling the future frees its place.

        Args:
            prompt_ids: The prompt.
            temperature: 0 is greedy.
            top_p: Share of the probability that is sampled from.
            max_tokens: None: as many as there is room for.
            stop: Strings that end the reply and are no part of it.
            seed: None: other tokens at each call.
            on_token: Gets each token with its log-probability as it is drawn, on the worker's thread; must not raise.

        Raises:
            PromptTooLong: The prompt fills all positions of the model.
            ValueError: An empty prompt, an unknown token, or a parameter out of range.
        """
        prompt = np.array(prompt_ids, np.int64)
        self._check(prompt, temperature, top_p, max_tokens, stop)
        room = self.positions - len(prompt)
        request = _Request(
            prompt=prompt,
            sampler=Sampler(temperature, top_p, np.random.default_rng(seed)),
            max_tokens=min(max_tokens or room, room),
            stop=tuple(stop),
            on_token=on_token,
            future=Future(),
        )
        with self._wake:
            self._waiting.append(request)
            self._wake.notify()
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._work, name="micro-engine", daemon=True)
                self._worker.start()
        return request.future

    def replace(self, model: MicroModel) -> None:
        """Serve `model`, of the same shape, from now on. Raises RuntimeError while requests are under way."""
        with self._wake:
            if self._waiting or self._running:
                raise RuntimeError("requests are under way; the model can be replaced between them")
            self._model = model
            self._prefixes = PrefixCache(self._prefixes.max_tokens)

    def _check(
        self, prompt: Ints, temperature: float, top_p: float, max_tokens: int | None, stop: Sequence[str]
    ) -> None:
        if len(prompt) >= self.positions:
            raise PromptTooLong(f"a prompt of {len(prompt)} tokens is too long for the model's {self.positions}")
        vocabulary = self._model.config.vocab_size
        if not len(prompt) or prompt.min() < 0 or prompt.max() >= vocabulary:
            raise ValueError(f"a prompt is at least one token id from 0 to {vocabulary - 1}")
        if not (0 <= temperature < float("inf") and 0 < top_p <= 1 and (max_tokens is None or max_tokens >= 1)):
            raise ValueError(f"{temperature=}, {top_p=} or {max_tokens=} is out of range")
        if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
            raise ValueError(f"stop is a list of non-empty strings, not {stop!r}")

    def _work(self) -> None:
        blas = ThreadpoolController().select(user_api="blas")
        while True:
            with self._wake:
                while not (self._waiting or self._running):
                    self._wake.wait()
            with blas.limit(limits=1):
                while self._waiting or self._running:
                    self._iterate()

    def _iterate(self) -> None:
        self._drop_cancelled()
        while self._waiting and len(self._running) < self._slots:
            self._admit(self._waiting.popleft())
        if self._running:
            self._step()

    def _admit(self, request: _Request) -> None:
        """Give the request the next slot, compute its prompt there and draw its first token."""
        if request.future.cancelled():
            return
        slot = len(self._running)
        try:
            known = self._reuse(slot, request.prompt)
            logits = self._model.prefill(self._cache, slot, request.prompt[known:].tolist(), known)
            tokens, logprobs = sample(logits[None], [request.sampler])
        except Exception as error:  # a worker that died of it would leave all other callers waiting for ever
            _settle(request.future, error)
            return
        self.prefilled += len(request.prompt) - known
        self._running.append(request)
        self._advance([request], tokens.tolist(), logprobs.tolist())

    def _reuse(self, slot: int, prompt: Ints) -> int:
        """Fill the slot with the longest cached prefix of the prompt, short of its last token; its length."""
        known, cached = self._prefixes.longest(prompt)
        lengths = [common_prefix(request.sequence(), prompt) for request in self._running]
        source = max(range(len(lengths)), key=lengths.__getitem__, default=None)
        limit = len(prompt) - 1
        self._cache.reserve(slot + 1, len(prompt))
        if source is not None and lengths[source] >= known:
            known = min(lengths[source], limit)
            self._cache.copy(source, slot, known)
        elif cached is not None:
            known = min(known, limit)
            self._cache.restore(slot, cached.snapshot, known)
        return known

    def _step(self) -> None:
        """One more token for every running request."""
        running = list(self._running)
        try:
            last = np.array([request.tokens[-1] for request in running])
            logits = self._model.step(self._cache, last, np.array([request.cached for request in running]))
            tokens, logprobs = sample(logits, [request.sampler for request in running])
        except Exception as error:  # as in `_admit`; it may be of any of them, so it goes to all
            self._running.clear()
            for request in running:
                _settle(request.future, error)
            return
        self._advance(running, tokens.tolist(), logprobs.tolist())

    def _advance(self, requests: Sequence[_Request], tokens: list[int], logprobs: list[float]) -> None:
        for request, token, logprob in zip(requests, tokens, logprobs, strict=True):
            request.tokens.append(token)
            request.logprobs.append(logprob)
            if request.on_token:
                request.on_token(token, logprob)
        # Only now: who leaves has another moved into its slot, with all that the step has written of it.
        for request in requests:
            completion = self._finished(request)
            if completion is not None:
                self._leave(request)
                _settle(request.future, completion)

    def _finished(self, request: _Request) -> Completion | None:
        tokens = request.tokens
        ended = tokens[-1] in self._tokenizer.special_ids
        stopped = bool(request.stop) and self._has_stop(request)
        if not (ended or stopped or len(tokens) >= request.max_tokens):
            return None
        text = self._tokenizer.decode(tokens)
        cuts = [cut for cut in map(text.find, request.stop) if cut >= 0]
        reason: Literal["stop", "length"] = "stop" if ended or stopped else "length"
        return Completion(tokens, request.logprobs, text[: min(cuts, default=len(text))], reason)

    def _has_stop(self, request: _Request) -> bool:
        """Whether a stop string ends in the last token. Every token is a byte or more, which bounds where it began."""
        longest = max(len(text.encode()) for text in request.stop)
        tail = self._tokenizer.decode(request.tokens[-longest - 3 :])  # 3: not to begin inside a character of it
        return any(text in tail for text in request.stop)

    def _drop_cancelled(self) -> None:
        for request in [request for request in self._running if request.future.cancelled()]:
            self._leave(request)

    def _leave(self, request: _Request) -> None:
        """Free the request's slot, which the last one takes, and remember its sequence."""
        slot = self._running.index(request)
        self._prefixes.add(CachedSequence(request.sequence(), self._cache.snapshot(slot, request.cached)))
        last = self._running.pop()
        if last is not request:
            self._cache.copy(len(self._running), slot, last.cached)
            self._running[slot] = last


def _settle(future: Future[Completion], outcome: Completion | Exception) -> None:
    """Answer, unless the caller has cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Completion):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
