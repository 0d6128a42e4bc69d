"""Formats of OpenAI's chat completions, as far as a text model supports them, with vLLM's token ids.

Unknown fields, which client libraries often send, are accepted. Unsupported fields that would change the reply, such as
alternatives for each token, are rejected and never ignored.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentflow.rl.micro.tokenizer import MicroTokenizer

MOST_CHOICES = 64

Refusals = Mapping[str, tuple[Any, ...]]
"""Unsupported fields, with the values that have no effect and are accepted."""

Stop = Annotated[str, Field(max_length=256)]
"""A stop string; its length is limited because it is searched at every token."""


class TextPart(BaseModel):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def as_pair(self) -> tuple[str, str]:
        """Return the role, as in the chat template, and the text."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return "system" if self.role == "developer" else self.role, text


class StreamOptions(BaseModel):
    """Options of a streamed reply."""

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """The fields of a request for a chat completion that all endpoints read."""

    model_config = ConfigDict(extra="allow")

    refused: ClassVar[Refusals] = {"functions": (None, []), "top_logprobs": (None, 0), "audio": (None,)}

    model: str
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, body: Any) -> Any:
        """Drop fields that are null, which means the default in this protocol."""
        return {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if name in self.refused and value not in self.refused[name]:
                raise ValueError(f"{name} is not something that this model can do; leave it out")
        return self

    @property
    def most_tokens(self) -> int | None:
        """Maximum length of the reply, in tokens."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the reply."""
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return tuple(stop for stop in stops if stop)

    @property
    def wants_usage(self) -> bool:
        """True if a stream ends with the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatCompletionRequest(CompletionRequest):
    """The body of a request to an embedded model."""

    refused: ClassVar[Refusals] = {
        **CompletionRequest.refused,
        "tools": (None, []),
        "logit_bias": (None, {}),
        "presence_penalty": (None, 0),
        "frequency_penalty": (None, 0),
        "response_format": (None, {"type": "text"}),
    }

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int | None, Field(ge=0)] = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] = 1
    logprobs: bool = False
    return_token_ids: bool = False
    """vLLM's: bring the ids of prompt and reply."""


def head(kind: Literal["chat.completion", "chat.completion.chunk"], model: str) -> dict[str, Any]:
    """Return the common fields of replies and of chunks."""
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Return the token counts of a reply."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def logprobs(tokenizer: MicroTokenizer, ids: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    """Format the log-probabilities of a choice's tokens."""
    texts = [tokenizer.decode([token]) for token in ids]
    return {
        "content": [
            {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
            for text, value in zip(texts, values, strict=True)
        ],
        "refusal": None,
    }


def error(message: str, code: str | None = None) -> dict[str, Any]:
    """Return the body of an error response."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
