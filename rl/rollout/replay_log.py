"""Every external response of a rollout, recorded so that no request is made twice.

    {"rollout": "train-7/3", "kind": "tool", "request": "9f3c...", "answer": {...}}    in replay/000012-train.jsonl

A rollout is a function of its task and of the responses of the policy, other models, tools and a judge. Each response
is appended as it arrives. A rollout whose process was killed runs again from its beginning with the recorded responses
until it makes a new request (event sourcing, as engines of durable workflows do it); and any recorded step can be
replayed without a model, a tool or a network.

Requests are identified by their content, not by their order, so that nodes may run side by side. Repeated requests get
the recorded responses in order.
"""

from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal
from zlib import compress, decompress

import numpy as np
from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration
from pydantic import BaseModel

from agentflow.graph.run.trace import append
from agentflow.rl.policy.chat import IDS, ChatRequest, Generate, TokenReply, digest
from agentflow.tools.json_codec import readable_lines
from agentflow.tools.result import ToolResult
from agentflow.tools.run import Run, interposed

Kind = Literal["policy", "model", "tool", "reward", "end"]
Answer = dict[str, Any]


class Entry(BaseModel):
    """One response, a line of the file."""

    rollout: str
    kind: Kind
    request: str
    """Digest of the request."""
    answer: Answer


class ReplayMismatch(RuntimeError):
    """A replayed rollout makes a request that was not recorded."""


class ReplayLog:
    """The responses of one rollout."""

    def __init__(
        self, rollout: str, entries: Iterable[Entry] = (), keep: Callable[[Entry], None] | None = None
    ) -> None:
        """Begin with the `entries` recorded so far under the rollout's name, which is the same whenever it is run.

        `keep` stores a new entry. None: read-only, new requests raise ReplayMismatch.
        """
        self.rollout = rollout
        self._entries, self._keep = list(entries), keep
        self.missing = ""
        """The first request without a recorded response, of a read-only log."""
        self.rewind()

    @property
    def turns(self) -> int:
        """Number of the policy's responses."""
        return sum(entry.kind == "policy" for entry in self._entries)

    def rewind(self) -> None:
        """Start the rollout again from its beginning."""
        self._waiting: dict[tuple[Kind, str], deque[Answer]] = defaultdict(deque)
        for entry in self._entries:
            self._waiting[entry.kind, entry.request].append(entry.answer)

    def ended(self, status: str, reward: float) -> None:
        """Record how the rollout ended."""
        self.add("end", "", {"status": status, "reward": reward})

    @property
    def end(self) -> Answer | None:
        """Status and reward; None while the rollout is unfinished."""
        return next((entry.answer for entry in self._entries if entry.kind == "end"), None)

    def known(self, kind: Kind, request: object) -> Answer | None:
        """The next recorded response to a request, None for a new request. Raises ReplayMismatch if read-only."""
        waiting = self._waiting[kind, digest(request)]
        if not waiting and self._keep is None:
            self.missing = self.missing or f"a request to the {kind} that was not made before"
            raise ReplayMismatch(self.missing)
        return waiting.popleft() if waiting else None

    def add(self, kind: Kind, request: object, answer: Answer) -> None:
        """Record a new response."""
        entry = Entry(rollout=self.rollout, kind=kind, request=digest(request), answer=answer)
        self._entries.append(entry)
        if self._keep:
            self._keep(entry)

    async def answer(self, kind: Kind, request: object, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The recorded response, else that of `ask`, which is then recorded. Raises ReplayMismatch."""
        known = self.known(kind, request)
        if known is None:
            known = await ask()
            self.add(kind, request, known)
        return known

    async def tool(self, name: str, arguments: dict[str, Any], call: Run) -> ToolResult:
        """The result of a tool call (an `agentflow.tools.run.Interposed`)."""

        async def ask() -> Answer:
            return (await call()).model_dump(mode="json")

        return ToolResult.model_validate(await self.answer("tool", [name, arguments], ask))


class ReplayLogs:
    """The replay logs of one step, in a file that several processes append to."""

    def __init__(self, path: Path, *, live: bool = True) -> None:
        """Read the file. `live`: new responses are appended; else the logs are read-only."""
        self._path, self._live = path, live
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in readable_lines(path, Entry):  # the request of a torn line is made again
            self._entries[entry.rollout].append(entry)

    @property
    def rollouts(self) -> list[str]:
        """Names of the rollouts that ended."""
        return sorted(name for name in self._entries if self.of(name).end)

    def of(self, rollout: str) -> ReplayLog:
        """The replay log of a rollout."""
        return ReplayLog(rollout, self._entries[rollout], self._keep if self._live else None)

    def _keep(self, entry: Entry) -> None:
        append(self._path, entry)


_replaying: ContextVar[ReplayLog | None] = ContextVar("agentflow replay log", default=None)


@contextmanager
def replaying(log: ReplayLog) -> Iterator[None]:
    """Route every model, tool and reward call of the block, and of all tasks started in it, through `log`."""
    with _global_cache():
        token, calls = _replaying.set(log), interposed.set(log.tool)
        try:
            yield
        finally:
            interposed.reset(calls)
            _replaying.reset(token)


async def answered(kind: Kind, request: object, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The response of the current rollout's log; outside of a rollout, that of `ask`."""
    log = _replaying.get()
    return await ask() if log is None else await log.answer(kind, request, ask)


class _Models(BaseCache):
    """Routes the calls of every LangChain model through the current rollout's log, as LangChain's global cache.

    Calls outside of a rollout use the cache that the process had before.
    """

    def __init__(self, before: BaseCache | None) -> None:
        self.before = before
        self.open = 0
        """Number of rollouts under way."""

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        log = _replaying.get()
        if log is None:
            return self.before.lookup(prompt, llm_string) if self.before else None
        known = log.known("model", [prompt, llm_string])
        return None if known is None else [ChatGeneration(message=AIMessage.model_validate(known))]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        log = _replaying.get()
        if log is None:
            if self.before:
                self.before.update(prompt, llm_string, return_val)
            return
        message = return_val[0].message if isinstance(return_val[0], ChatGeneration) else None
        if isinstance(message, AIMessage):
            fields = message.model_dump(mode="json", exclude={"id"}, exclude_defaults=True)
            fields["response_metadata"] = {
                name: value for name, value in message.response_metadata.items() if name not in IDS
            }
            log.add("model", [prompt, llm_string], {"content": "", **fields})

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        self.update(prompt, llm_string, return_val)

    def clear(self, **kwargs: Any) -> None:
        """Clear the cache that the process had before; logs are kept."""
        if self.before:
            self.before.clear(**kwargs)


@contextmanager
def _global_cache() -> Iterator[None]:
    """Install `_Models` as LangChain's global cache, and restore the one before when the last open block ends."""
    cache = get_llm_cache()
    if not isinstance(cache, _Models):
        cache = _Models(cache)
        set_llm_cache(cache)
    cache.open += 1
    try:
        yield
    finally:
        cache.open -= 1
        if cache.open == 0 and get_llm_cache() is cache:
            set_llm_cache(cache.before)


def recorded(generate: Generate) -> Generate:
    """Return `generate`, answered by the current rollout's log where possible."""

    async def through_log(request: ChatRequest) -> TokenReply:
        async def ask() -> Answer:
            return as_answer(await generate(request))

        return as_reply(await answered("policy", request.identity, ask))

    return through_log


def as_answer(reply: TokenReply) -> Answer:
    """A policy reply as JSON data: about 3 bytes per prompt token, 10 per sampled token."""
    return {
        "text": reply.text,
        "prompt_ids": _packed(reply.prompt_ids, np.uint32),
        "token_ids": _packed(reply.token_ids, np.uint32),
        "logprobs": _packed(reply.logprobs, np.float32),
        "finish_reason": reply.finish_reason,
        "weights_version": reply.weights_version,
        **({"tool_calls": list(reply.tool_calls)} if reply.tool_calls else {}),
        **({"reasoning": reply.reasoning} if reply.reasoning else {}),
        **({"unreadable": True} if reply.unreadable else {}),
    }


def as_reply(answer: Answer) -> TokenReply:
    """The policy reply that `as_answer` recorded, its log-probabilities in float32, as training uses them."""
    ids = {name: _unpacked(answer[name], np.uint32) for name in ("prompt_ids", "token_ids")}
    return TokenReply(**{**answer, **ids, "logprobs": _unpacked(answer["logprobs"], np.float32)})


def _packed(values: Sequence[float], kind: type[np.generic]) -> str:
    return b64encode(compress(np.array(values, kind).tobytes(), 1)).decode()


def _unpacked(text: str, kind: type[np.generic]) -> list[Any]:
    found: list[Any] = np.frombuffer(decompress(b64decode(text)), kind).tolist()
    return found
