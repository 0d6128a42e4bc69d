"""Attributes of a model call, with the names of OpenTelemetry's GenAI conventions, which all sinks use.

OpenTelemetry itself is not imported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages

_ROLES = {"human": "user", "ai": "assistant"}


def request_facts(metadata: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return provider, model and sampling of a request. `params` are LangChain's invocation parameters."""
    most = params.get("max_tokens") or params.get("max_completion_tokens") or metadata.get("ls_max_tokens")
    stop = params.get("stop") or metadata.get("ls_stop")
    model = params.get("model") or params.get("model_name") or metadata.get("ls_model_name")
    return _known(
        {
            "gen_ai.provider.name": metadata.get("ls_provider"),
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": params.get("temperature", metadata.get("ls_temperature")),
            "gen_ai.request.top_p": params.get("top_p"),
            "gen_ai.request.max_tokens": most,
            "gen_ai.request.seed": params.get("seed"),
            "gen_ai.request.stop_sequences": [stop] if isinstance(stop, str) else list(stop or ()) or None,
        }
    )


def reply_facts(replies: Sequence[AIMessage]) -> dict[str, Any]:
    """Return model, token counts and finish reasons of the replies, as reported by the server."""
    # LangChain leaves a reply from its cache without counts: {"total_cost": 0}.
    used = [usage for reply in replies if (usage := reply.usage_metadata) and "input_tokens" in usage]
    reasons = [str(why) for reply in replies if (why := reply.response_metadata.get("finish_reason"))]
    metadata = replies[0].response_metadata if replies else {}
    return _known(
        {
            "gen_ai.response.model": metadata.get("model_name"),
            "gen_ai.response.id": metadata.get("id"),
            "gen_ai.response.finish_reasons": reasons or None,
            "gen_ai.usage.input_tokens": sum(one["input_tokens"] for one in used) if used else None,
            "gen_ai.usage.output_tokens": sum(one["output_tokens"] for one in used) if used else None,
        }
    )


def input_messages(conversations: Sequence[Sequence[BaseMessage]]) -> list[dict[str, Any]]:
    """Return prompts in the conventions' format."""
    return [_message(message) for conversation in conversations for message in conversation]


def output_messages(replies: Sequence[AIMessage]) -> list[dict[str, Any]]:
    """Return replies in the conventions' format."""
    return [
        {**_message(reply), "finish_reason": str(reply.response_metadata.get("finish_reason", ""))} for reply in replies
    ]


def asked_messages(inputs: Any) -> list[dict[str, Any]]:
    """Return the messages in the input of a run; [] if it has none."""
    return input_messages([_messages_in(inputs)])


def answer_messages(outputs: Any) -> list[dict[str, Any]]:
    """Return the answer in the final state of a run: its field `answer`, else its last reply; [] if it has neither."""
    answer = outputs.get("answer") if isinstance(outputs, Mapping) else None
    found = [AIMessage(answer)] if isinstance(answer, str) else _messages_in(outputs)[-1:]
    return output_messages([message for message in found if isinstance(message, AIMessage)])


def _messages_in(state: Any) -> list[BaseMessage]:
    found = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    try:
        return convert_to_messages(found if isinstance(found, list | tuple) else [found] if found else [])
    except (ValueError, TypeError, NotImplementedError, KeyError):
        return []


def _message(message: BaseMessage) -> dict[str, Any]:
    return {"role": _ROLES.get(message.type, message.type), "parts": [*_parts(message)]}


def _parts(message: BaseMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": str(message.text)}
        return
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    if message.text or not calls:
        yield {"type": "text", "content": str(message.text)}
    for call in calls:
        yield {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]}


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
