"""The policy in the place of a graph's own models: it answers every LangChain chat model in a node that learns.

Models may be built at import, in the node or inside a library: the public methods of `BaseChatModel` look, at each
call, whether its node learns. All other calls go to the model itself. A node may replace the callbacks of its graph
with `model.invoke(messages, config={"callbacks": [...]})`, so that nothing sees its calls; the callbacks of the rollout
are added to such calls.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import RunnableConfig, ensure_config

from agentflow.graph.context import Sampling
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import FORM, FORMS
from agentflow.rl.policy.node_paths import Path, learns
from agentflow.rl.policy.policy import Policy, Serving, no_policy, rollout_of_context

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
    caller = callbacks.parent_run_id if isinstance(callbacks, BaseCallbackManager) else None
    if caller is None or served.observer is None or served.generate is no_policy:
        return None
    path = served.observer.path(caller)
    return (caller, path) if path and learns(path, served.nodes) else None


def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, messages: Any, stop: Any = None, callbacks: Any = None, **kwargs: Any) -> Any:
        if (served := _observed()) is None:
            return method(self, messages, stop, callbacks, **kwargs)
        seen = with_observer(served.observer, callbacks)
        answering = _answering(self, served, seen)
        if isinstance(answering, Policy) and (known := kwargs.get("ls_structured_output_format")):
            kwargs[FORM] = known["schema"]  # LangChain takes the former out
        return method(answering, messages, stop, seen, **kwargs)

    return called


def _with_config(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: BaseChatModel, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if (served := _observed()) is None:
            return method(self, input, config, **kwargs)
        config = ensure_config(config)
        config["callbacks"] = seen = with_observer(served.observer, config.get("callbacks"))
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


def _policy_for(model: BaseChatModel) -> Policy:
    """Return the policy with the limits and the callbacks of a model."""
    params = model._get_ls_params()
    sampling = Sampling(max_tokens=params.get("ls_max_tokens"), stop=tuple(params.get("ls_stop") or ()) or None)
    options = {**vars(model), **(getattr(model, "model_kwargs", None) or {})}
    names = (*FORMS, "output_config", "n", "logprobs", "parallel_tool_calls")
    options = {name: options[name] for name in names if options.get(name) is not None}
    known: dict[str, Any] = {"callbacks": model.callbacks, "tags": model.tags, "metadata": model.metadata}
    return Policy(sampling=sampling, options=options, original=model, **known)
