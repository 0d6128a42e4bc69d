"""Embeddings by name, in the form of `spec` for chat models, from any server with OpenAI's embeddings API."""

from functools import lru_cache

from langchain_core.embeddings import Embeddings

from agentflow.graph.models.spec import PROVIDERS, Endpoint, ModelError, endpoint_of, parse


def load_embeddings(spec: str) -> Embeddings:
    """Return the embeddings that `spec` names. Sends no request. Raises ModelError (configuration)."""
    parsed = parse(spec)
    if parsed.provider not in PROVIDERS or not parsed.model:
        raise ModelError(
            f"'{spec}' names no embeddings; write provider:model or provider:model@URL, where provider is one of "
            f"{', '.join(PROVIDERS)}",
            configuration=True,
            code="unknown_embeddings",
        )
    return _from_endpoint(endpoint_of(parsed))


@lru_cache(maxsize=8)
def _from_endpoint(endpoint: Endpoint) -> Embeddings:
    from langchain_openai import OpenAIEmbeddings
    from pydantic import SecretStr

    from agentflow.graph.models.connections import RETRIES, PooledClient

    return OpenAIEmbeddings(
        model=endpoint.model,
        openai_api_base=endpoint.base_url,
        openai_api_key=SecretStr(endpoint.key),
        max_retries=RETRIES,
        check_embedding_ctx_length=False,  # sends texts as they are instead of as another model's tokens
        http_async_client=PooledClient(),
    )
