"""The executor's parser on realistic replies. It reads code and never runs it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentflow.nodes.executor import parse
from agentflow.tools.card import ToolCard
from tests.attacks import Attack
from tests.linear import assert_linear

SEARCH = ToolCard(
    name="wikipedia_search",
    description="",
    arguments={"properties": {"query": {"type": "string"}}, "required": ["query"]},
)
CODER = ToolCard(
    name="python_coder", description="", arguments={"properties": {"code": {"type": "string"}}, "required": ["code"]}
)
WEB = ToolCard(
    name="web_search",
    description="",
    arguments={"properties": {"query": {"type": "string"}, "url": {"type": "string"}}, "required": ["query"]},
)
CLOCK = ToolCard(name="clock", description="", arguments={"properties": {"zone": {"type": "string"}}})
ECHO = ToolCard(
    name="echo", description="", arguments={"properties": {"input": {"type": "string"}}, "required": ["input"]}
)
PING = ToolCard(name="ping", description="", arguments={"properties": {}})

TURING = {"query": "Alan Turing"}
PROGRAM = {"code": "print(12 * 7)"}
TWO_LINES = {"code": "x = 12\nprint(x * 7)"}

READ: dict[str, tuple[ToolCard, str, dict[str, Any]]] = {
    "as asked": (SEARCH, '{"query": "Alan Turing"}', TURING),
    "in a json fence": (SEARCH, '```json\n{"query": "Alan Turing"}\n```', TURING),
    "in a plain fence": (SEARCH, '```\n{"query": "Alan Turing"}\n```', TURING),
    "fence not closed": (SEARCH, '```json\n{"query": "Alan Turing"}', TURING),
    "after a sentence": (SEARCH, 'Here are the arguments: {"query": "Alan Turing"}', TURING),
    "before a sentence": (SEARCH, '{"query": "Alan Turing"}\n\nThis looks up the article.', TURING),
    "after another object": (SEARCH, 'The set {"a": 1} is not it: {"query": "Alan Turing"}', TURING),
    "after braces that are no JSON": (SEARCH, 'In {braces}: {"query": "Alan Turing"}', TURING),
    "Windows line ends": (SEARCH, '{\r\n  "query": "Alan Turing"\r\n}', TURING),
    "after thinking": (SEARCH, '<think>{"query": "wrong"}</think>{"query": "Alan Turing"}', TURING),
    "other case": (SEARCH, '{"Query": "Alan Turing"}', TURING),
    "further keys": (SEARCH, '{"query": "Alan Turing", "thought": "look it up"}', TURING),
    "wrapped": (SEARCH, '{"name": "wikipedia_search", "arguments": {"query": "Alan Turing"}}', TURING),
    "wrapped as JSON text": (
        SEARCH,
        json.dumps({"name": "wikipedia_search", "arguments": json.dumps(TURING)}),
        TURING,
    ),
    "wrapped as args": (SEARCH, '{"tool": "wikipedia_search", "args": {"query": "Alan Turing"}}', TURING),
    "wrapped as parameters": (SEARCH, '{"name": "x", "parameters": {"query": "Alan Turing"}}', TURING),
    "wrapped as tool_input": (SEARCH, '{"action": "x", "tool_input": {"query": "Alan Turing"}}', TURING),
    "wrapped twice": (
        SEARCH,
        json.dumps({"tool_calls": [{"type": "function", "function": {"name": "s", "arguments": json.dumps(TURING)}}]}),
        TURING,
    ),
    "tool_call tags": (
        SEARCH,
        '<tool_call>\n{"name": "s", "arguments": {"query": "Alan Turing"}}\n</tool_call>',
        TURING,
    ),
    "a list": (SEARCH, '[{"query": "Alan Turing"}]', TURING),
    "argument called like a wrapper": (ECHO, '{"input": "{\\"a\\": 1}"}', {"input": '{"a": 1}'}),
    "Python dict": (SEARCH, "{'query': 'Alan Turing'}", TURING),
    "Python dict with JSON's names": (WEB, "{'query': 'a', 'url': null}", {"query": "a", "url": None}),
    "trailing comma": (SEARCH, '{"query": "Alan Turing",}', TURING),
    "non-ASCII": (SEARCH, '{"query": "Łódź 東京"}', {"query": "Łódź 東京"}),
    "two arguments": (WEB, '{"query": "a", "url": "http://b.c"}', {"query": "a", "url": "http://b.c"}),
    "wrong type, for the schema to refuse": (SEARCH, '{"query": 5}', {"query": 5}),
    "nested value": (SEARCH, '{"query": {"query": "a"}}', {"query": {"query": "a"}}),
    "a required one missing, for the schema to refuse": (WEB, '{"url": "http://b.c"}', {"url": "http://b.c"}),
    "reference's call": (SEARCH, 'execution = tool.execute(query="Alan Turing")', TURING),
    "reference's call in a block": (
        SEARCH,
        'Generated Command:\n```python\nexecution = tool.execute(query="Alan Turing")\n```',
        TURING,
    ),
    "reference bug: a call over several lines": (
        SEARCH,
        '```python\nexecution = tool.execute(\n    query="Alan Turing",\n)\n```',
        TURING,
    ),
    "reference bug: a call that is not assigned": (SEARCH, '```python\ntool.execute(query="Alan Turing")\n```', TURING),
    "reference bug: two blocks, each its own": (
        SEARCH,
        '```python\nname = "x"\n```\n```python\ntool.execute(query="Alan Turing")\n```',
        TURING,
    ),
    "call by the tool's name": (SEARCH, 'wikipedia_search(query="Alan Turing")', TURING),
    "call in backticks": (SEARCH, '`wikipedia_search(query="Alan Turing")`', TURING),
    "call without a keyword": (SEARCH, "wikipedia_search('Alan Turing')", TURING),
    "awaited call": (SEARCH, 'result = await tool.run(query="Alan Turing")', TURING),
    "printed call": (SEARCH, 'print(wikipedia_search(query="Alan Turing"))', TURING),
    "call with a program": (CODER, 'python_coder(code="print(12 * 7)")', PROGRAM),
    "program in JSON": (CODER, '{"code": "print(12 * 7)"}', PROGRAM),
    "program in JSON, raw line break": (CODER, '{"code": "x = 12\nprint(x * 7)"}', TWO_LINES),
    "program in JSON, raw escape": (CODER, '{"code": "print(r\'\\d\')"}', {"code": "print(r'\\d')"}),
    "program in JSON, triple quotes": (CODER, '{"code": """x = 12\nprint(x * 7)"""}', TWO_LINES),
    "program with braces in JSON": (CODER, '{"code": "print({1: {}})"}', {"code": "print({1: {}})"}),
    "program in a block": (CODER, "```python\nprint(12 * 7)\n```", PROGRAM),
    "program in a block without a language": (CODER, "Run this:\n```\nprint(12 * 7)\n```", PROGRAM),
    "program in a block, Windows line ends": (CODER, "```python\r\nx = 12\r\nprint(x * 7)\r\n```", TWO_LINES),
    "program in a block not closed": (CODER, "```python\nprint(12 * 7)\n", PROGRAM),
    "the longest of two blocks": (CODER, "```python\nx\n```\nor\n```python\nprint(12 * 7)\n```", PROGRAM),
    "program with a dict": (CODER, '```python\nd = {"a": 1}\nprint(d)\n```', {"code": 'd = {"a": 1}\nprint(d)'}),
    "program with calls": (CODER, "```python\nprint('a', sep='')\n```", {"code": "print('a', sep='')"}),
    "nothing to give": (CLOCK, "{}", {}),
    "nothing to give, as a call": (CLOCK, "clock()", {}),
    "no arguments at all": (PING, '{"name": "ping", "arguments": {}}', {}),
}


@pytest.mark.parametrize(("card", "text", "arguments"), READ.values(), ids=READ)
def test_is_read(card: ToolCard, text: str, arguments: dict[str, Any]) -> None:
    assert parse(text, card) == arguments


FAILED = {
    "empty": (SEARCH, ""),
    "white space": (SEARCH, " \n"),
    "refusal": (SEARCH, "I'm sorry, but I can't help with that."),
    "prose": (SEARCH, "I would look up Alan Turing."),
    "only thinking": (SEARCH, '<think>{"query": "Alan Turing"}'),
    "reference bug: 'No command found.'": (SEARCH, "No command found."),
    "arguments of another tool": (SEARCH, '{"code": "print(1)"}'),
    "no object": (SEARCH, '"Alan Turing"'),
    "a list of strings": (SEARCH, '["Alan Turing"]'),
    "empty object where one is required": (SEARCH, "{}"),
    "object cut off": (SEARCH, '{"query": "Alan Tur'),
    "call with a variable": (SEARCH, "tool.execute(query=name)"),
    "call with an expression": (SEARCH, 'tool.execute(query=open("x").read())'),
    "call of something else by position": (SEARCH, 'print("Alan Turing")'),
    "f-string": (SEARCH, 'tool.execute(query=f"{name}")'),
    "block for a tool that takes none": (SEARCH, "```python\nprint(1)\n```"),
    "empty block": (CODER, "```python\n\n```"),
    "block of something else": (CODER, '```json\n{"program": "print(1)"}\n```'),
    "shell block": (CODER, "```bash\nls\n```"),
    "program outside of a block": (CODER, "print(12 * 7)"),
    "markdown table": (SEARCH, "| query |\n|---|\n| Alan Turing |"),
    "set": (SEARCH, "{'query'}"),
}


@pytest.mark.parametrize(("card", "text"), FAILED.values(), ids=FAILED)
def test_is_not_read(card: ToolCard, text: str) -> None:
    assert parse(text, card) is None


def test_nothing_is_run(tmp_path: Any) -> None:
    trap = tmp_path / "ran"
    parse(f'```python\ntool.execute(query=open("{trap}", "w"))\n```\n{{"query": __import__("os")}}', SEARCH)
    assert not trap.exists()


def test_arguments_are_plain_json() -> None:
    assert parse("{'query': (1, 'a'), 'url': {2}}", WEB) == {"query": [1, "a"], "url": [2]}
    assert parse('{"query": NaN}', SEARCH) == {"query": "NaN"}
    assert parse('{"query": 1e999, "url": 18446744073709551616}', WEB) == {
        "query": "Infinity",
        "url": "18446744073709551616",
    }
    assert parse('{"query": "smile \\ud83d"}', SEARCH) == {"query": "smile ?"}  # an emoji cut in half


PIECES = [
    '{"query": ', '"a"', "}", "{", "'", '"', "(", ")", "tool.execute", "query=", "```python\n", "```", "\n", ",", "[",
    "]", "code", ":", "\\", "\\ud800", "1", "-", "*", "NaN", "1e999", "\x00", "\\d", "lambda", "null", "b''", "1j",
    "...",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(st.one_of(st.text(), FRAGMENTS), st.sampled_from([SEARCH, CODER, WEB, CLOCK, ECHO, PING]))
def test_any_text_is_arguments_of_the_tool_or_none(text: str, card: ToolCard) -> None:
    arguments = parse(text, card)
    if arguments is not None:
        assert set(arguments) <= set(card.arguments["properties"]) or card is PING
        assert json.loads(json.dumps(arguments, ensure_ascii=False).encode()) == arguments


@given(st.dictionaries(st.sampled_from(["query", "url"]), st.text(), min_size=1))
@example({"query": "</think> is not the end of a thought here"})
def test_what_the_prompt_asks_for_is_read_exactly(arguments: dict[str, str]) -> None:
    assert parse(json.dumps(arguments), WEB) == arguments


UNITS = [
    *("{", "}", "{}", '{"a":', '{"a":{}},', "[", "(", "((", "f("),
    *("f(\n", "f(a=1)\n", "f(f(a=", "-", "not ", "#", "```\n", '{"query": "', "{'"),
]
HOSTILE = [
    *(Attack((unit,)) for unit in UNITS),
    Attack(("-",), "{", "1}"),
    Attack(("1+",), "{", "1}"),
    Attack((".a",), "f", "(query=1)"),
    Attack(("f(query=", ")")),
    Attack(("9",), '{"query": ', "}"),
]


def test_hostile_text_takes_linear_time() -> None:
    assert_linear(lambda text: parse(text, SEARCH), HOSTILE)
    # From Python 3.13 on, a name of 10,000 parts is parsed: a call like any other.
    assert all(parse(attack.text(10_000), SEARCH) in (None, {"query": 1}) for attack in HOSTILE)


def test_very_long_arguments_are_read() -> None:
    assert parse(json.dumps({"query": "x" * 100_000}), SEARCH) == {"query": "x" * 100_000}
