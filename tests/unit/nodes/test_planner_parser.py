"""The planner's parser on realistic replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.nodes.planner import parse
from agentflow.tools.result import ErrorClass
from tests.attacks import Attack
from tests.linear import assert_linear

TOOLS = ("base_generator", "python_coder", "wikipedia_search")
STEP = ("Find the birth year of Alan Turing", "wikipedia_search", "Alan Turing")
"""Sub-goal, tool and context that every readable row below holds."""

READ = {
    "as asked": "Sub-Goal: {g}\nTool: {t}\nContext: {c}",
    "thinking first": "I should look this up.\n\nSub-Goal: {g}\nTool: {t}\nContext: {c}",
    "reference bug: ### headings": "### Sub-Goal\n{g}\n\n### Tool\n{t}\n\n### Context\n{c}",
    "headings with colons": "## Sub-Goal: {g}\n## Tool: {t}\n## Context: {c}",
    "reference bug: other casing": "Sub-goal: {g}\nTOOL: {t}\ncontext: {c}",
    "reference bug: tool in backticks": "Sub-Goal: {g}\nTool: `{t}`\nContext: {c}",
    "reference bug: full stop after the tool": "Sub-Goal: {g}\nTool: {t}.\nContext: {c}",
    "reference bug: sentence after the tool": "Sub-Goal: {g}\nTool: {t}. It has an article on him.\nContext: {c}",
    "reference bug: numbers leak": "1. Sub-Goal: {g}\n2. Tool: {t}\n3. Context: {c}",
    "reference bug: numbers leak before headings": "1.\nSub-Goal: {g}\n2.\nTool: {t}\n3.\nContext: {c}",
    "reference order": "Context: {c}\nSub-Goal: {g}\nTool Name: {t}",
    "sentence below the tool": "Sub-Goal: {g}\nContext: {c}\nTool: {t}\nThis tool has an article on him.",
    "bold labels, colon inside": "**Sub-Goal:** {g}\n**Tool:** {t}\n**Context:** {c}",
    "bold labels, colon outside": "**Sub-Goal**: {g}\n**Tool**: {t}\n**Context**: {c}",
    "bold labels on their own line": "**Sub-Goal**\n{g}\n**Tool**\n{t}\n**Context**\n{c}",
    "bold lines": "**Sub-Goal: {g}**\n**Tool: {t}**\n**Context: {c}**",
    "bold tool": "Sub-Goal: {g}\nTool: **{t}**\nContext: {c}",
    "labels in backticks": "`Sub-Goal`: {g}\n`Tool`: {t}\n`Context`: {c}",
    "bullets": "- Sub-Goal: {g}\n- Tool: {t}\n- Context: {c}",
    "starred bullets and bold": "* **Sub-Goal:** {g}\n* **Tool:** {t}\n* **Context:** {c}",
    "numbered with brackets": "(1) Sub-Goal: {g}\n(2) Tool: {t}\n(3) Context: {c}",
    "quoted": "> Sub-Goal: {g}\n> Tool: {t}\n> Context: {c}",
    "indented": "  Sub-Goal: {g}\n  Tool: {t}\n  Context: {c}",
    "label on its own line": "Sub-Goal:\n{g}\nTool:\n{t}\nContext:\n{c}",
    "fenced whole": "```\nSub-Goal: {g}\nTool: {t}\nContext: {c}\n```",
    "fenced with a language": "```text\nSub-Goal: {g}\nTool: {t}\nContext: {c}\n```",
    "fence opened, not closed": "```\nSub-Goal: {g}\nTool: {t}\nContext: {c}",
    "fence after a sentence": "Here is the step:\n```\nSub-Goal: {g}\nTool: {t}\nContext: {c}\n```",
    "tool alone in a fence": "Sub-Goal: {g}\nTool:\n```\n{t}\n```\nContext: {c}",
    "Windows line ends": "Sub-Goal: {g}\r\nTool: {t}\r\nContext: {c}\r\n",
    "Windows line ends and headings": "### Sub-Goal\r\n{g}\r\n### Tool\r\n{t}\r\n### Context\r\n{c}",
    "full-width colon": "Sub-Goal：{g}\nTool：{t}\nContext：{c}",
    "typographic hyphen": "Sub‑Goal: {g}\nTool: {t}\nContext: {c}",
    "underscores": "Sub_Goal: {g}\nTool_Name: {t}\nContext: {c}",
    "written together": "SubGoal: {g}\nToolName: {t}\nContext: {c}",
    "sub task": "Subtask: {g}\nSelected Tool: {t}\nContext: {c}",
    "repeated labels: the last wins": "Sub-Goal: x\nTool: none\nContext: y\n\nSub-Goal: {g}\nTool: {t}\nContext: {c}",
    "an empty repetition is none": "Sub-Goal: {g}\nTool: {t}\nContext: {c}\nTool:",
    "thinking in tags": "<think>\nSub-Goal: x\nTool: none</think>\nSub-Goal: {g}\nTool: {t}\nContext: {c}",
    "thinking whose tag the template opened": "Tool: python_coder?</think>\n\nSub-Goal: {g}\nTool: {t}\nContext: {c}",
    "JSON": '{{"sub_goal": "{g}", "tool": "{t}", "context": "{c}"}}',
    "JSON in a fence": '```json\n{{\n  "sub_goal": "{g}",\n  "tool": "{t}",\n  "context": "{c}"\n}}\n```',
    "JSON in a fence after a sentence": 'See\n```json\n{{"sub_goal": "{g}", "tool": "{t}", "context": "{c}"}}\n```\n.',
    "JSON after a label": 'Step: {{"sub_goal": "{g}", "tool": "{t}", "context": "{c}"}}',
    "the reference's keys": '{{"justification": "", "context": "{c}", "sub_goal": "{g}", "tool_name": "{t}"}}',
    "JSON with other keys": '{{"Sub-Goal": "{g}", "toolName": "{t}", "Context": "{c}"}}',
    "JSON, nested": '{{"plan": {{"sub_goal": "{g}", "tool": "{t}", "context": "{c}"}}}}',
    "JSON, tool as an object": '{{"sub_goal": "{g}", "tool": {{"name": "{t}"}}, "context": "{c}"}}',
    "JSON, trailing comma": '{{"sub_goal": "{g}", "tool": "{t}", "context": "{c}",}}',
    "Python dict": "{{'sub_goal': '{g}', 'tool': '{t}', 'context': '{c}'}}",
    "Python dict, a raw escape": "{{'reason': '\\d', 'sub_goal': '{g}', 'tool': '{t}', 'context': '{c}'}}",
}  # fmt: skip


@pytest.mark.parametrize("template", READ.values(), ids=READ)
def test_is_read(template: str) -> None:
    goal, tool, context = STEP
    text = template.format(g=goal, t=tool, c=context)
    plan = parse(text, TOOLS)
    assert (plan.sub_goal, plan.tool, plan.context, plan.error) == (goal, tool, context.strip(), None)
    assert plan.text == text  # later prompts repeat it to the letter


TOOL_NAMES = {
    "python_coder": "python_coder",
    "other case": "Python_Coder",
    "capitals": "PYTHON CODER",
    "blank": "python coder",
    "hyphen": "python-coder",
    "written together": "PythonCoder",
    "suffix": "python_coder_tool",
    "reference's name": "Python_Coder_Tool",
    "suffix as a word": "Python Coder tool",
    "brackets": "[python_coder]",
    "angle brackets": "<python_coder>",
    "quotes": '"python_coder"',
    "bold in a sentence": "I choose **python_coder** because it computes.",
    "call": 'python_coder(code="print(1)")',
    "namespace": "functions.python_coder",
    "comment": "python_coder (runs a program)",
    "dash": "python_coder - runs a program",
}


@pytest.mark.parametrize("name", TOOL_NAMES.values(), ids=TOOL_NAMES)
def test_the_tool_is_recognised(name: str) -> None:
    plan = parse(f"Sub-Goal: add\nTool: {name}\nContext: 1 and 2", TOOLS)
    assert (plan.tool, plan.error) == ("python_coder", None)


FAILED = {
    "empty": ("", ErrorClass.BAD_PLAN, "the plan was empty"),
    "white space": (" \n\t", ErrorClass.BAD_PLAN, "the plan was empty"),
    "refusal": ("I'm sorry, but I can't help with that.", ErrorClass.BAD_PLAN, "'Sub-Goal: ...'"),
    "only thinking": ("<think>Sub-Goal: a\nTool: python_coder\nContext: b", ErrorClass.BAD_PLAN, "'Sub-Goal: ...'"),
    "no tool": ("Sub-Goal: add 1 and 2\nContext: 1, 2", ErrorClass.BAD_PLAN, "'Tool: ...'"),
    "no sub-goal, no context": ("Tool: python_coder", ErrorClass.BAD_PLAN, "'Sub-Goal: ...'"),
    "empty tool": ("Sub-Goal: add 1 and 2\nTool:\nContext: 1, 2", ErrorClass.BAD_PLAN, "'Tool: ...'"),
    "all on one line": ("Sub-Goal: add Tool: python_coder Context: 1", ErrorClass.BAD_PLAN, "'Tool: ...'"),
    "markdown table": (
        "| Sub-Goal | Tool | Context |\n|---|---|---|\n| add | python_coder | 1 |",
        ErrorClass.BAD_PLAN,
        "'Sub-Goal: ...'",
    ),
    "a bare call": ('python_coder(code="print(1)")', ErrorClass.BAD_PLAN, "'Sub-Goal: ...'"),
    "labels in the middle of a sentence": (
        "The Sub-Goal: add. The Tool: none.",
        ErrorClass.BAD_PLAN,
        "'Sub-Goal: ...'",
    ),
    "JSON without the tool": ('{"sub_goal": "add", "tool": null}', ErrorClass.BAD_PLAN, "'Tool: ...'"),
    "JSON cut off": ('{"sub_goal": "add", "tool": "python_co', ErrorClass.BAD_PLAN, "'Sub-Goal: ...'"),
    "two tools": ("Sub-Goal: a\nTool: python_coder or base_generator", ErrorClass.UNKNOWN_TOOL, "several tools"),
    "one tool and not another": (
        "Sub-Goal: a\nTool: wikipedia_search (not python_coder)",
        ErrorClass.UNKNOWN_TOOL,
        "several tools (python_coder, wikipedia_search); name one",
    ),
    "unknown tool": (
        "Sub-Goal: a\nTool: calculator",
        ErrorClass.UNKNOWN_TOOL,
        "there is no tool 'calculator'; the tools are base_generator, python_coder, wikipedia_search",
    ),
    "half a name": ("Sub-Goal: a\nTool: wikipedia", ErrorClass.UNKNOWN_TOOL, "no tool 'wikipedia'"),
    "a longer name": ("Sub-Goal: a\nTool: my_python_coder", ErrorClass.UNKNOWN_TOOL, "no tool 'my_python_coder'"),
    "none": ("Sub-Goal: a\nTool: None", ErrorClass.UNKNOWN_TOOL, "no tool 'None'"),
    "only markup": ("Sub-Goal: a\nTool: ---", ErrorClass.UNKNOWN_TOOL, "no tool"),
    "very long name": ("Sub-Goal: a\nTool: " + "x" * 5000, ErrorClass.UNKNOWN_TOOL, f"no tool '{'x' * 80}'"),
}


@pytest.mark.parametrize(("text", "error", "problem"), FAILED.values(), ids=FAILED)
def test_is_a_failed_turn_that_says_why(text: str, error: ErrorClass, problem: str) -> None:
    plan = parse(text, TOOLS)
    assert plan.error == error
    assert problem in plan.problem
    assert "\n" not in plan.problem
    assert len(plan.problem) < 250


def test_a_goal_inside_of_the_context_is_part_of_it() -> None:
    plan = parse("Sub-Goal: make 24\nTool: python_coder\nContext: numbers 4 7 8 8\nGoal: 24\nstep = 1", TOOLS)
    assert plan.sub_goal == "make 24"
    assert plan.context == "numbers 4 7 8 8\nGoal: 24\nstep = 1"


def test_json_inside_of_the_context_is_part_of_it() -> None:
    context = '{"sub_goal": "other", "tool": "base_generator"}'
    plan = parse(f"Sub-Goal: read it\nTool: python_coder\nContext: {context}", TOOLS)
    assert (plan.sub_goal, plan.tool, plan.context) == ("read it", "python_coder", context)


def test_code_inside_of_the_context_keeps_its_fence_and_comments() -> None:
    code = "```python\n# 3. add\nprint(1 + 2)\n```"
    assert parse(f"Sub-Goal: run it\nTool: python_coder\nContext: {code}", TOOLS).context == code


def test_the_context_stands_in_for_a_missing_sub_goal() -> None:
    plan = parse("Tool: python_coder\nContext: 1 + 2", TOOLS)
    assert (plan.sub_goal, plan.tool, plan.error) == ("1 + 2", "python_coder", None)


def test_a_tool_whose_name_is_part_of_another() -> None:
    tools = ("search", "web_search", "search engine")
    named = [parse(f"Sub-Goal: a\nTool: We use {tool} now", tools).tool for tool in tools]
    assert named == list(tools)


def test_lone_surrogates_of_cut_emoji_become_valid_text() -> None:
    plan = parse('{"sub_goal": "smile \\ud83d", "tool": "python_coder", "context": "1"}', TOOLS)
    assert plan.sub_goal == "smile ?"


PIECES = [
    "Sub-Goal", "Tool", "Context", ":", "\n", "\r\n", "python_coder", "wikipedia_search", "```", "**", "{", "}", '"',
    "'", "<think>", "</think>", "3.", "#", "ſtep", "\x85", "\x00", " ", ",", "tool", "null", "(", ")", "=",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(st.one_of(st.text(), FRAGMENTS))
def test_any_text_is_a_known_tool_or_a_failure(text: str) -> None:
    plan = parse(text, TOOLS)
    assert plan.text == text
    assert (plan.error is None) == (plan.tool in TOOLS)
    assert (plan.error is None) == (plan.problem == "")
    assert plan.error is None or plan.error in (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL)
    assert len(plan.problem.splitlines()) <= 1


@given(
    goal=st.text("abc xyz", min_size=1).filter(str.strip), context=st.text("abc 123,;", min_size=1).filter(str.strip)
)
def test_what_the_prompt_asks_for_is_read_exactly(goal: str, context: str) -> None:
    plan = parse(f"Sub-Goal: {goal}\nTool: python_coder\nContext: {context}", TOOLS)
    assert (plan.sub_goal, plan.context, plan.tool) == (goal.strip(), context.strip(), "python_coder")


UNITS = [
    *("{", "}", "{}", '{"a":', "[", "#", "*", "`", "```\n"),
    *("-", " ", "\n", "Tool:", "Tool:\n", "(", "1.\n", "<think>"),
]
HOSTILE = [
    *(Attack((unit,)) for unit in UNITS),
    Attack((" ",), "```\n"),
    Attack((" ",), "Tool", "x"),
    Attack(("python_",), "Sub-Goal: a\nTool: "),
    Attack(("\n- ",), "Sub-Goal: a", "x"),
    Attack(("-",), "{", "1}"),
]


def test_hostile_text_takes_linear_time() -> None:
    assert_linear(lambda text: parse(text, TOOLS), HOSTILE)
    assert all(parse(attack.text(10_000), TOOLS).error for attack in HOSTILE)
