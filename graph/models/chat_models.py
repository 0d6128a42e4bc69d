"""Chat models of LangChain: an instance, or `provider:model` of any provider that `init_chat_model` knows.

A model has its own client, retries and errors. What differs between the classes is the name of a sampling parameter,
which is a field or the alias of one, and that some have no such parameter.
"""

import logging
from difflib import get_close_matches
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agentflow.graph.context import Sampling
from agentflow.graph.models.providers import installed
from agentflow.graph.models.spec import PROVIDERS, ModelError, ModelSpec, misconfigured
from agentflow.tools.untrusted_text import one_line

_log = logging.getLogger(__name__)


MAKERS = {"gpt-": "openai", "claude-": "anthropic", "gemini-": "google_genai", "qwen": "dashscope"}
"""The provider of models that people name without one, by how their names begin."""


def initialised(spec: ModelSpec, sampling: Sampling) -> BaseChatModel:
    """Return the chat model that LangChain's `init_chat_model` makes for `spec`, with `sampling`.

    Raises ModelError if LangChain does not know the provider, the provider's package is not installed, or the model
    cannot be made, such as without a key.
    """
    from langchain.chat_models import init_chat_model

    if not spec.model:
        raise _unknown(spec)
    name = one_line(f"{spec.provider}:{spec.model}", 200)
    address: dict[str, Any] = {"base_url": spec.base_url} if spec.base_url else {}
    try:
        model = init_chat_model(spec.model, model_provider=spec.provider, **address)
    except ImportError as error:
        raise misconfigured("not_installed", f"{name} needs a package: {one_line(error, 200)}") from error
    except Exception as error:
        # A provider's package reads the user's settings, and may raise any exception.
        if "Supported model providers" in str(error):
            raise _unknown(spec) from error
        reason = f"{type(error).__name__}: {one_line(error, 300)}"
        raise misconfigured("not_loaded", f"{name} cannot be made ({reason}); set what it asks for") from error
    if not spec.base_url and (variable := _missing_key(model)):
        raise misconfigured("no_key", f"{name} needs an API key; set the environment variable {variable}")
    return with_sampling(model, sampling)


def _missing_key(model: BaseChatModel) -> str:
    """Return the variable of a key that the model's class reads from the environment and has found empty, else "".

    A class that makes models without a key, as Anthropic's does, fails at the first call, and without a network with an
    error about the connection. A field that is None is another way to authenticate.
    """
    for field, variable in model.lc_secrets.items():
        key = getattr(model, field, None)
        if isinstance(key, SecretStr) and not key.get_secret_value():
            return variable
    return ""


def with_sampling(model: BaseChatModel, sampling: Sampling) -> BaseChatModel:
    """Return a copy of `model` with the parameters of `sampling` that are set; the model itself if none is.

    A parameter that the model's class does not have is left out, with a warning.
    """
    wanted = sampling.model_dump(exclude_none=True)
    if not wanted:
        return model
    fields = {alias: name for name, field in type(model).model_fields.items() for alias in (field.alias, name) if alias}
    for parameter in wanted.keys() - fields.keys():
        _log.warning("%s takes no %s: it is left out", type(model).__name__, parameter)
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()}  # stop
    return model.model_copy(update={fields[key]: value for key, value in plain.items() if key in fields})


def _unknown(spec: ModelSpec) -> ModelError:
    ours = ", ".join([*installed(), *PROVIDERS])
    meant = get_close_matches(spec.provider, [*installed(), *PROVIDERS], n=1)
    meant = meant or [f"{maker}:{spec.provider}" for start, maker in MAKERS.items() if spec.provider.startswith(start)]
    nearest = f" (did you mean {one_line(meant[0], 80)}?)" if meant else ""
    return misconfigured(
        "unknown_provider",
        f"there is no model provider '{one_line(spec.provider, 60)}'{nearest}; write provider:model, where provider is "
        f"one of {ours}, or one that LangChain's init_chat_model knows, such as anthropic",
    )
