"""OTLP JSON and rows of chat for tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def attributes(found: Json) -> list[Json]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in found.items()]


def span(id: str, name: str, *, trace: str = "t1", parent: str = "", start: int = 0, **found: Any) -> Json:
    """A span; names of attributes have `__` for a dot, and values that are no text are JSON."""
    texts = {k.replace("__", "."): v if isinstance(v, str) else json.dumps(v) for k, v in found.items()}
    known = {"traceId": trace, "spanId": id, "name": name, "startTimeUnixNano": str(start)}
    return known | ({"parentSpanId": parent} if parent else {}) | {"attributes": attributes(texts)}


def said(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def chat_span(id: str, prompt: str, reply: str, **found: Any) -> Json:
    known = {
        "gen_ai__operation__name": "chat",
        "gen_ai__input__messages": [said("user", prompt)],
        "gen_ai__output__messages": [said("assistant", reply)],
    }
    return span(id, "chat any", **known | found)


def request(*spans: Json) -> Json:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def asked(question: str, reply: str = "", **found: Any) -> Json:
    """A row of chat."""
    messages = [{"role": "user", "content": question}, *([{"role": "assistant", "content": reply}] if reply else [])]
    return {"messages": messages, **found}


def rows(path: Path) -> list[Any]:
    """The lines of a file; none if it is missing."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
