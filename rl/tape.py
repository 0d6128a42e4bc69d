"""What a rollout asked, and what it was told: kept, so that nothing has to be asked twice.

    {"rollout": "train-7/3", "kind": "tool", "request": "9f3c...", "answer": {...}}    in tapes/000012-train.jsonl

A rollout is a function of its task and of the answers that it gets: from the policy, other models, tools, a judge. They
are kept as they come. A rollout whose process was killed is run again from its beginning and is told what it was told
before, until it asks something new (event sourcing, as engines of durable workflows do it); and a step of long ago can
be run again without a model, a tool or a network.

Requests are told apart by what they ask and not by their order, so that nodes may run side by side. What is asked twice
has two answers, which are told in the order in which they came.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from zlib import compress, decompress

import numpy as np
from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration
from pydantic import BaseModel, ValidationError

from agentflow.evals.episode import append
from agentflow.graph.context import Sampling
from agentflow.rl.policy import IDS, Generate, TokenReply
from agentflow.tools.result import ToolResult
from agentflow.tools.run import Run, interposed

Kind = Literal["policy", "model", "tool", "reward", "end"]
Answer = dict[str, Any]


class Told(BaseModel):
    """One answer, a line of the file."""

    rollout: str
    kind: Kind
    request: str
    answer: Answer


class TapeEnded(RuntimeError):
    """A rollout that is played back asks what it did not ask when it was recorded."""


class Tape:
    """The answers that one rollout has got."""

    def __init__(self, rollout: str, told: Iterable[Told] = (), keep: Callable[[Told], None] | None = None) -> None:
        """`told` is what is known already; `keep` takes what comes anew, None: nothing new may be asked."""
        self.rollout = rollout
        self._told, self._keep = list(told), keep
        self.missing = ""
        """The first request that had no answer, where nothing new may be asked."""
        self.rewind()

    @property
    def turns(self) -> int:
        """How often the policy answered."""
        return sum(told.kind == "policy" for told in self._told)

    def rewind(self) -> None:
        """The rollout begins again."""
        self._waiting: dict[tuple[Kind, str], deque[Answer]] = defaultdict(deque)
        for one in self._told:
            self._waiting[one.kind, one.request].append(one.answer)

    def ended(self, fate: str, reward: float) -> None:
        """Keeps how the rollout ended."""
        self.add("end", "", {"fate": fate, "reward": reward})

    @property
    def end(self) -> Answer | None:
        """How the rollout ended, if it did."""
        return next((one.answer for one in self._told if one.kind == "end"), None)

    def known(self, kind: Kind, request: object) -> Answer | None:
        """The next answer to a request, if there is one. Raises TapeEnded where there has to be one."""
        waiting = self._waiting[kind, digest(request)]
        if not waiting and self._keep is None:
            self.missing = self.missing or f"a request to the {kind} that was not made before"
            raise TapeEnded(self.missing)
        return waiting.popleft() if waiting else None

    def add(self, kind: Kind, request: object, answer: Answer) -> None:
        """Keeps a new answer."""
        self._record(Told(rollout=self.rollout, kind=kind, request=digest(request), answer=answer))

    def _record(self, told: Told) -> None:
        self._told.append(told)
        if self._keep:
            self._keep(told)

    async def answer(self, kind: Kind, request: object, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What was told, or what `ask` tells now. Raises TapeEnded as `known` does, and what `ask` raises."""
        known = self.known(kind, request)
        if known is None:
            known = await ask()
            self.add(kind, request, known)
        return known

    async def tool(self, name: str, arguments: dict[str, Any], call: Run) -> ToolResult:
        """Of a tool's call (`agentflow.tools.run.Interposed`)."""

        async def ask() -> Answer:
            return (await call()).model_dump(mode="json")

        return ToolResult.model_validate(await self.answer("tool", [name, arguments], ask))


class Tapes:
    """The tapes of one step, in a file that several processes may add to."""

    def __init__(self, path: Path, *, live: bool = True) -> None:
        """Reads what is there; `live`: what is not there may be asked, and is added."""
        self._path, self._live = path, live
        self._told: dict[str, list[Told]] = defaultdict(list)
        for line in path.read_bytes().split(b"\n") if path.exists() else ():
            try:
                told = Told.model_validate_json(line)
            except ValidationError:
                continue  # torn by a kill; it is asked again
            self._told[told.rollout].append(told)

    def __iter__(self) -> Iterator[Told]:
        """Every answer, rollout by rollout."""
        return chain.from_iterable(self._told.values())

    @property
    def rollouts(self) -> list[str]:
        """Names of the rollouts that ended."""
        return sorted(name for name, told in self._told.items() if told[-1].kind == "end")

    def of(self, rollout: str) -> Tape:
        """The tape of a rollout."""
        return Tape(rollout, self._told[rollout], self._keep if self._live else None)

    def _keep(self, told: Told) -> None:
        append(self._path, told)


_playing: ContextVar[Tape | None] = ContextVar("agentflow tape", default=None)


@contextmanager
def playing(tape: Tape) -> Iterator[None]:
    """Within the block, and in all that a graph starts in it, models, tools and the reward answer through `tape`."""
    with _models_on_tape():
        token, calls = _playing.set(tape), interposed.set(tape.tool)
        try:
            yield
        finally:
            interposed.reset(calls)
            _playing.reset(token)


async def answered(kind: Kind, request: object, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """What the tape that is playing tells, or else `ask`."""
    tape = _playing.get()
    return await ask() if tape is None else await tape.answer(kind, request, ask)


class _Models(BaseCache):
    """Puts the calls of every LangChain model through the tape that is playing: the place where LangChain looks for an
    answer before it asks. Calls outside of a rollout go to the cache that the process had before."""

    def __init__(self, before: BaseCache | None) -> None:
        self.before = before
        self.playing = 0
        """Number of rollouts under way."""

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        tape = _playing.get()
        if tape is None:
            return self.before.lookup(prompt, llm_string) if self.before else None
        known = tape.known("model", [prompt, llm_string])
        return None if known is None else [ChatGeneration(message=AIMessage.model_validate(known))]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        tape = _playing.get()
        if tape is None:
            if self.before:
                self.before.update(prompt, llm_string, return_val)
            return
        message = return_val[0].message if isinstance(return_val[0], ChatGeneration) else None
        if isinstance(message, AIMessage):
            said = message.model_dump(mode="json", exclude={"id"}, exclude_defaults=True)
            said["response_metadata"] = {
                name: value for name, value in message.response_metadata.items() if name not in IDS
            }
            tape.add("model", [prompt, llm_string], {"content": "", **said})

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        self.update(prompt, llm_string, return_val)

    def clear(self, **kwargs: Any) -> None:
        """Clears the cache that the process had before; tapes are kept."""
        if self.before:
            self.before.clear(**kwargs)


@contextmanager
def _models_on_tape() -> Iterator[None]:
    """LangChain's global cache is ours within the block, and what it was before after the last block that is open."""
    cache = get_llm_cache()
    if not isinstance(cache, _Models):
        cache = _Models(cache)
        set_llm_cache(cache)
    cache.playing += 1
    try:
        yield
    finally:
        cache.playing -= 1
        if cache.playing == 0 and get_llm_cache() is cache:
            set_llm_cache(cache.before)


def policy_request(messages: Sequence[tuple[str, str]], sampling: Sampling) -> object:
    """What the policy is asked, as far as it is the caller's."""
    return [list(messages), sampling.max_tokens, sampling.stop]


def taped(generate: Generate) -> Generate:
    """The policy, through the tape that is playing."""

    async def tell(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
        async def ask() -> Answer:
            return as_answer(await generate(messages, sampling))

        return as_reply(await answered("policy", policy_request(messages, sampling), ask))

    return tell


def as_answer(reply: TokenReply) -> Answer:
    """The policy's reply as a tape keeps it: about 3 bytes a token of the prompt, 10 a token of the reply."""
    return {
        "text": reply.text,
        "prompt_ids": _packed(reply.prompt_ids, np.uint32),
        "token_ids": _packed(reply.token_ids, np.uint32),
        "logprobs": _packed(reply.logprobs, np.float32),
        "finish_reason": reply.finish_reason,
        "weights_version": reply.weights_version,
    }


def as_reply(answer: Answer) -> TokenReply:
    """The policy's reply that a tape has kept, its log-probabilities to float32, as they are trained with."""
    ids = {name: _unpacked(answer[name], np.uint32) for name in ("prompt_ids", "token_ids")}
    return TokenReply(**{**answer, **ids, "logprobs": _unpacked(answer["logprobs"], np.float32)})


def digest(request: object) -> str:
    """Names a request: 24 hexadecimal digits."""
    text = json.dumps(request, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _packed(values: Sequence[float], kind: type[np.generic]) -> str:
    return b64encode(compress(np.array(values, kind).tobytes(), 1)).decode()


def _unpacked(text: str, kind: type[np.generic]) -> list[Any]:
    found: list[Any] = np.frombuffer(decompress(b64decode(text)), kind).tolist()
    return found
