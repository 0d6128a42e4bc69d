"""A model behind an OpenAI-compatible server whose replies can be trained on.

vLLM returns the ids of prompt and reply when a request says `return_token_ids`, and log-probabilities as every server
does. They are put where `TokenCollector` reads them, which refuses a server that returns no ids. The spec of
such a model is `traced:vllm:NAME@URL`.
"""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult

from agentflow.graph.context import Sampling
from agentflow.graph.models.endpoint import EndpointModel
from agentflow.graph.models.listing import with_sole_model
from agentflow.graph.models.spec import endpoint_of, parse


class TracedModel(EndpointModel):
    """An endpoint's model that asks for ids and log-probabilities."""

    @property
    def unsupported_forms(self) -> None:
        """Return None: a reply in an enforced form is not a sample of the policy."""
        return

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        return {**payload, "logprobs": True, "extra_body": {"return_token_ids": True}}

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        body = response if isinstance(response, dict) else response.model_dump()
        for generation, choice in zip(result.generations, body["choices"], strict=True):
            if isinstance(generation.message, AIMessage) and choice.get("token_ids") and body.get("prompt_token_ids"):
                content = (choice.get("logprobs") or {}).get("content") or []
                generation.message.response_metadata |= {
                    "prompt_token_ids": body["prompt_token_ids"],
                    "token_ids": choice["token_ids"],
                    "logprobs": [token["logprob"] for token in content],
                    "finish_reason": choice.get("finish_reason"),
                }
        return result


def load(spec: str, sampling: Sampling) -> EndpointModel:
    """Load the model of a server's spec such as `vllm:NAME@http://127.0.0.1:8000/v1`: entry point `traced`.

    Raises ModelError as `load_model` does.
    """
    endpoint = endpoint_of(parse(spec))
    return TracedModel.of(endpoint if endpoint.model else with_sole_model(endpoint), sampling)
