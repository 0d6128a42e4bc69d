"""Errors of models, as one line that ends with the remedy.

An error is either in the settings (`configuration`: a key, a name or a URL is wrong, so that every call fails) or
temporary (a server that is down, overloaded or sending invalid replies). Text from a server is shortened to one line,
and the key never appears in it.
"""

import aiohttp
import httpx
import openai
from langchain_core.exceptions import ContextOverflowError

from agentflow.graph.models.context_length import fitting, is_overflow, stated
from agentflow.graph.models.listing import context_lengths, listed
from agentflow.graph.models.spec import PROVIDERS, SILENCE_VARIABLE, Endpoint, ModelError
from agentflow.tools.untrusted_text import one_line

_SETTINGS = frozenset({"model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"})
"""Request fields that come from the user's settings."""

_CONFIGURATION = frozenset(
    {"key_refused", "forbidden", "not_found", "no_chat", "unknown_model", "bad_setting", "redirected"}
)
"""Codes of errors in the settings."""


class StreamCutError(Exception):
    """A streamed reply that ended before the server reported its completion."""


def explain(endpoint: Endpoint, error: Exception) -> ModelError:
    """Return `error`, which a call to `endpoint` raised, as a ModelError. Blocks if it lists the endpoint's models."""
    code, message = _explain(endpoint, error)
    return ModelError(f"{endpoint}: {endpoint.without_key(message)}", code=code, configuration=code in _CONFIGURATION)


def _explain(endpoint: Endpoint, error: Exception) -> tuple[str, str]:
    """Return the error's code and its line."""
    match error:
        case openai.APIStatusError():
            return _explain_status(endpoint, error)
        case openai.APIConnectionError() if any(
            isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError) for cause in _causes(error)
        ):
            return "unreachable", f"cannot connect ({_reason(error)}); is the server running, and is the URL right?"
        case openai.APITimeoutError():
            slow = f"a slow one may need {SILENCE_VARIABLE} above {endpoint.silence:g}"
            cause = "the server has sent nothing for too long; does it hang, or is it overloaded?"
            return "timeout", f"{cause} If not, {slow}"
        case openai.APIConnectionError() | StreamCutError():
            return "cut", f"the connection broke off ({_reason(error)}); try again, or look at the server's log"
        case openai.APIError():
            detail = one_line(endpoint.without_key(error.message), 200)
            return "server_error", f"the server failed while replying: {detail}; try again"
        case _:
            reason = f"{type(error).__name__}: {one_line(endpoint.without_key(str(error)), 120)}"
            remedy = "does the base URL speak the OpenAI protocol?"
            return "bad_reply", f"the reply is no chat completion ({reason}); {remedy}"


def _explain_status(endpoint: Endpoint, error: openai.APIStatusError) -> tuple[str, str]:
    detail = _detail(endpoint, error)
    match error.status_code:
        case 401:
            variable = PROVIDERS[endpoint.provider].key_variable
            return "key_refused", f"the API key was not accepted (401); set {variable} to a valid key"
        case 403:
            return "forbidden", f"access refused (403): {detail}; use a key that may use this model, or another model"
        case 404:
            return _explain_not_found(endpoint, detail)
        case 429 if out_of_credit(error.response.text):
            return "no_credit", "the account has no credit left (429); top it up, or choose another model"
        case 429:
            return "rate_limit", "too many requests (429), also after retries; wait a while, or run fewer at a time"
        case 400 | 413 | 422 if isinstance(error, ContextOverflowError) or is_overflow(error.response.text):
            advice = fitting(stated(error.response.text))
            return "too_long", f"prompt and reply are too long ({error.status_code}): {detail}; {advice}"
        case 400 | 413 | 422:
            remedy = "check the model's name and sampling settings"
            code = "bad_setting" if error.param in _SETTINGS else "bad_request"
            return code, f"request refused ({error.status_code}): {detail}; {remedy}"
        case status if 300 <= status < 400:
            location = error.response.headers.get("location", "?")
            return "redirected", f"redirected ({status}) to {location}; use that base URL"
        case status:
            return "server_error", f"the server failed ({status}): {detail}; try again, or look at the server's log"


def _explain_not_found(endpoint: Endpoint, detail: str) -> tuple[str, str]:
    try:
        offered = list(context_lengths(endpoint))
    except (httpx.HTTPError, ValueError):
        remedy = "check the model's name, and the base URL, which usually ends in /v1"
        return "not_found", f"not found (404): {detail}; {remedy}"
    if endpoint.model in offered:
        problem = "the endpoint lists the model but does not serve chat completions for it"
        return "no_chat", f"not found (404): {detail}; {problem}"
    return "unknown_model", f"there is no model '{endpoint.model}' (404); {listed(offered)}"


def out_of_credit(body: str) -> bool:
    """Return whether the body of a 429 shows that waiting does not help."""
    return "insufficient_quota" in body


def _detail(endpoint: Endpoint, error: openai.APIStatusError) -> str:
    """Return the server's message. The key is removed before it is shortened."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return one_line(endpoint.without_key(str(message or error.response.text)), 200) or "no reason given"


def _reason(error: BaseException) -> str:
    """Return why a connection failed, as the operating system or the HTTP library reports it."""
    for cause in reversed(_causes(error)):
        if isinstance(cause, OSError | aiohttp.ClientError | StreamCutError) and str(cause):
            return one_line(cause, 120)
    return "no reason given"


def _causes(error: BaseException) -> list[BaseException]:
    """Return `error` and its causes, the root cause last."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    return causes
