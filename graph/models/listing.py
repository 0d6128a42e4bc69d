"""The models that an endpoint lists, for the remedy when a model's name is wrong or missing."""

from dataclasses import replace
from functools import lru_cache

import httpx
from pydantic import AliasChoices, AliasPath, BaseModel, Field

from agentflow.graph.models.spec import PROVIDERS, Endpoint, ModelError, misconfigured
from agentflow.tools.untrusted_text import one_line

_TIMEOUT = 3.0
"""Seconds to wait for the list."""

_SHOWN = 8


class _Model(BaseModel):
    id: str
    context_length: int | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "max_model_len", "context_length", "max_context_length", AliasPath("meta", "n_ctx")
        ),
    )


class _Listing(BaseModel):
    data: list[_Model]


def context_lengths(endpoint: Endpoint) -> dict[str, int | None]:
    """Return the context length in tokens of each model that GET base_url/models lists, None where it is not stated.

    Blocks for a few seconds at most. Raises httpx.HTTPError if the endpoint does not answer or answers with an error
    status, and ValueError if the answer is not a list of models.
    """
    headers = {"Authorization": f"Bearer {endpoint.key}"}
    response = httpx.get(f"{endpoint.base_url}/models", headers=headers, timeout=_TIMEOUT)
    listing = _Listing.model_validate_json(response.raise_for_status().content)
    return {model.id: model.context_length for model in listing.data}


def listed(models: list[str]) -> str:
    """Return an endpoint's list of models as a phrase."""
    if not models:
        return "the endpoint offers no models"
    more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
    return f"the endpoint offers {', '.join(one_line(model, 60) for model in models[:_SHOWN])}{more}"


@lru_cache(maxsize=64)
def with_sole_model(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint`, which names no model, with the name of the only model that it lists.

    Raises ModelError if the list cannot be requested, or does not have exactly one model.
    """
    if PROVIDERS[endpoint.provider].needs_key:
        raise misconfigured("no_model", f"{endpoint.provider} needs a model; write {endpoint.provider}:MODEL")
    name_it = f"write {endpoint.provider}:NAME@{endpoint.base_url}"
    try:
        models = list(context_lengths(endpoint))
    except (httpx.HTTPError, ValueError) as error:
        unreachable = isinstance(error, httpx.TransportError)
        raise ModelError(
            f"{endpoint.base_url} does not say which model it serves ({one_line(error, 80)}); is the server running? "
            f"If it is, {name_it}",
            configuration=not unreachable,
            code="model_not_listed",
        ) from error
    if len(models) != 1:
        raise misconfigured("no_model", f"{endpoint.base_url}: no model is named, and {listed(models)}; {name_it}")
    return replace(endpoint, model=models[0])
