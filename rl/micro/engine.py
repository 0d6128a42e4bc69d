"""Continuous batching of one model for many callers (Orca, OSDI 2022), on a worker thread and some that help it.

Requests join and leave at token boundaries: each iteration of the worker admits what waits, as long as there are slots,
and then computes one token of every running request, in one forward pass for each thread. A request's prompt is
computed only beyond its longest prefix that a running or an earlier request has in its cache.

The tokens of a request do not depend on the others: it has its own random stream, and the model's arithmetic is the
same in any batch (see `model`), so that a batch can be cut anywhere. The first engine of a model's shape in a process
tries that, and warns if it is not so.

BLAS has no threads of its own. The products are too small to gain from more, and BLAS threads that wait for each other
on a busy machine made a prompt ten times slower.
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
from agentflow.rl.micro.kv_cache import Floats, Ints, Snapshot
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.prefix_cache import CachedSequence, PrefixCache, common_prefix
from agentflow.rl.micro.products import one_blas_thread
from agentflow.rl.micro.sampling import Sampler, sample
from agentflow.rl.micro.tokenizer import MicroTokenizer

_log = logging.getLogger(__name__)

SHARE = 8
"""Requests that are worth a thread: with fewer, a second one saved nothing."""
THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
"""One for each core that this process may use, and no more than four: beyond two it was never measured."""

Drawn = tuple[Ints, Floats]
"""Tokens [n] and their log-probabilities [n]."""


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
        self,
        model: MicroModel,
        tokenizer: MicroTokenizer,
        *,
        slots: int = 64,
        prefix_tokens: int = 65536,
        threads: int = THREADS,
    ) -> None:
        """`slots`: requests that run at once, others wait; `prefix_tokens`: bound of the cache of prefixes; `threads`:
        how many compute."""
        self._model = model
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
        if not batch_invariant(self._model):
            _log.warning(
                "a request in another batch has the same log-probabilities to float32 rounding, not to the bit"
            )
        while True:
            with self._wake:
                while not (self._waiting or self._running):
                    self._wake.wait()
            with one_blas_thread():
                while self._waiting or self._running:
                    self._iterate()

    def _iterate(self) -> None:
        self._drop_cancelled()
        while self._waiting and len(self._running) < self._slots:
            self._admit()
        if self._running:
            self._step()

    def _admit(self) -> None:
        """Give requests the next slots, compute their prompts there, each on a thread, and draw their first tokens.

        A prompt waits for another one that begins like it, beyond what is cached.
        """
        running, admitted, starts = len(self._running), list[_Request](), list[int]()
        try:
            while self._waiting and len(admitted) < min(self._threads, self._slots - running):
                prompt = self._waiting[0].prompt
                start, source = self._longest_prefix(prompt)
                if any(common_prefix(other.prompt, prompt[:-1]) > start for other in admitted):
                    break
                request = self._waiting.popleft()
                if not request.future.cancelled():
                    admitted.append(request)
                    starts.append(start)
                    self._fill(running + len(starts) - 1, source, start, len(prompt))
            drawn = self._on_threads(self._first_token, admitted, range(running, running + len(starts)), starts)
        except Exception as error:  # a worker that died of it would leave all other callers waiting for ever
            for request in admitted:
                _settle(request.future, error)
            return
        self.prefilled += sum(len(request.prompt) for request in admitted) - sum(starts)
        self._running += admitted
        self._advance(admitted, drawn)

    def _longest_prefix(self, prompt: Ints) -> tuple[int, int | Snapshot | None]:
        """How many tokens of the prompt, short of its last, are cached, and the slot or snapshot that has them."""
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
        """Make room in the slot, and put the known tokens of its prompt there."""
        self._cache.reserve(slot + 1, positions)
        if isinstance(source, int):
            self._cache.copy(source, slot, known)
        elif source is not None:
            self._cache.restore(slot, source, known)

    def _first_token(self, request: _Request, slot: int, start: int) -> Drawn:
        logits = self._model.prefill(self._cache, slot, request.prompt[start:].tolist(), start)
        return sample(logits[None], [request.sampler])

    def _step(self) -> None:
        """One more token for every running request."""
        running = list(self._running)
        threads = max(1, min(self._threads, len(running) // SHARE))
        cuts = [len(running) * part // threads for part in range(threads + 1)]
        try:
            self._cache.reserve(len(running), max(request.cached for request in running) + 1)
            drawn = self._on_threads(self._next_tokens, [running[a:b] for a, b in pairwise(cuts)], cuts[:-1])
        except Exception as error:  # as in `_admit`; it may be of any of them, so it goes to all
            self._running.clear()
            for request in running:
                _settle(request.future, error)
            return
        self._advance(running, drawn)

    def _next_tokens(self, requests: Sequence[_Request], first: int) -> Drawn:
        """Those of the requests in slots first..first+n-1."""
        last = np.array([request.tokens[-1] for request in requests])
        cached = np.array([request.cached for request in requests])
        logits = self._model.step(self._cache, last, cached, first)
        return sample(logits, [request.sampler for request in requests])

    def _on_threads(self, compute: Callable[..., Drawn], *arguments: Sequence[Any]) -> list[tuple[int, float]]:
        """Call `compute` once for each item of the arguments, together; all that is drawn, in order."""
        apply = self._helpers.map if len(arguments[0]) > 1 else map
        drawn = list(apply(compute, *arguments))
        return [one for tokens, logprobs in drawn for one in zip(tokens.tolist(), logprobs.tolist(), strict=True)]

    def _advance(self, requests: Sequence[_Request], drawn: Sequence[tuple[int, float]]) -> None:
        for request, (token, logprob) in zip(requests, drawn, strict=True):
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
