"""The policy in the place of a graph's own models, with no change to the graph.

While a rollout runs, a call of any LangChain chat model in a node that learns is answered by the policy. Models may be
built at import, in the node or inside a library: the public methods of `BaseChatModel` look, at each call, whether its
node learns. All other calls go to the model itself.

A node may replace the callbacks of its graph (`model.invoke(messages, config={"callbacks": [...]})`), so that nothing
sees its calls; the callbacks of the rollout are added to such calls.
"""

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables.config import RunnableConfig, ensure_config

from agentflow.graph.context import Sampling
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.node_paths import Path, learns
from agentflow.rl.policy import Policy, Serving, no_policy, rollout_of_context

WITH_CONFIG = ("stream", "astream", "stream_events", "astream_events")
"""Methods whose second argument is a config; `generate` and `agenerate`, which the others call, take callbacks."""


@cache
def stand_in() -> None:
    """Patch the chat models of this process, once."""
    for name in ("generate", "agenerate"):
        setattr(BaseChatModel, name, _with_callbacks(getattr(BaseChatModel, name)))
    for name in WITH_CONFIG:
        setattr(BaseChatModel, name, _with_config(getattr(BaseChatModel, name)))


def learning_path(served: Serving, callbacks: Any) -> tuple[UUID, Path] | None:
    """Return the caller and the path of a call with these callbacks; None if it is in no node that learns."""
    found = _place(served, callbacks)
    return found if found and served.generate is not no_policy and learns(found[1], served.nodes) else None


def _place(served: Serving, callbacks: Any) -> tuple[UUID, Path] | None:
    """Return the caller and the path of a call with these callbacks; None if it is in no node."""
    caller = callbacks.parent_run_id if isinstance(callbacks, BaseCallbackManager) else None
    path = served.observer.path(caller) if caller and served.observer else None
    return (caller, path) if caller and path else None


def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, messages: Any, stop: Any = None, callbacks: Any = None, **kwargs: Any) -> Any:
        if (served := _observed()) is None:
            return method(self, messages, stop, callbacks, **kwargs)
        seen = with_observer(served.observer, callbacks)
        messages = [_revised(one, served, seen) for one in messages] if served.systems else messages
        return method(_answering(self, served, seen), messages, stop, seen, **kwargs)

    return called


def _with_config(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if (served := _observed()) is None:
            return method(self, input, config, **kwargs)
        config = ensure_config(config)
        config["callbacks"] = seen = with_observer(served.observer, config.get("callbacks"))
        if served.systems:
            input = _revised(self._convert_input(input).to_messages(), served, seen)
        return method(_answering(self, served, seen), input, config, **kwargs)

    return called


def _observed() -> Serving | None:
    """Return the rollout of the context, if its calls are recorded."""
    served = rollout_of_context()
    return served if served and served.observer else None


def with_observer(observer: Observer | None, callbacks: Any) -> Any:
    """Return callbacks that the rollout's observer is among: those given, or those of the node with them added."""
    if isinstance(callbacks, BaseCallbackManager) and observer in callbacks.handlers:
        return callbacks
    of_node = ensure_config().get("callbacks")
    if not isinstance(of_node, BaseCallbackManager) or observer not in of_node.handlers:
        return callbacks
    merged = of_node.copy()
    for handler in callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or ():
        merged.add_handler(handler)
    return merged


def _answering(model: BaseChatModel, served: Serving, callbacks: Any) -> BaseChatModel:
    """Return the policy for a call in a node that learns, else the model itself."""
    return model if isinstance(model, Policy) or not learning_path(served, callbacks) else _policy_for(model)


def _revised(messages: Sequence[BaseMessage], served: Serving, callbacks: Any) -> list[BaseMessage]:
    """Return the messages of a call with its node's other system message, if it has one, for the default text.

    A method that calls another one finds the default text no more, and changes nothing.
    """
    place = _place(served, callbacks)
    default, text = served.systems.get("/".join(place[1]) if place else "", ("", ""))
    return [
        message.model_copy(update={"content": text})
        if text and isinstance(message, SystemMessage) and message.content == default
        else message
        for message in messages
    ]


def _policy_for(model: BaseChatModel) -> Policy:
    """Return the policy with the limits and the callbacks of a model."""
    params = model._get_ls_params()
    sampling = Sampling(max_tokens=params.get("ls_max_tokens"), stop=tuple(params.get("ls_stop") or ()) or None)
    return Policy(sampling=sampling, callbacks=model.callbacks, tags=model.tags, metadata=model.metadata)
