"""Continuous batching of one model for many callers (Orca, OSDI 2022), on a worker thread and helper threads.

Requests join and leave at token boundaries. Each iteration of the worker admits
waiting requests while slots are free, and then computes one token of every running request, in one forward pass per
thread. Of a prompt, only the part after its longest prefix in the cache of a running or an earlier request is computed.

The tokens of a request do not depend on other requests: it has its own random stream, and the model's arithmetic is the
same in any batch (see `model`), so a batch can be split anywhere. The first engine of a model's shape in a process
tests that, and logs a warning if it does not hold.

BLAS is limited to one thread. The products are too small to benefit from more, and BLAS threads that wait for each
other on a busy machine made a prompt ten times slower.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from agentflow.rl.micro.batch_invariance import batch_invariant
from agentflow.rl.micro.kv_cache import Floats, Ints, Snapshot, return_free_memory
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.prefix_cache import CachedSequence, PrefixCache, common_prefix
from agentflow.rl.micro.products import one_blas_thread
from agentflow.rl.micro.sampling import Sampler, sample
from agentflow.rl.micro.tokenizer import MicroTokenizer

_log = logging.getLogger(__name__)

SHARE = 8
"""Minimum number of requests per thread; with fewer, a second thread gave no speed-up."""
IDLE_SECONDS = 60.0
"""Time without a request after which worker and caches end, so that a model which nobody uses frees its memory."""


def usable_cores() -> int:
    """Return how many cores this process may use: Python 3.13's `process_cpu_count`. macOS knows of no affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(4, usable_cores())
"""Default number of threads: one per available core, at most four; more than two have not been measured."""

Drawn = tuple[Ints, Floats]
"""Tokens [n] and their log-probabilities [n]."""


class ContextWindowExceeded(ValueError):
    """The prompt leaves no position for a reply."""


@dataclass(frozen=True)
class Completion:
    """Result of a request. Invariant: token_ids and logprobs have the same length, at least 1."""

    token_ids: list[int]
    """All sampled tokens in order, including the end token and those of a stop string."""
    logprobs: list[float]
    """Log-probability of each token at the request's temperature, without the effect of top_p; at temperature 1 for
    greedy requests (temperature 0)."""
    text: str
    """The reply up to the stop string, without the end token."""
    finish_reason: Literal["stop", "length"]
    """"stop" for a stop string or any special token; "length" if max_tokens or the model's positions are used up."""
    version: int = 0
    """Version of the weights that sampled all of it."""


@dataclass(eq=False)
class _Request:
    """A request and its state. Invariant while it runs: its slot holds the prompt and all tokens but the last."""

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
        """Return the tokens whose keys and values are in the slot."""
        return np.concatenate([self.prompt, np.array(self.tokens[:-1], np.int64)])


class Engine:
    """Inference engine of `model`. Thread-safe; its worker starts with a request, and ends after `IDLE_SECONDS`."""

    def __init__(
        self,
        model: MicroModel,
        tokenizer: MicroTokenizer,
        *,
        slots: int = 64,
        prefix_tokens: int = 65536,
        threads: int = THREADS,
    ) -> None:
        """Serve at most `slots` requests at once; `prefix_tokens` is the size of the prefix cache."""
        self._model, self._version = model, 0
        self._next: tuple[MicroModel, int] | None = None
        """Model, and its version, that takes over once no request is running."""
        self._tokenizer = tokenizer
        self._slots = slots
        self._cache = model.new_cache()
        self._prefixes = PrefixCache(prefix_tokens)
        self._running: list[_Request] = []  # the index is the slot
        self._waiting: deque[_Request] = deque()
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._threads = threads
        self._helpers = ThreadPoolExecutor(threads, "micro-engine-helper")
        self.prefilled = 0
        """Number of prompt tokens computed so far, without those from the cache."""

    @property
    def positions(self) -> int:
        """Maximum number of tokens of a prompt and its reply together."""
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
        """Submit a request; cancelling the future frees its slot.

        Temperature 0 is greedy, and without a seed, each call draws its own. `top_p` is the probability mass of nucleus
        sampling. Without `max_tokens`, the reply is limited by the model's context length; the strings of `stop` end it
        and are not part of it. `on_token` gets each token and its log-probability, on the worker's thread, and must not
        raise.

        Raises ContextWindowExceeded if the prompt fills all positions of the model, and ValueError if it is empty or
        has an unknown token, or a parameter is out of range.
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

    def replace(self, model: MicroModel, version: int = 0) -> None:
        """Replace the model by one of the same shape.

        Running requests end with the model that they began with; others wait for them, and are sampled from `model`.
        """
        with self._wake:
            self._next = model, version

    def _check(
        self, prompt: Ints, temperature: float, top_p: float, max_tokens: int | None, stop: Sequence[str]
    ) -> None:
        if len(prompt) >= self.positions:
            raise ContextWindowExceeded(
                f"a prompt of {len(prompt)} tokens is too long for the model's {self.positions}"
            )
        vocabulary = self._model.config.vocab_size
        if not len(prompt) or prompt.min() < 0 or prompt.max() >= vocabulary:
            raise ValueError(f"a prompt is at least one token id from 0 to {vocabulary - 1}")
        if not (0 <= temperature < float("inf") and 0 < top_p <= 1 and (max_tokens is None or max_tokens >= 1)):
            raise ValueError(f"{temperature=}, {top_p=} or {max_tokens=} is out of range")
        if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
            raise ValueError(f"stop is a list of non-empty strings, not {stop!r}")

    def _work(self) -> None:
        if not batch_invariant(self._model):
            _log.warning(
                "a request in another batch has the same log-probabilities to float32 rounding, not to the bit"
            )
        while True:
            with self._wake:
                if not self._wake.wait_for(lambda: self._waiting, IDLE_SECONDS):
                    self._worker = None
                    self._cache, self._prefixes = self._model.new_cache(), PrefixCache(self._prefixes.max_tokens)
                    break
            with one_blas_thread:
                while self._waiting or self._running:
                    self._iterate()
        return_free_memory()

    def _iterate(self) -> None:
        for request in [request for request in self._running if request.future.cancelled()]:
            self._leave(request)
        with self._wake:
            if self._next is not None and not self._running:
                (self._model, self._version), self._next = self._next, None
                self._prefixes = PrefixCache(self._prefixes.max_tokens)
        while self._next is None and self._waiting and len(self._running) < self._slots:
            self._admit()
        if self._running:
            self._step()

    def _admit(self) -> None:
        """Assign slots to waiting requests, compute their prompts, each on a thread, and draw their first tokens.

        A prompt waits for another one if they share a prefix that is longer than the cached one.
        """
        running, admitted, starts = len(self._running), list[_Request](), list[int]()
        try:
            while self._waiting and len(admitted) < min(self._threads, self._slots - running):
                request = self._waiting.popleft()
                if request.future.cancelled():
                    continue
                prompt = request.prompt
                start, source = self._longest_prefix(prompt)
                if any(common_prefix(other.prompt, prompt[:-1]) > start for other in admitted):
                    self._waiting.appendleft(request)
                    break
                admitted.append(request)
                starts.append(start)
                self._fill(running + len(starts) - 1, source, start, len(prompt))
            drawn = self._on_threads(self._first_token, admitted, range(running, running + len(starts)), starts)
        except Exception as error:  # if the worker died, all other callers would wait forever
            for request in admitted:
                _settle(request.future, error)
            return
        self.prefilled += sum(len(request.prompt) for request in admitted) - sum(starts)
        self._running += admitted
        self._advance(admitted, drawn)

    def _longest_prefix(self, prompt: Ints) -> tuple[int, int | Snapshot | None]:
        """Return the length of the cached prefix, at most all but the last token, and the slot or snapshot with it."""
        known, cached = self._prefixes.longest(prompt)
        source: int | Snapshot | None = cached.snapshot if cached else None
        for slot, request in enumerate(self._running):
            length = common_prefix(request.prompt, prompt)
            if length == len(request.prompt):
                length = common_prefix(request.sequence(), prompt)
            if length > known:
                known, source = length, slot
        return min(known, len(prompt) - 1), source

    def _fill(self, slot: int, source: int | Snapshot | None, known: int, positions: int) -> None:
        """Reserve the slot, and copy the cached prefix of its prompt there."""
        self._cache.reserve(slot + 1, positions)
        if isinstance(source, int):
            self._cache.copy(source, slot, known)
        elif source is not None:
            self._cache.restore(slot, source, known)

    def _first_token(self, request: _Request, slot: int, start: int) -> Drawn:
        logits = self._model.prefill(self._cache, slot, request.prompt[start:].tolist(), start)
        return sample(logits[None], [request.sampler])

    def _step(self) -> None:
        """Draw one token for every running request."""
        running = list(self._running)
        threads = max(1, min(self._threads, len(running) // SHARE))
        cuts = [len(running) * part // threads for part in range(threads + 1)]
        try:
            self._cache.reserve(len(running), max(request.cached for request in running) + 1)
            drawn = self._on_threads(self._next_tokens, [running[a:b] for a, b in pairwise(cuts)], cuts[:-1])
        except Exception as error:  # as in `_admit`; any request may have caused it, so all get it
            self._running.clear()
            for request in running:
                _settle(request.future, error)
            return
        self._advance(running, drawn)

    def _next_tokens(self, requests: Sequence[_Request], first: int) -> Drawn:
        """Draw the next tokens of the requests in slots first..first+n-1."""
        last = np.array([request.tokens[-1] for request in requests])
        cached = np.array([request.cached for request in requests])
        logits = self._model.step(self._cache, last, cached, first)
        return sample(logits, [request.sampler for request in requests])

    def _on_threads(self, compute: Callable[..., Drawn], *arguments: Sequence[Any]) -> list[tuple[int, float]]:
        """Call `compute` in parallel, once for each item of the arguments. Return all drawn tokens in order."""
        apply = self._helpers.map if len(arguments[0]) > 1 else map
        drawn = list(apply(compute, *arguments))
        return [one for tokens, logprobs in drawn for one in zip(tokens.tolist(), logprobs.tolist(), strict=True)]

    def _advance(self, requests: Sequence[_Request], drawn: Sequence[tuple[int, float]]) -> None:
        for request, (token, logprob) in zip(requests, drawn, strict=True):
            request.tokens.append(token)
            request.logprobs.append(logprob)
            if request.on_token:
                request.on_token(token, logprob)
        # Only after all tokens are recorded: a finished request's slot gets the last request, up to its newest token.
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
        return Completion(tokens, request.logprobs, text[: min(cuts, default=len(text))], reason, self._version)

    def _has_stop(self, request: _Request) -> bool:
        """Return whether a stop string ends in the last token.

        Every token has at least one byte, which bounds the number of tokens to decode.
        """
        longest = max(len(text.encode()) for text in request.stop)
        tail = self._tokenizer.decode(request.tokens[-longest - 3 :])  # 3 more, so as not to start inside a character
        return any(text in tail for text in request.stop)

    def _leave(self, request: _Request) -> None:
        """Free the request's slot, move the last request into it, and add the sequence to the prefix cache."""
        slot = self._running.index(request)
        self._prefixes.add(CachedSequence(request.sequence(), self._cache.snapshot(slot, request.cached)))
        last = self._running.pop()
        if last is not request:
            self._cache.copy(len(self._running), slot, last.cached)
            self._running[slot] = last


def _settle(future: Future[Completion], outcome: Completion | Exception) -> None:
    """Set the future's result or exception, unless the caller has cancelled it."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Completion):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
