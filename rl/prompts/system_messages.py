"""Replacement of the system messages of a graph's nodes, with no change to the graph.

The public methods of `BaseChatModel` look, at each call, which node it is made in, as they do for the trained policy
(`agentflow.rl.stand_in`). A system message is replaced only if it is the node's default text, so that a method which
calls another one replaces it once. Calls that bypass LangChain's chat models are not seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables.config import RunnableConfig, ensure_config

from agentflow.graph.tracing.observer import Observer
from agentflow.rl.stand_in import WITH_CONFIG, with_observer
from agentflow.rl.threads import inherit_context


@dataclass(frozen=True)
class _Replacing:
    """The replacements of a rollout."""

    observer: Observer
    changes: Mapping[str, tuple[str, str]]
    """Default text and new text by the path of a node."""

    def replaced(self, messages: Sequence[BaseMessage], callbacks: Any) -> list[BaseMessage]:
        """Return the messages of a call with these callbacks, with the new text if its node has one."""
        caller = callbacks.parent_run_id if isinstance(callbacks, BaseCallbackManager) else None
        path = self.observer.path(caller) if caller else None
        default, text = self.changes.get("/".join(path or ()), ("", ""))
        return [
            message.model_copy(update={"content": text})
            if text and isinstance(message, SystemMessage) and message.content == default
            else message
            for message in messages
        ]


_replacing: ContextVar[_Replacing | None] = ContextVar("agentflow system messages", default=None)


def _active() -> bool:
    return _replacing.get() is not None


@contextmanager
def replacing(observer: Observer, changes: Mapping[str, tuple[str, str]]) -> Iterator[None]:
    """Replace system messages in the block, by the path of the node: (default text, new text)."""
    _patch()
    inherit_context(_active)
    token = _replacing.set(_Replacing(observer, changes))
    try:
        yield
    finally:
        _replacing.reset(token)


@cache
def _patch() -> None:
    """Patch the chat models of this process, once."""
    for name in ("generate", "agenerate"):
        setattr(BaseChatModel, name, _with_callbacks(getattr(BaseChatModel, name)))
    for name in WITH_CONFIG:
        setattr(BaseChatModel, name, _with_config(getattr(BaseChatModel, name)))


def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, messages: Any, stop: Any = None, callbacks: Any = None, **kwargs: Any) -> Any:
        if (changes := _replacing.get()) is None:
            return method(self, messages, stop, callbacks, **kwargs)
        seen = with_observer(changes.observer, callbacks)
        return method(self, [changes.replaced(one, seen) for one in messages], stop, seen, **kwargs)

    return called


def _with_config(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if (changes := _replacing.get()) is None:
            return method(self, input, config, **kwargs)
        config = ensure_config(config)
        config["callbacks"] = seen = with_observer(changes.observer, config.get("callbacks"))
        return method(self, changes.replaced(self._convert_input(input).to_messages(), seen), config, **kwargs)

    return called
