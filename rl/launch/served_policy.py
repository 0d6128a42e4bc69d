"""A policy that a server answers, the agent's own models, or a script, to try an app before a model is chosen.

Its replies are written by the chat template of the model that is to be trained, so that rows and tokens are those of a
training. It has no log-probabilities, and is not trained on.
"""

import asyncio
from contextvars import Context
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.messages.tool import tool_call

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model, reply_of
from agentflow.graph.models.spec import ModelError
from agentflow.rl.apps.trainable import AppError
from agentflow.rl.launch.local_policy import LocalPolicy, start_folder
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.policy.borders import Tokenizer
from agentflow.rl.policy.chat import ChatError, ChatRequest, TokenReply, as_messages, digest, offered, template_message
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.schemas import example
from agentflow.rl.rollout.template import load_tokenizer
from agentflow.rl.settings import TrainingSettings

OWN = "own"
"""Spec of the models that the agent has in production."""
SCRIPTED = "scripted"
"""Spec of `scripted`, which needs no model."""
MOST_TEXT = 400
"""Characters of a text that the script repeats; where nodes quote each other, whole texts would double each time."""
MOST_CALLS = 8
"""Calls of tools in a conversation of the script; an agent may have any number of tools."""


class ServedPolicy:
    """Policy of chat models that are not trained; an `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, spec: str, settings: TrainingSettings, tokenizer: Tokenizer) -> None:
        """Load a model by its spec, or take the agent's own, OWN, or SCRIPTED. Raises AppError."""
        self._spec = spec
        try:
            sampling = Sampling(temperature=settings.temperature)
            self._model = None if spec in (OWN, SCRIPTED) else load_model(spec, sampling)
        except ModelError as error:
            raise AppError(str(error), code=error.code) from error
        self.format = ChatFormat(tokenizer, settings.tool_parser, settings.template_options)

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Ask the model. Raises ModelError, ChatError."""
        prompt_ids = self.format.prompt_ids(request)
        # In an empty context, the call belongs to no rollout, and is answered by the model itself.
        message = await asyncio.create_task(self._asked(request), context=Context())
        written = self.format.reply_ids(request, template_message(message))
        return TokenReply(
            text=str(message.text),
            prompt_ids=prompt_ids,
            token_ids=written,
            logprobs=[0.0] * len(written),
            finish_reason="length" if message.response_metadata.get("finish_reason") == "length" else "stop",
            tool_calls=message.tool_calls,
            reasoning=str(message.additional_kwargs.get("reasoning_content") or ""),
            unreadable=bool(message.invalid_tool_calls),
        )

    async def _asked(self, request: ChatRequest) -> AIMessage:
        if self._spec == SCRIPTED:
            return scripted(request)
        if self._model is not None:
            limits = request.sampling.model_dump(include={"max_tokens", "stop"}, exclude_none=True)
            return await reply_of(self._model, as_messages(request), **offered(self._model, request), **limits)
        if request.original is None:
            raise ChatError("a node asks its model without LangChain, so that --model own cannot; name a --model SPEC")
        model, messages, options = request.original
        return await reply_of(model, list(messages), **options)


def scripted(request: ChatRequest) -> AIMessage:
    """Call the next tool that was not called yet, or one that has to be; at last, answer with the last result.

    It shows that an agent runs, that its calls are read and that its reward is computed.
    """
    offered = {tool["function"]["name"]: tool["function"] for tool in request.tools}
    called = {call["function"]["name"] for message in request.messages for call in message.get("tool_calls", ())}
    left = [name for name in offered if name not in called and len(called) < MOST_CALLS]
    if request.tool_choice != "auto":
        left = [request.tool_choice] if request.tool_choice in offered else left or list(offered)
    if not left:
        return AIMessage("{}" if request.form == "{}" else request.messages[-1]["content"][:MOST_TEXT])
    question = next((one["content"] for one in reversed(request.messages) if one["role"] == "user"), "")
    arguments = example({"type": "object", **offered[left[0]].get("parameters", {})}, question[:MOST_TEXT])
    return AIMessage("", tool_calls=[tool_call(name=left[0], args=arguments, id=digest(request.identity)[:9])])


def trial_policy(spec: str, settings: TrainingSettings) -> tuple[LocalPolicy | ServedPolicy, str]:
    """Return what plays an app before a training, and a remark, which may be empty. Raises AppError, TemplateError."""
    if not is_served(spec):
        return LocalPolicy(spec or "embedded", settings, forms=bool(spec)), ""
    folder = start_folder(settings.start)
    tokenizer: Any = load_tokenizer(folder if folder.is_dir() else SEED)
    remark = ""
    if not folder.is_dir() or "tools" not in str(tokenizer.chat_template):
        tokenizer = load_tokenizer(SEED)
        tokenizer.chat_template = TOOL_TEMPLATE
        remark = "tokens are counted as those of a small model with tools; start=FOLDER names another tokenizer"
    if spec == SCRIPTED:
        remark = "a script plays: it calls each tool once, with made-up arguments, and answers with the result"
    return ServedPolicy(spec, settings, tokenizer), remark


def is_served(spec: str) -> bool:
    """Return whether a model is the agent's own, a server's or a script, and not a folder on this machine."""
    on_disk = spec.startswith("embedded") or Path(spec).expanduser().exists()
    return spec in (OWN, SCRIPTED) or (":" in spec and not on_disk)
