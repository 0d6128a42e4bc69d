"""Prompts and replies of a model by its own chat template and the tool parser of its family.

What was sampled stays what it is. A reply that is rendered again is often not the text that was sampled: blanks in
JSON change, keys change their order. So the ids of an unchanged reply take the place of its rendering, and the prompt
of the next call extends this one's tokens, which lets training pack both into one row. A template that leaves out a
part of a reply, such as the thinking of earlier turns, is obeyed: that reply is rendered, and the row ends there.

Where a reply's rendering lies is found without knowing the template: the conversation is rendered a second time with a
mark in the place of each reply, and both texts are compared.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.messages.tool import tool_call

from agentflow.graph.models.reply import CLOSING, OPENING
from agentflow.rl.policy.borders import Tokenizer, sanitized, sanitized_tools
from agentflow.rl.policy.chat import ChatError, ChatRequest, TemplateMessage, TokenReply, digest
from agentflow.rl.policy.reply_formats import Reader
from agentflow.rl.policy.schemas import takes
from agentflow.rl.policy.tool_parsers import tool_parser

KEPT_SEGMENTS = 256
"""Texts between replies whose ids are kept: instructions and tools are shared by all rollouts of a step."""

SEVERAL = "<|message|>"
THOUGHT = re.compile(
    r"(?:<\|start\|>assistant)?\s{0,4}(?:<\|channel\|>analysis|to=self)<\|message\|>(.*?)(?:<\|end\|>|<\|eom\|>|\Z)",
    re.DOTALL,
)
HEADER = re.compile(
    r"(?:<\|start\|>assistant)?\s{0,4}(?:<\|channel\|>(?:final|commentary)|to=(?!functions\.)[\w.-]{1,200})<\|message\|>"
    r"|<\|end\|>|<\|eom\|>"
)
"""The format of gpt-oss and of Muse, in which a reply is several messages: thoughts, and what begins and ends others.
"""


class ChatFormat:
    """Writer of prompts and reader of replies for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, parser: str = "auto", options: Mapping[str, Any] | None = None) -> None:
        """Take the name of the tool parser (`agentflow.rl.policy.tool_parsers`); "auto" chooses by the template.

        `options` are further arguments of the chat template, such as enable_thinking.
        """
        self.tokenizer, self._options = tokenizer, dict(options or {})
        self._parser = parser
        self._mark = secrets.token_hex(8)
        self._thinks = CLOSING.search(str(tokenizer.chat_template)) is not None
        self._special = frozenset(tokenizer.all_special_ids)
        added = tokenizer.added_tokens_decoder.values()
        self._several = SEVERAL in str(tokenizer.chat_template)
        self._marked = self._several or any(token.special and CLOSING.search(str(token)) for token in added)
        self._encode = lru_cache(maxsize=KEPT_SEGMENTS)(self._encoded)

    @cached_property
    def parser(self) -> Reader:
        """The tool parser. Raises ChatError if there is none of that name, or the template has no tools."""
        return tool_parser(self._parser, self.tokenizer)

    def prompt_ids(self, request: ChatRequest) -> list[int]:
        """Return the ids of a request's prompt, with the replies of the policy as they were sampled.

        Raises ChatError if the template refuses the conversation.
        """
        request = request if "tools" in str(self.tokenizer.chat_template) else request.told()
        if request.tools:
            _ = self.parser  # a template without tools is refused before anything is sampled
        messages = sanitized(request.messages, self.tokenizer, request.sampled)
        rendered = self.render(messages, request)
        ids = list[int]()
        for text, sampled in self._segments(messages, rendered, request):
            following = self._encode(text)
            # The end of a reply is sampled with it, and the template writes it again.
            ids += following[1:] if ids and following[:1] == (ids[-1],) and ids[-1] in self._special else following
            ids += sampled
        return ids

    def reply_ids(self, request: ChatRequest, reply: TemplateMessage) -> list[int]:
        """Return the ids of a reply as the template writes it, with the end token.

        Raises ChatError if the template does not write the reply after the request's prompt.
        """
        messages = sanitized([*request.messages, reply], self.tokenizer, {})
        prompt, whole = self.render(messages[:-1], request), self.render(messages, request, prompt=False)
        if not whole.startswith(prompt):
            raise ChatError(
                "the model's chat template writes a reply otherwise than after its prompt", code="rewritten"
            )
        ids, end = list(self._encoded(whole[len(prompt) :])), self.tokenizer.eos_token_id
        if end is None:
            return ids
        return ids[: ids.index(end) + 1] if end in ids else [*ids, end]

    def reply(
        self, request: ChatRequest, name: str, prompt_ids: list[int], token_ids: list[int], logprobs: list[float]
    ) -> TokenReply:
        """Return what was sampled as a reply. The ids of its tool calls derive from `name`."""
        request = request if "tools" in str(self.tokenizer.chat_template) else request.told()
        ids = list(token_ids)
        # Some families end a call by another token than a message.
        ended = bool(ids) and ids[-1] in self._special
        if ended:
            ids.pop()
        # Some formats of tool calls, and some marks of thoughts, are made of special tokens.
        text = self.tokenizer.decode(ids, skip_special_tokens=not request.tools and not self._marked)
        cuts = [cut for cut in map(text.find, request.sampling.stop or ()) if cut >= 0]
        text, reasoning = text[: min(cuts, default=len(text))], ""
        if self._several:
            reasoning, text = "\n".join(THOUGHT.findall(text)), HEADER.sub("", THOUGHT.sub("", text))
        elif self._thinks and (closed := CLOSING.search(text)):
            opened = OPENING.match(text)
            reasoning = text[opened.end() if opened else 0 : closed.start()].strip("\n")
            text = text[closed.end() :].lstrip("\n")
        found = self.parser(text, request.tools) if request.tools else (text, [])
        content, calls = found or (text, [])
        content = content.strip() if calls else content
        parsed = [_call(one.name, one.arguments, f"{name} {number}") for number, one in enumerate(calls)]
        readable = [call for call in parsed if call is not None]
        unreadable = request.tool_choice != "auto" and not any(
            request.tool_choice in ("required", call["name"]) for call in readable
        )
        offered = {tool["function"]["name"]: tool["function"].get("parameters") for tool in request.tools}
        unreadable = unreadable or not all(
            call["name"] in offered and takes(offered[call["name"]], call["args"]) for call in readable
        )
        if found is None or len(readable) < len(parsed):
            content, readable, unreadable = text, [], True
        if not request.parallel and len(readable) > 1:
            readable, unreadable = readable[:1], True
        return TokenReply(
            text=content,
            prompt_ids=prompt_ids,
            token_ids=token_ids,
            logprobs=logprobs,
            finish_reason="stop" if ended or cuts else "length",
            tool_calls=readable,
            reasoning=reasoning,
            unreadable=unreadable,
        )

    def _segments(
        self, messages: list[TemplateMessage], rendered: str, request: ChatRequest
    ) -> list[tuple[str, Sequence[int]]]:
        """Split a prompt into texts, each with the sampled ids that follow it."""
        known = {place: ids for place, ids in request.sampled.items() if not self._special.intersection(ids[:-1])}
        if not known:
            return [(rendered, ())]
        marks = {place: f"{self._mark}-{place}-{self._mark}" for place in known}
        marked = [
            {"role": "assistant", "content": marks[place]} if place in marks else message
            for place, message in enumerate(messages)
        ]
        try:
            rest = self.render(marked, request)
        except ChatError:
            return [(rendered, ())]  # the template wants a tool's result to follow its call
        found, text, end = list[tuple[str, Sequence[int]]](), "", 0
        for place, mark in marks.items():
            before, _, rest = rest.partition(mark)
            start = end + len(before)
            if rendered[end:start] != before or not (after := self._until_next(rest, marks)):
                return [(rendered, ())]
            end = rendered.find(after, start)
            if end < 0:
                return [(rendered, ())]
            text += before
            if _is_whole(rendered[start:end], messages[place]):
                found.append((text, known[place]))
                text = ""
            else:
                text += rendered[start:end]
        if rendered[end:] != rest:
            return [(rendered, ())]
        return [*found, (text + rest, ())]

    def _until_next(self, rest: str, marks: Mapping[int, str]) -> str:
        """Return the text between a mark and the next one."""
        return rest[: min((at for mark in marks.values() if (at := rest.find(mark)) >= 0), default=len(rest))]

    def render(self, messages: Sequence[TemplateMessage], request: ChatRequest, *, prompt: bool = True) -> str:
        """Return the text of messages with a request's tools. Raises ChatError if the template refuses them."""
        from jinja2 import TemplateError

        tools = {"tools": sanitized_tools(request.tools, self.tokenizer)} if request.tools else {}
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages), add_generation_prompt=prompt, tokenize=False, **tools, **self._options
                )
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(dict.fromkeys(message["role"] for message in messages))
            why = " ".join(str(error).split())
            raise ChatError(
                f"the model's chat template refuses a conversation of {roles} ({why})", code="template_refused"
            ) from error

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def _is_whole(rendered: str, message: TemplateMessage) -> bool:
    """Return whether the rendering of a reply has all its parts."""
    parts = [message["content"], message.get("reasoning_content", "")]
    parts += [call["function"]["name"] for call in message.get("tool_calls", ())]
    return all(part.strip() in rendered for part in parts)


def _call(name: str, arguments: str, identity: str) -> ToolCall | None:
    """Return a parsed call; None if its arguments are no JSON object."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return None
    # Nine letters and digits, which is what Mistral's template demands.
    return tool_call(name=name, args=found, id=digest(identity)[:9]) if isinstance(found, dict) else None
