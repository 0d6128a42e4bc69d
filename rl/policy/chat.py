"""Requests to the policy and its replies: LangChain messages as chat templates take them, and back.

A reply is remembered with the message that it becomes. Where a later conversation contains that message unchanged, the
request carries the ids that were sampled, so that the prompt repeats them exactly instead of a new rendering of the
text (see `agentflow.rl.policy.chat_format`).
"""

import hashlib
import json
from array import array
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, ToolCall, ToolMessage, convert_to_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentflow.graph.context import Sampling
from agentflow.graph.models.reply import UNREADABLE
from agentflow.nodes.reply_parsing import unfence
from agentflow.rl.policy.schemas import fits
from agentflow.tools.coded_error import CodedError
from agentflow.tools.json_codec import object_from_json, to_json

IDS = ("prompt_token_ids", "token_ids", "logprobs")
"""Keys of a reply's metadata that hold its tokens: a list each."""

ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}
"""Roles of chat templates by the type of a LangChain message."""

FORM = "schema_of_form"
"""Option of a call: the schema of a reply as JSON, where LangChain passes it beside the provider's own options."""

FORMS = ("response_json_schema", "response_schema", "response_format", "format", "output_format", "response_mime_type")
"""Options that ask for a reply as JSON, of Gemini, OpenAI, Ollama and Anthropic."""

ANY_OBJECT = "Reply with one JSON object and nothing else."

TemplateMessage = dict[str, Any]
"""A message as chat templates take it: role, content, and tool_calls, tool_call_id, name or reasoning_content."""


class ChatError(CodedError, ValueError):
    """A conversation cannot be written as a prompt; `str()` is one line that says what it holds."""


def digest(request: object) -> str:
    """Identify a request: 24 hexadecimal digits."""
    text = json.dumps(request, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@dataclass(frozen=True)
class ChatRequest:
    """A call of the policy."""

    messages: Sequence[TemplateMessage]
    tools: Sequence[dict[str, Any]] = ()
    """Tools that are offered, in OpenAI's format."""
    tool_choice: str = "auto"
    """auto, required, or the name of the tool that must be called."""
    sampling: Sampling = field(default_factory=Sampling)
    """The caller sets only max_tokens and stop."""
    sampled: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Sampled ids of the messages that are unchanged replies of the policy, by position in `messages`."""
    parallel: bool = True
    """Whether a reply may have several calls. A server enforces that; the policy's first call stands for them."""
    form: str = ""
    """Name of the tool whose arguments are the reply, as JSON text; {} for any object, "" for a reply as it is."""
    original: tuple[BaseChatModel, Sequence[BaseMessage], Mapping[str, Any]] | None = None
    """The model that the policy stands in for, and what it was asked, with its options."""

    @property
    def identity(self) -> object:
        """The part that tells this request from others, as JSON data."""
        tools = [list(self.tools), self.tool_choice] if self.tools else []
        return [list(self.messages), *tools, self.sampling.max_tokens, self.sampling.stop]

    def told(self) -> "ChatRequest":
        """This request for a template without tools: a form is in the prompt. Other tools are left, and refused."""
        if [tool["function"]["name"] for tool in self.tools] != [self.form]:
            return self
        schema = to_json(self.tools[0]["function"]["parameters"])
        messages = with_instruction(self.messages, f"{ANY_OBJECT} Its schema is {schema}")
        return replace(self, messages=messages, tools=(), tool_choice="auto")


@dataclass(frozen=True)
class TokenReply:
    """A reply with the ids that it is made of. Invariant: token_ids and logprobs have the same length."""

    text: str
    """Content of the message, without reasoning and tool calls."""
    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    weights_version: int = 0
    """Training step of the weights that wrote it."""
    tool_calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    unreadable: bool = False
    """True if a tool call could not be parsed, does not fit the tools offered, or is missing or one too many."""


class Generate(Protocol):
    """Serves the current weights of the policy."""

    def __call__(self, request: ChatRequest) -> Awaitable[TokenReply]:
        """Return the reply to a request."""
        ...


class FoundCall(NamedTuple):
    """A call in a reply."""

    name: str
    arguments: str
    """JSON, as the model wrote it; it may be invalid."""


class Conversations:
    """Replies of one rollout, by the message that each became."""

    def __init__(self) -> None:
        self._sampled: dict[str, array[int]] = {}

    def request(self, messages: Sequence[BaseMessage], sampling: Sampling, options: Mapping[str, Any]) -> ChatRequest:
        """Build the request of a model call with the keyword arguments `options`. Raises ChatError."""
        found = [template_message(message) for message in messages]
        sampled = {
            position: self._sampled[key]
            for position, message in enumerate(found)
            if message["role"] == "assistant" and (key := _key(message)) in self._sampled
        }
        if (number := options.get("n") or 1) != 1:
            raise ChatError(
                f"a call asks for {number} replies, and the policy gives one; call it {number} times", code="n"
            )
        if options.get("logprobs"):
            raise ChatError(
                "a call asks for log-probabilities, which the policy does not give; leave logprobs out", code="logprobs"
            )
        tools, choice = _tools(options)
        form = reply_form(options)
        if form is None:
            return ChatRequest(found, tools, choice, sampling, sampled, _parallel(options))
        if not form:
            return ChatRequest(with_instruction(found, ANY_OBJECT), tools, choice, sampling, sampled, form="{}")
        name = str(form["function"]["name"])
        choice = "required" if tools else name
        return ChatRequest(found, [*tools, form], choice, sampling, sampled, _parallel(options), name)

    def remember(self, message: AIMessage, reply: TokenReply) -> None:
        """Remember a reply as `message`."""
        self._sampled[_key(template_message(message))] = array("i", reply.token_ids)


def template_message(message: BaseMessage) -> TemplateMessage:
    """Convert a message. Raises ChatError for a role or a kind of content that templates do not have."""
    role = message.role if isinstance(message, ChatMessage) else ROLES.get(message.type)
    if role is None:
        raise ChatError(
            f"the policy reads messages of {', '.join(ROLES)}, not of '{message.type}'", code="unknown_role"
        )
    if not isinstance(message.content, str):
        blocks = {str(block.get("type")) for block in message.content_blocks}
        if other := blocks - {"text", "reasoning", "tool_call", "tool_call_chunk", "invalid_tool_call"}:
            raise ChatError(f"the policy reads text, and a message holds {', '.join(sorted(other))}", code="not_text")
    found: TemplateMessage = {"role": role, "content": str(message.text)}
    if isinstance(message, AIMessage):
        if message.tool_calls:
            found["tool_calls"] = [_template_call(call) for call in message.tool_calls]
        if reasoning := message.additional_kwargs.get("reasoning_content"):
            found["reasoning_content"] = str(reasoning)
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    if message.name:
        found["name"] = message.name
    return found


def reply_form(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the reply as JSON that a call asks for, as a tool; {} if any object will do, and None for a reply as text.

    A server enforces the schema as it samples, and does not show it to the model. The policy is not held to it, so it
    has to know it. Raises ChatError.
    """
    config = options.get("output_config")
    asked = [config.get("format") if isinstance(config, dict) else None, *map(options.get, FORMS)]
    given = next((one for one in asked if one and one != {"type": "text"}), "text/plain")
    schema = given if given == "text/plain" else options.get(FORM) or given
    if isinstance(schema, str) or schema == {"type": "json_object"}:
        return None if schema == "text/plain" else {}
    if isinstance(schema, dict) and schema.get("type") != "function":
        named = schema.get("json_schema") or {}
        schema = named.get("schema") or schema.get("schema") or schema
        schema = {"title": named.get("name") or "Reply", "description": "The reply.", **schema}
    return _described(schema)


def with_instruction(messages: Sequence[TemplateMessage], text: str) -> list[TemplateMessage]:
    """Return the messages with an instruction at the end of the first one, where later calls have it too."""
    first, *others = messages
    return [{**first, "content": f"{first['content']}\n\n{text}"}, *others]


def in_form(reply: TokenReply, request: ChatRequest) -> TokenReply:
    """Return a reply in the place of a server's: its arguments of the call `form`, or an object of it, as text.

    A server would have enforced the schema; here, a reply that does not fit it is the policy's failure.
    """
    form, offered = request.form, {tool["function"]["name"]: tool["function"] for tool in request.tools}
    schema: dict[str, Any] = offered.get(form, {}).get("parameters") or {}
    called = next((call["args"] for call in reply.tool_calls if call["name"] == form), None)
    if called is None and reply.tool_calls:
        return reply
    found = object_from_json(unfence(reply.text.strip())) if called is None else called
    if found is None:
        return replace(reply, unreadable=True)
    return replace(reply, text=to_json(found), tool_calls=(), unreadable=not fits(found, schema))


def as_chat_result(reply: TokenReply, model_name: str) -> ChatResult:
    """Return a reply as LangChain passes it on, with its ids where `TokenCollector` reads them."""
    message = AIMessage(
        content=reply.text,
        tool_calls=list(reply.tool_calls),
        usage_metadata=UsageMetadata(
            input_tokens=len(reply.prompt_ids),
            output_tokens=len(reply.token_ids),
            total_tokens=len(reply.prompt_ids) + len(reply.token_ids),
        ),
        response_metadata={
            "model_name": model_name,
            "finish_reason": reply.finish_reason,
            "prompt_token_ids": reply.prompt_ids,
            "token_ids": reply.token_ids,
            "logprobs": reply.logprobs,
            "weights_version": reply.weights_version,
        },
    )
    if reply.reasoning:
        message.additional_kwargs["reasoning_content"] = reply.reasoning
    if reply.unreadable:
        message.response_metadata[UNREADABLE] = True
    return ChatResult(generations=[ChatGeneration(message=message)])


def offered(model: BaseChatModel, request: ChatRequest) -> dict[str, Any]:
    """Return the options by which a model is offered the tools of a request."""
    if not request.tools:
        return {}
    choice = {} if request.tool_choice == "auto" else {"tool_choice": request.tool_choice}
    bound: Any = model.bind_tools(list(request.tools), **choice)
    return dict(bound.kwargs)


def as_messages(request: ChatRequest) -> list[BaseMessage]:
    """Return the messages of a request as LangChain has them."""
    found = []
    for message in request.messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
            for call in message.get("tool_calls", ())
        ]
        found.append({**message, "tool_calls": calls} if calls else message)
    return convert_to_messages(found)


def _tools(options: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the offered tools in OpenAI's format, and the choice among them, of any provider's `bind_tools`."""
    tools = [_described(tool) for tool in options.get("tools") or ()]
    if server := next((tool for tool in tools if tool.get("type") != "function"), None):
        raise ChatError(
            f"'{server.get('type')}' is a tool that its provider runs, which the policy cannot call",
            code="provider_tool",
        )
    choice = options.get("tool_choice")
    if isinstance(choice, dict):
        choice = (choice.get("function") or choice).get("name") or choice.get("type")
    if choice in ("none", False):
        return [], "auto"
    if choice in ("any", "required", True):
        return tools, "required"
    return tools, next((name for tool in tools if (name := str(tool["function"]["name"])) == choice), "auto")


def _parallel(options: Mapping[str, Any]) -> bool:
    """Return whether a reply may have several calls, as OpenAI's and Anthropic's options say."""
    choice = options.get("tool_choice")
    alone = isinstance(choice, dict) and choice.get("disable_parallel_tool_use")
    return options.get("parallel_tool_calls") is not False and not alone


def _described(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ChatError(
            f"a tool cannot be described to the policy ({' '.join(str(error).split())})", code="bad_tool"
        ) from error


def _template_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}}


def _key(message: TemplateMessage) -> str:
    """Identify a reply by what it holds; graphs may add the name of an agent."""
    held = {name: message[name] for name in ("content", "tool_calls", "reasoning_content") if name in message}
    return json.dumps(held, sort_keys=True, default=str)
