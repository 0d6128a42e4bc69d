"""Teacher: a chat model whose rollouts are imitated.

It takes the place of the policy in rollouts of supervised fine-tuning. Its replies enter them as text and are tokenised
as the policy's own chat template writes them. Their log-probabilities are unknown: NaN, which no supervised loss reads.
"""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from agentflow.graph.models.loading import reply_of
from agentflow.graph.models.reply import without_marks
from agentflow.rl.policy.chat import ChatRequest, TokenReply, as_messages, offered, template_message
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.policy import PromptTooLong


class Teacher:
    """Policy of a rollout whose replies are a teacher's; implements `agentflow.rl.policy.chat.Generate`."""

    def __init__(
        self, model: BaseChatModel, format: ChatFormat, fitted: Callable[[ChatRequest], tuple[list[int], int]]
    ) -> None:
        """`fitted` returns the ids of a request's prompt in the policy's format, and the most tokens of its reply."""
        self.model, self.format, self._fitted = model, format, fitted

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Return the teacher's reply. Raises PromptTooLong, ChatError, ModelError."""
        prompt_ids, most = self._fitted(request)
        message = await self._ask(request)
        token_ids = self.format.reply_ids(request, template_message(message))
        if len(token_ids) > most:
            raise PromptTooLong(f"the teacher's reply has {len(token_ids)} tokens of the policy, and {most} are left")
        return TokenReply(
            text=str(message.text),
            prompt_ids=prompt_ids,
            token_ids=token_ids,
            logprobs=[math.nan] * len(token_ids),
            finish_reason="stop",
            tool_calls=message.tool_calls,
        )

    async def _ask(self, request: ChatRequest) -> AIMessage:
        asked = reply_of(self.model, as_messages(request), **offered(self.model, request))
        # In a context of its own: the policy stands in for every model that is called in a node that learns.
        reply = await asyncio.create_task(asked, context=Context())
        return AIMessage(without_marks(str(reply.text)), tool_calls=reply.tool_calls)
