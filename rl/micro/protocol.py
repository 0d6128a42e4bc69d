"""OpenAI's chat completions, as far as a small text model has something to say in them, with vLLM's token ids.

A request may hold anything that a client library sends along by habit. What would change the reply and cannot be done
here - tools, a JSON schema, alternatives for each token - is refused, never ignored.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentflow.rl.micro.tokenizer import MicroTokenizer

MOST_CHOICES = 64

_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "functions": (None, []),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "response_format": (None, {"type": "text"}),
    "audio": (None,),
}
"""Fields that are not computed here, with the values that ask for nothing."""


Stop = Annotated[str, Field(max_length=256)]
"""It is looked for at every token."""


class TextPart(BaseModel):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def as_pair(self) -> tuple[str, str]:
        """Role, as the chat template knows it, and text."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return "system" if self.role == "developer" else self.role, text


class StreamOptions(BaseModel):
    """What a stream brings beside the reply."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """The body of a request for a chat completion."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    seed: Annotated[int | None, Field(ge=0)] = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] = 1
    logprobs: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    """vLLM's: bring the ids of prompt and reply."""

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, body: Any) -> Any:
        """null asks for the default, as the protocol has it."""
        return {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body

    @model_validator(mode="after")
    def _can_be_done(self) -> "ChatRequest":
        for name, value in (self.model_extra or {}).items():
            if name in _REFUSED and value not in _REFUSED[name]:
                raise ValueError(f"{name} is not something that this model can do; leave it out")
        return self

    @property
    def most_tokens(self) -> int | None:
        """Bound of the reply's length."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the reply."""
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return tuple(stop for stop in stops if stop)


def head(kind: Literal["chat.completion", "chat.completion.chunk"], model: str) -> dict[str, Any]:
    """What every reply, and every piece of one, begins with."""
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """The count of tokens."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def logprobs(tokenizer: MicroTokenizer, ids: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    """Log-probabilities of a choice's tokens."""
    texts = [tokenizer.decode([token]) for token in ids]
    return {
        "content": [
            {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
            for text, value in zip(texts, values, strict=True)
        ],
        "refusal": None,
    }


def error(message: str, code: str | None = None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
