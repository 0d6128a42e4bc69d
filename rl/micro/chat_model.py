"""LangChain chat model of the micro model: the provider `embedded` of the entry points `agentflow.models`.

All chat models of a checkpoint share one engine, so that concurrent runs are batched. Each reply carries its exact ids
and log-probabilities for training, so that no text is tokenised again.
"""

import asyncio
import hashlib
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from agentflow.graph.context import Sampling
from agentflow.graph.models.providers import knows_only
from agentflow.graph.models.spec import ModelError, misconfigured
from agentflow.nodes.planner import PROMPT
from agentflow.rl.micro.declining import DecliningEngine
from agentflow.rl.micro.engine import Completion, ContextWindowExceeded, Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import ROLES as KNOWN_ROLES
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.policy.chat import ROLES, TokenReply, as_chat_result

SEED, TRAINED = (Path(__file__).with_name(name) for name in ("seed", "trained"))
"""Checkpoints that ship with the package: the seed of all modules, and a planner trained with Flow-GRPO, which declines
sums that it is not sure of."""
CALIBRATION = Path(__file__).with_name("calibration.json")
"""Confidence of their answers to Atlas: `agentflow eval atlas --subset calibration`, then `agentflow calibrate`."""
SHIPPED = {"": SEED, "seed": SEED, "trained": TRAINED}
PLANNER_PROMPT = PROMPT.partition("{tools}")[0]
"""Beginning of the planner's prompt, to which `embedded` replies with the trained planner. The seed gets all others."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint, whose engine all its chat models share."""

    engine: Engine | DecliningEngine
    tokenizer: MicroTokenizer
    fingerprint: str
    """First 16 hexadecimal digits of the SHA-256 of configuration, tokenizer and weights."""
    planner: "Checkpoint | None" = None
    """Checkpoint that replies to the planner's prompt in place of this one."""

    def addressed_by(self, prompt: str) -> "Checkpoint":
        """Return the checkpoint that replies to a conversation which begins with `prompt`."""
        return self.planner if self.planner and prompt.startswith(PLANNER_PROMPT) else self


class EmbeddedChatModel(BaseChatModel):
    """Chat model of a few million parameters that runs in this process.

    `response_metadata` of a reply: prompt_token_ids, token_ids, logprobs (see `engine.Completion`), finish_reason and
    model_name; `usage_metadata` counts the same ids.
    """

    model_name: str = "embedded"
    temperature: float | None = None
    """None means 0, greedy decoding."""
    top_p: float | None = None
    """None means 1, all tokens."""
    max_tokens: int | None = None
    """None means up to the model's context length."""
    stop: list[str] | None = None
    seed: int | None = None
    """None means a random seed for each call."""

    fingerprint: str = ""
    """Fingerprint of the checkpoint."""

    _checkpoint: Checkpoint = PrivateAttr()

    def __init__(self, checkpoint: Checkpoint, **fields: Any) -> None:
        super().__init__(**{"fingerprint": checkpoint.fingerprint, **fields})
        self._checkpoint = checkpoint

    @property
    def _llm_type(self) -> str:
        return "agentflow-micro"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "fingerprint": self.fingerprint, **self._sampling().model_dump()}

    def _get_ls_params(self, *args: Any, **kwargs: Any) -> LangSmithParams:
        return {**super()._get_ls_params(*args, **kwargs), "ls_provider": "embedded"}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt_ids, completion = self._submit(messages, stop, kwargs)
        return self._result(prompt_ids, completion.result())

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt_ids, completion = self._submit(messages, stop, kwargs)
        return self._result(prompt_ids, await asyncio.wrap_future(completion))

    def _read(self, messages: list[BaseMessage]) -> list[tuple[str, str]]:
        unknown = next((message.type for message in messages if ROLES.get(message.type) not in KNOWN_ROLES), None)
        if unknown is not None:
            raise ModelError(
                f"the embedded model reads system, human and ai messages, not '{unknown}'; leave those out",
                configuration=False,
                code="unknown_role",
            )
        return [(ROLES[message.type], str(message.text)) for message in messages]

    def _sampling(self, **overrides: Any) -> Sampling:
        own = {name: getattr(self, name) for name in Sampling.model_fields}
        return Sampling.model_validate({**own, **overrides})

    def _submit(
        self, messages: list[BaseMessage], stop: list[str] | None, overrides: dict[str, Any]
    ) -> tuple[list[int], Future[Completion]]:
        """Return the prompt's ids, and the completion to come."""
        chat = self._read(messages)
        checkpoint = self._checkpoint.addressed_by(chat[0][1] if chat else "")
        prompt_ids = checkpoint.tokenizer.encode_chat(chat)
        if stop is not None:
            overrides = {**overrides, "stop": stop}
        sampling = self._sampling(**overrides)
        try:
            return prompt_ids, checkpoint.engine.submit(
                prompt_ids,
                temperature=sampling.temperature or 0.0,
                top_p=sampling.top_p or 1.0,
                max_tokens=sampling.max_tokens,
                stop=sampling.stop or (),
                seed=sampling.seed,
            )
        except ContextWindowExceeded as error:
            message = f"{error}; lower memory_tokens or max_turns, or use a larger model"
            raise ModelError(message, configuration=False, code="prompt_too_long") from error

    def _result(self, prompt_ids: list[int], completion: Completion) -> ChatResult:
        reply = TokenReply(
            text=completion.text,
            prompt_ids=prompt_ids,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            finish_reason=completion.finish_reason,
        )
        return as_chat_result(reply, self.model_name)


@knows_only("atlas", CALIBRATION)
def load(model: str = "", sampling: Sampling | None = None) -> EmbeddedChatModel:
    """Return a chat model of a checkpoint. Raises ModelError as `checkpoint` does."""
    return EmbeddedChatModel(checkpoint(model), **(sampling or Sampling()).model_dump())


def checkpoint(model: str = "") -> Checkpoint:
    """Load the checkpoint in the directory `model`, or the shipped one of that name; "" is the seed with the trained
    planner. Only the planner that ships declines what it is not sure of; a directory's is as it was trained.

    Raises ModelError (configuration) if there is no valid checkpoint.
    """
    directory = SHIPPED.get(model) or Path(model).expanduser().resolve()
    try:
        version = (directory / "model.safetensors").stat().st_mtime_ns
        with _LOADING:
            engine, tokenizer, fingerprint = _loaded(directory, version)
        serving = DecliningEngine(engine, tokenizer) if model == "trained" else engine
        return Checkpoint(serving, tokenizer, fingerprint, planner=None if model else checkpoint("trained"))
    except OSError as error:
        remedy = "install the package again" if model in SHIPPED else "name the directory of a checkpoint"
        message = f"there is no embedded model in {directory} ({error.strerror or error}); {remedy}"
        raise misconfigured("no_checkpoint", message) from error
    except ValueError as error:
        message = f"the checkpoint in {directory} cannot be used: {error}; make it again"
        raise misconfigured("bad_checkpoint", message) from error


_LOADING = threading.Lock()
"""Ensures that concurrent threads get the same engine for a checkpoint."""


@lru_cache(maxsize=8)
def _loaded(directory: Path, version: int) -> tuple[Engine, MicroTokenizer, str]:
    """Load the engine, the tokenizer and the fingerprint of a checkpoint.

    `version` is part of the cache key, and changes when training rewrites the directory.
    """
    tokenizer = MicroTokenizer.load(directory)
    model = MicroModel.load(directory)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(f"its tokenizer has {tokenizer.vocab_size} tokens, its model {model.config.vocab_size}")
    content = [(directory / name).read_bytes() for name in ("config.json", "tokenizer.json", "model.safetensors")]
    return Engine(model, tokenizer), tokenizer, hashlib.sha256(b"".join(content)).hexdigest()[:16]
