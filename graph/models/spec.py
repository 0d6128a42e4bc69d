"""Model specs: `provider:model`, `provider:model@base_url`, or `embedded`.

A spec is parsed in three steps: the base URL begins at the last "@http", the provider ends at the first ":", and the
part between them is the model's name, which may contain ":", "/" and "@" (`ollama:qwen2.5:7b`). Every provider in the
table has OpenAI's chat completions API, so a new one needs only a row. Any other provider is an entry point of the
group `agentflow.models`, which interprets the part after its ":" itself (`embedded:DIR`), or it is one of
LangChain's (`chat_models`).
"""

import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import httpx

from agentflow.tools.coded_error import Cause, CodedError
from agentflow.tools.redaction import remember
from agentflow.tools.untrusted_text import one_line


class ModelError(CodedError, RuntimeError):
    """A model that is unavailable or did not answer; `str()` is one line with the cause and the remedy.

    It is a RuntimeError, since the LangGraph server shows the messages of those to clients, and "internal error" for
    others.

    Attributes:
        code: The cause in snake_case, such as "unknown_model" or "rate_limit".
        configuration: True when the settings are wrong (key, name, URL), so that a retry cannot help;
            False when the call failed at run time (server down, overloaded, sending invalid replies).
    """

    cause: ClassVar[Cause] = "infrastructure"

    def __init__(self, message: str, *, code: str = "", configuration: bool = False) -> None:
        super().__init__(" ".join(message.split()), code=code)
        self.configuration = configuration


def misconfigured(code: str, message: str) -> ModelError:
    """Return an error in the settings, which a retry cannot help."""
    return ModelError(message, code=code, configuration=True)


@dataclass(frozen=True)
class Provider:
    """A service with OpenAI's chat completions API."""

    base_url: str | None
    """Its default address."""
    key_variable: str
    """The environment variable of its API key."""
    needs_key: bool = False


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", needs_key=True),
    "dashscope": Provider("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", needs_key=True),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY", needs_key=True),
    "vllm": Provider("http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
    "llamacpp": Provider("http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY"),
    "lmstudio": Provider("http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY"),
    "openai-compatible": Provider(None, "OPENAI_COMPATIBLE_API_KEY"),
}

SILENCE_VARIABLE, DEFAULT_SILENCE = "AGENTFLOW_MODEL_SECONDS", "600"
"""Variable of a server's longest silence, and its default. Two cores read a prompt of 4,000 tokens in 90 seconds, and
requests that wait for a slot hear nothing for longer."""

NO_KEY = "EMPTY"
"""The key sent to a server that needs none."""


@dataclass(frozen=True)
class ModelSpec:
    """A parsed spec; missing parts are "" or None."""

    provider: str
    model: str = ""
    base_url: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """A model at a URL, with its API key."""

    provider: str
    model: str
    base_url: str
    """Without a trailing slash."""
    key: str = field(repr=False)
    silence: float
    """Maximum seconds until a part of a streamed reply; 0 for any."""

    def without_key(self, text: str) -> str:
        """Return `text` without the key, which a server may have repeated in it."""
        return text if self.key == NO_KEY else text.replace(self.key, "***")

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}@{self.base_url}"


@lru_cache(maxsize=256)
def parse(spec: str) -> ModelSpec:
    """Return the parts of `spec`. Raises ModelError (configuration) if it is invalid."""
    text = spec.strip()
    at = max(text.rfind("@http://"), text.rfind("@https://"))
    name, base_url = (text, None) if at < 0 else (text[:at], text[at + 1 :])
    provider, _, model = name.partition(":")
    if not provider:
        raise misconfigured("no_model", "no model is named; write provider:model, such as ollama:qwen2.5:7b")
    if not spec.isprintable() or any(character.isspace() for character in base_url or ""):
        raise misconfigured("bad_spec", "a model's name has no line breaks, and a URL no spaces; write it again")
    _, sign, version = model.rpartition("@")
    if provider in PROVIDERS and base_url is None and sign and not re.fullmatch(r"[\d-]+", version):
        raise misconfigured(
            "bad_url", f"what follows @ in '{one_line(spec, 100)}' is no URL; write {provider}:NAME@http://HOST:PORT/v1"
        )
    return ModelSpec(provider, model, _checked(base_url) if base_url else None)


def endpoint_of(spec: ModelSpec) -> Endpoint:
    """Return the endpoint of `spec`, whose provider is in the table. Reads the environment.

    Raises ModelError if there is no base URL, or a required API key is missing.
    """
    provider = PROVIDERS[spec.provider]
    base_url = spec.base_url or provider.base_url
    if base_url is None:
        raise misconfigured(
            "no_url",
            f"{spec.provider} needs a base URL; write {spec.provider}:{spec.model or 'NAME'}@http://HOST:PORT/v1",
        )
    key = os.environ.get(provider.key_variable, "").strip()
    if not key and provider.needs_key:
        raise misconfigured(
            "no_key", f"{spec.provider} needs an API key; set the environment variable {provider.key_variable}"
        )
    if not (key.isascii() and key.isprintable()):
        raise misconfigured("bad_key", f"{provider.key_variable} is not an API key; copy the key again")
    remember(key)
    seconds = os.environ.get(SILENCE_VARIABLE, "").strip() or DEFAULT_SILENCE
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", seconds):
        remedy = f"set it to a number of seconds, such as {DEFAULT_SILENCE}, or unset it"
        raise misconfigured("bad_seconds", f"{SILENCE_VARIABLE} is not a time: {remedy}")
    return Endpoint(spec.provider, spec.model, base_url, key or NO_KEY, float(seconds))


def _checked(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError) as error:
        raise misconfigured("bad_url", f"what follows @ is no URL ({error}); write http://HOST:PORT/v1") from error
    port_is_wrong = url.port is not None and not 0 < url.port < 65536
    if url.userinfo or url.query or url.fragment or not url.host or port_is_wrong:
        raise misconfigured(
            "bad_url",
            "a base URL is scheme, host, port and path; write http://HOST:PORT/v1, and put a key in the environment",
        )
    return base_url.rstrip("/")
