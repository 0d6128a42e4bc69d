"""A policy that a server answers, or the agent's own models, to try an app before a model is chosen.

Its replies are written by the chat template of the model that is to be trained, so that rows and tokens are those of a
training. It has no log-probabilities, and is not trained on.
"""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model, reply_of
from agentflow.graph.models.spec import ModelError
from agentflow.rl.apps.trainable import AppError
from agentflow.rl.launch.local_policy import LocalPolicy, start_folder, tokenizer_of
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.policy.borders import Tokenizer
from agentflow.rl.policy.chat import ChatError, ChatRequest, TokenReply, as_messages, offered, template_message
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.settings import TrainingSettings

OWN = "own"
"""Spec of the models that the agent has in production."""


class ServedPolicy:
    """Policy of chat models that are not trained; an `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, spec: str, settings: TrainingSettings, tokenizer: Tokenizer) -> None:
        """Load a model by its spec, or take the agent's own, OWN. Raises AppError."""
        try:
            sampling = Sampling(temperature=settings.temperature)
            self._model = None if spec == OWN else load_model(spec, sampling)
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

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens included."""
        return self.format.tokenizer.decode(ids, skip_special_tokens=False)

    async def _asked(self, request: ChatRequest) -> AIMessage:
        if self._model is not None:
            limits = request.sampling.model_dump(include={"max_tokens", "stop"}, exclude_none=True)
            return await reply_of(self._model, as_messages(request), **offered(self._model, request), **limits)
        if request.original is None:
            raise ChatError("a node asks its model without LangChain, so that --model own cannot; name a --model SPEC")
        model, messages, options = request.original
        return await reply_of(model, list(messages), **options)


def trial_policy(
    spec: str, settings: TrainingSettings, *, tools: bool = False
) -> tuple[LocalPolicy | ServedPolicy, str]:
    """Return what plays an app before a training, and a remark on it, which may be empty.

    `tools`: with tools, for which the template of the first choice has no place. Raises AppError.
    """
    if not is_served(spec):
        return LocalPolicy(spec or "embedded", settings), ""
    folder = start_folder(settings.start)
    if folder.is_dir() and not tools:
        return ServedPolicy(spec, settings, tokenizer_of(folder)), ""
    tokenizer: Any = tokenizer_of(SEED)
    tokenizer.chat_template = TOOL_TEMPLATE
    remark = (
        f"tokens and rows are those of a small model with tools, since {settings.start} is not on this machine or has "
        "none; start=FOLDER counts by the tokenizer in a folder"
    )
    return ServedPolicy(spec, settings, tokenizer), remark


def is_served(spec: str) -> bool:
    """Return whether a model is the agent's own or a server's, and not a folder on this machine."""
    return spec == OWN or (":" in spec and not spec.startswith("embedded") and not Path(spec).expanduser().exists())
