"""A server's context length: errors of requests that exceed it, and settings that fit."""

import re

_OVERFLOW = re.compile(r"context (?:length|window|size)|context_length|max(?:imum)?[ _]model[ _]len", re.IGNORECASE)
"""Wordings of vLLM, SGLang, llama.cpp, Ollama and OpenAI."""

FLAGS = "vLLM: --max-model-len; llama.cpp: --ctx-size, shared by its slots; Ollama: OLLAMA_CONTEXT_LENGTH"

_STATED = re.compile(r"(?:context length|context window|context size|model length|\bn_ctx)\D{0,16}?(\d{3,9})")


def is_overflow(text: str) -> bool:
    """Return whether a refusal is due to the context length."""
    return _OVERFLOW.search(text) is not None


def stated(text: str) -> int | None:
    """Return the context length that a refusal states, in tokens."""
    found = _STATED.search(text)
    return int(found[1]) if found else None


def fitting(length: int | None) -> str:
    """Return the settings that fit a context of `length` tokens: half for results, an eighth for the reply.

    The rest is for instructions, tools and plans.
    """
    settings = f"memory_tokens={max(200, length // 2)} --context max_tokens={max(1, length // 8)}" if length else ""
    lower = f"set --context {settings}" if settings else "lower memory_tokens and max_tokens"
    return f"{lower} (Context.memory_tokens, Sampling.max_tokens), or serve a longer context ({FLAGS})"
