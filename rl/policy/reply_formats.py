"""Readers of the tool calls in replies, by the family of the model.

A model that writes each argument between marks, as Qwen3.5 and Nemotron 3 do, writes no types: `3` may be a number or a
text. The tool's schema decides (`typed`). Strings in such text hold line breaks, commas and quotes as they are.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from agentflow.nodes.reply_parsing import JsonNames
from agentflow.rl.policy.chat import FoundCall
from agentflow.rl.policy.schemas import TYPES, types_of
from agentflow.tools.json_codec import from_json, object_from_json

Read = tuple[str, list[FoundCall]] | None
"""The text beside the calls, and the calls; None if a call cannot be read."""

Reader = Callable[[str, Sequence[Mapping[str, Any]]], Read]
"""Reads a reply of a model that is offered these tools."""

MARKED = {
    "qwen3_coder": (
        re.compile(
            r"(?:<(?:seed:)?tool_call>\s*)?<function=([^>\n]{1,200})>((?:(?!<function=).)*?)</function>"
            r"(?:\s*</(?:seed:)?tool_call>)?",
            re.DOTALL,
        ),
        re.compile(r"<parameter=([^>\n]{1,200})>\n?((?:(?!<parameter=).)*?)\n?</parameter>", re.DOTALL),
        re.compile(r"tool_call>|<function="),
    ),
    "glm": (
        re.compile(r"<tool_call>\s*+([^\s<]++)((?:(?!<tool_call>).)*?)</tool_call>", re.DOTALL),
        re.compile(
            r"<arg_key>((?:(?!<arg_key>).)*?)</arg_key>\s*+<arg_value>((?:(?!<arg_value>).)*?)</arg_value>", re.DOTALL
        ),
        re.compile(r"<tool_call>"),
    ),
    "invoke": (
        re.compile(
            r'(?:<[\w:]+_calls?>\s*)?<(?:atem:)?invoke name="([^"]{1,200})">'
            r"((?:(?!invoke name=).)*?)</(?:atem:)?invoke>"
            r"(?:\s*</[\w:]+_calls?>)?",
            re.DOTALL,
        ),
        re.compile(
            r'<(?:atem:)?parameter name="([^"]{1,200})">((?:(?!parameter name=).)*?)</(?:atem:)?parameter>', re.DOTALL
        ),
        re.compile(r"<atem:function_calls>|<minimax:tool_call>|invoke name="),
    ),
}
"""Patterns of a call with its name and body, of an argument in the body, and of what only a call begins with.

None of them reads beyond the next beginning of its kind, so that a model that writes it for ever takes linear time.
"""

_NO_VALUE = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
"""What readers of JSON and of Python raise for text of a model."""


def marked(name: str) -> Reader:
    """Return the reader of a family whose arguments stand between marks."""
    call, argument, begin = MARKED[name]

    def read(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
        schemas = {str(tool["function"]["name"]): tool["function"].get("parameters") or {} for tool in tools}
        calls = []
        for found in call.finditer(text):
            schema = schemas.get(found[1].strip(), {})
            given = {key.strip(): typed(value, key.strip(), schema) for key, value in argument.findall(found[2])}
            calls.append(FoundCall(found[1].strip(), json.dumps(given, ensure_ascii=False)))
        rest = call.sub("", text)
        return None if begin.search(rest) else (rest, calls)

    return read


def typed(text: str, name: str, schema: Mapping[str, Any]) -> Any:
    """Return the value of argument `name`, written as text, by the tool's schema; the text where nothing else fits."""
    properties = schema.get("properties")
    of_name = properties.get(name) if isinstance(properties, dict) else None
    allowed = types_of(of_name, schema, frozenset()) - {"string"}
    fitting = (value for value in _values(text) if TYPES[type(value)] & allowed) if allowed else iter(())
    return next(fitting, text)


def _values(text: str) -> Iterator[Any]:
    """Yield what a text is as JSON and as Python's literal, which some models write: True, None, ['a']."""
    for read in (from_json, ast.literal_eval):
        try:
            value = read(text.strip())
            json.dumps(value, allow_nan=False)
        except _NO_VALUE:
            continue
        if type(value) in TYPES:
            yield value


_GEMMA = re.compile(
    r"<\|tool_call>call:([\w.-]{1,200})(\{(?:(?!<\|tool_call>).)*?\})(?:<tool_call\|>|\Z)(?:<\|tool_response>)?",
    re.DOTALL,
)
_NONE = re.compile(r"\bNone\b")  # as some of its templates write null
_KEY = re.compile(r"([{,]\s*)([^\s{}\[\],:]+)\s*:")


def gemma(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
    """Read calls of Gemma 4: JSON with bare keys, and with a token in the place of the quotes of strings."""
    calls = []
    for name, body in _GEMMA.findall(text):
        parts = body.split('<|"|>')
        bare = [_NONE.sub("null", _KEY.sub(r'\1"\2":', part)) for part in parts[::2]]
        quoted = [json.dumps(part) for part in parts[1::2]]
        arguments = "".join(part for pair in zip_longest(bare, quoted, fillvalue="") for part in pair)
        calls.append(FoundCall(name, arguments))
    rest = _GEMMA.sub("", text)
    return None if "<|tool_call>" in rest else (rest, calls)


def lfm(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
    """Read calls of LFM2: a list of Python calls, whose values may be JSON, and whose strings may break lines."""
    calls, (rest, bodies) = list[FoundCall](), _enclosed(text, "<|tool_call_start|>", "<|tool_call_end|>")
    for body in bodies:
        try:
            calls += _python_calls(body.strip())
        except _NO_VALUE:
            return None
    return None if "<|tool_call_start|>" in rest else (rest, calls)


def _enclosed(text: str, opens: str, closes: str) -> tuple[str, list[str]]:
    """Return the text outside of marks, and what stands between each opening mark and the next closing one."""
    rest, bodies, end = "", list[str](), 0
    while (start := text.find(opens, end)) >= 0 and (close := text.find(closes, start + len(opens))) >= 0:
        rest += text[end:start]
        bodies.append(text[start + len(opens) : close])
        end = close + len(closes)
    return rest + text[end:], bodies


def _python_calls(body: str) -> list[FoundCall]:
    """Return the calls in a list of calls. Raises what is in `_NO_VALUE`."""
    try:
        tree = ast.parse(body, mode="eval")
    except SyntaxError:
        tree = ast.parse(body.replace("\n", "\\n"), mode="eval")
    calls = JsonNames().visit(tree).body
    found = []
    for call in calls.elts if isinstance(calls, ast.List) else [calls]:
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("it is no call with named arguments")
        given = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        found.append(FoundCall(ast.unparse(call.func), json.dumps(given, ensure_ascii=False)))
    return found


def llama(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
    """Read a reply of Llama 3: all of it is calls as JSON, one after the other."""
    rest, calls, decoder = text.replace("<|python_tag|>", "").strip(), list[FoundCall](), json.JSONDecoder()
    if not rest.startswith("{") or '"name"' not in rest:
        return text, []
    while rest:
        try:
            call, end = decoder.raw_decode(rest)
            calls.append(FoundCall(str(call["name"]), json.dumps(call["parameters"], ensure_ascii=False)))
        except (*_NO_VALUE, KeyError):
            return None
        rest = rest[end:].lstrip("; \n")
    return "", calls


def hermes(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
    """Read calls of Qwen2.5 and Qwen3: JSON between marks."""
    rest, bodies = _enclosed(text, "<tool_call>", "</tool_call>")
    found = [object_from_json(body) for body in bodies]
    if "<tool_call>" in rest or not all(call and {"name", "arguments"} <= call.keys() for call in found):
        return None
    return rest, [FoundCall(str(call["name"]), json.dumps(call["arguments"])) for call in found if call]


_HARMONY = re.compile(
    r"(?:<\|start\|>assistant)?\s{0,2}(?:<\|channel\|>commentary)?\s{0,2}to=functions\.([\w.-]{1,200})\s{0,2}"
    r"(?:<\|channel\|>commentary)?\s{0,2}(?:<\|constrain\|>)?(?:json)?\s{0,2}<\|message\|>"
    r"((?:(?!to=functions\.).)*?)(?:<\|call\|>|\Z)",
    re.DOTALL,
)


def harmony(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
    """Read calls of gpt-oss, whose thoughts have been taken out of the text."""
    rest, calls = _HARMONY.sub("", text), [FoundCall(*found) for found in _HARMONY.findall(text)]
    return None if "to=functions." in rest else (rest, calls)


READERS: Mapping[str, Reader] = {
    **{name: marked(name) for name in MARKED},
    "hermes": hermes,
    "gemma4": gemma,
    "lfm2": lfm,
    "llama3_json": llama,
    "gpt-oss": harmony,
}
"""Readers by the name of the parser."""
