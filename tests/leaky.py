"""A tool that says what it should not, for tests of redaction; records name this module, so "planted" is not in it."""

import os

from langchain_core.tools import tool

PLANTED = {
    "a key of OpenAI's": "sk-planted0123456789abcdef",
    "a key of GitHub's": "ghp_planted0123456789abcdefghijABCDEFGHIJ",
    "a header": "Bearer planted0123456789abcdef",
    "a URL": "https://me:planted-userinfo@example.org/x",
}
"""Every secret of these tests has "planted" in it, and nothing else has."""

VARIABLE = "LEAKY_SERVICE_TOKEN"


@tool
def leak(text: str) -> str:
    """Return the secrets that this process can see."""
    return f"{text}; " + ", ".join([*PLANTED.values(), os.environ[VARIABLE]])
