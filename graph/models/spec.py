"""How a model is named: `provider:model`, `provider:model@base_url`, or `embedded`.

A spec is read in three steps: the base URL begins at the last "@http", the provider ends at the first ":", and what is
between them is the model's name, which may itself contain ":", "/" and "@" (`ollama:qwen2.5:7b`). Every provider of the
table speaks OpenAI's chat completions, so that all it takes to add one is a row. Any other provider is an entry point
of the group `agentflow.models`; what follows its ":" is for it to read (`embedded:DIR`).
"""

import os
from dataclasses import dataclass, field

import httpx

from agentflow.tools.redaction import remember


class ModelError(RuntimeError):
    """A model cannot be had or did not answer; `str()` is one line that says what happened and what to do.

    A RuntimeError, since the LangGraph server shows a client what those say; of others it says "internal error".

    Attributes:
        configuration: True when the settings are wrong (key, name, URL), so that trying again cannot help;
            False when the call failed at run time (server down, overloaded, talking nonsense).
    """

    def __init__(self, message: str, *, configuration: bool = False) -> None:
        super().__init__(" ".join(message.split()))
        self.configuration = configuration


@dataclass(frozen=True)
class Provider:
    """A service that speaks OpenAI's chat completions."""

    base_url: str | None
    """Where it is, unless the spec says otherwise."""
    key_variable: str
    """The environment variable of its API key."""
    needs_key: bool = False


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", needs_key=True),
    "dashscope": Provider("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", needs_key=True),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY", needs_key=True),
    "vllm": Provider("http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
    "openai-compatible": Provider(None, "OPENAI_COMPATIBLE_API_KEY"),
}

NO_KEY = "EMPTY"
"""What goes over the wire as the key of a server that needs none."""


@dataclass(frozen=True)
class ModelSpec:
    """A spec in its parts; "" and None where it names none."""

    provider: str
    model: str = ""
    base_url: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """A model behind a URL, with the key that opens it."""

    provider: str
    model: str
    base_url: str
    """Without a slash at the end."""
    key: str = field(repr=False)

    @property
    def key_variable(self) -> str:
        """The environment variable of the key."""
        return PROVIDERS[self.provider].key_variable

    def without_key(self, text: str) -> str:
        """`text` as it may be shown: a server may have repeated the key in it."""
        return text if self.key == NO_KEY else text.replace(self.key, "***")

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}@{self.base_url}"


def parse(spec: str) -> ModelSpec:
    """The parts of `spec`. Raises ModelError (configuration) when it is not one."""
    name, base_url = _split_url(spec.strip())
    provider, _, model = name.partition(":")
    if not provider:
        raise ModelError("no model is named; write provider:model, such as ollama:qwen2.5:7b", configuration=True)
    if not spec.isprintable() or any(character.isspace() for character in base_url or ""):
        raise ModelError("a model's name has no line breaks, and a URL no spaces; write it again", configuration=True)
    return ModelSpec(provider, model, _checked(base_url) if base_url else None)


def endpoint_of(spec: ModelSpec) -> Endpoint:
    """Where `spec`, whose provider is one of the table's, leads. Reads the environment.

    Raises:
        ModelError: There is no base URL, or no API key where one is needed.
    """
    provider = PROVIDERS[spec.provider]
    base_url = spec.base_url or provider.base_url
    if base_url is None:
        raise ModelError(
            f"{spec.provider} needs a base URL; write {spec.provider}:{spec.model or 'NAME'}@http://HOST:PORT/v1",
            configuration=True,
        )
    key = os.environ.get(provider.key_variable, "").strip()
    if not key and provider.needs_key:
        raise ModelError(
            f"{spec.provider} needs an API key; set the environment variable {provider.key_variable}",
            configuration=True,
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{provider.key_variable} is not an API key; copy the key again", configuration=True)
    remember(key)
    return Endpoint(spec.provider, spec.model, base_url, key or NO_KEY)


def _split_url(spec: str) -> tuple[str, str | None]:
    at = max(spec.rfind("@http://"), spec.rfind("@https://"))
    return (spec, None) if at < 0 else (spec[:at], spec[at + 1 :])


def _checked(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ModelError(
            f"what follows @ is no URL ({error}); write http://HOST:PORT/v1", configuration=True
        ) from error
    port_is_wrong = url.port is not None and not 0 < url.port < 65536
    if url.userinfo or url.query or url.fragment or not url.host or port_is_wrong:
        raise ModelError(
            "a base URL is scheme, host, port and path; write http://HOST:PORT/v1, and put a key in the environment",
            configuration=True,
        )
    return base_url.rstrip("/")
