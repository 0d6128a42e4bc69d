"""Prompts repeat sampled tokens exactly, for the templates of families of models."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

pytest.importorskip("transformers")

from agentflow.graph.context import Sampling
from agentflow.rl.policy.chat import ChatError, ChatRequest, Conversations, in_form
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.packing import pack
from tests.chat_templates import ADD, ENDS, ScriptedPolicy, Talk, called, chat_format, needs_templates, tokenizer

pytestmark = needs_templates

WITH_TOOLS = [family for family in ENDS if family != "smollm2"]


@pytest.fixture(scope="module")
def formats() -> dict[str, ChatFormat]:
    return {family: chat_format(family) for family in ENDS}


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
steps = st.lists(
    st.tuples(st.sampled_from(["call", "tight call", "text", "broken call"]), texts, st.integers(-99, 99)),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("family", list(ENDS))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_a_growing_conversation_is_one_row(
    family: str, formats: dict[str, ChatFormat], steps: list[tuple[str, str, int]]
) -> None:
    """Whatever is sampled, its tokens and log-probabilities are trained on once, in one row."""
    if family not in WITH_TOOLS:
        steps = [("text", text, number) for _, text, number in steps]
    script = iter(_written(family, kind, text, number) for kind, text, number in steps)
    talk = Talk(ScriptedPolicy(family, lambda request: next(script), formats[family]), tools=family in WITH_TOOLS)
    messages: list[BaseMessage] = [SystemMessage("s"), HumanMessage("q")]
    for kind, text, number in steps:
        message = talk.turn(messages)
        if kind in ("call", "tight call"):
            assert [(call["name"], call["args"]) for call in message.tool_calls] == [("add", {"b": number, "a": text})]
        results = [ToolMessage(str(number), tool_call_id=str(call["id"])) for call in message.tool_calls]
        messages += [message, *(results or [HumanMessage("and now?")])]
    assert talk.rows() == 1
    assert talk.trained() == talk.sampled()


def _written(family: str, kind: str, text: str, number: int) -> str:
    match kind:
        case "text":
            return f"The answer {text} is {number}."
        case "broken call":
            return called(family, "add", {"b": number})[:-9]
        case _:
            return called(family, "add", {"b": number, "a": text}, tight=kind == "tight call")


THOUGHT = "<think>\nhm\n</think>\n\n"


def test_a_thought_between_special_tokens_is_no_part_of_the_reply() -> None:
    """Mistral's marks are special tokens, which decoding leaves out with the border that they are."""
    known = tokenizer("qwen3")
    known.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]"]})
    known.chat_template = known.chat_template.replace("<think>", "[THINK]").replace("</think>", "[/THINK]")
    policy = ScriptedPolicy("qwen3", lambda request: "[THINK]hm[/THINK]It is 3.", ChatFormat(known))
    reply = Talk(policy, tools=False).turn([HumanMessage("q")])
    assert (reply.text, reply.additional_kwargs["reasoning_content"]) == ("It is 3.", "hm")


edits = st.lists(
    st.tuples(st.sampled_from(["go on", "nudge", "drop", "edit", "branch", "summary"]), texts, st.integers(0, 9)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("family", list(ENDS))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=edits)
def test_every_sampled_token_is_trained_on_once_whatever_a_graph_does(
    family: str, formats: dict[str, ChatFormat], edits: list[tuple[str, str, int]]
) -> None:
    """Histories that are trimmed, changed, summarised or gone back to; with thinking, where the template has it."""
    tools = family in WITH_TOOLS
    said = called(family, "add", {"a": 1}, tight=True) if tools else "Fine."
    reply = THOUGHT + said if family == "qwen3" else said
    talk = Talk(ScriptedPolicy(family, lambda request: reply, formats[family]), tools=tools)
    history: list[BaseMessage] = [SystemMessage("s"), HumanMessage("q")]
    for kind, text, number in edits:
        message = talk.turn(history)
        results = [ToolMessage("1", tool_call_id=str(call["id"])) for call in message.tool_calls]
        history = [*history, message, *results]
        match kind:
            case "nudge":
                history.append(HumanMessage("Continue."))
            case "drop":
                history = [history[0], HumanMessage("q"), *history[4:]]
            case "edit":
                changed = AIMessage(f"{message.text} {text}", tool_calls=message.tool_calls)
                history = [changed if one is message else one for one in history]
            case "branch":
                history = history[: max(2, 2 + number % len(history))]
            case "summary":
                history = [SystemMessage(text), HumanMessage("and now?")]
    assert sorted(talk.trained()) == sorted(talk.sampled())
    for row in pack(talk.calls, limit=100_000):
        tokens = [*row.prompt_ids, *row.response_ids]
        assert all(tokens[: len(call.prompt_ids)] == call.prompt_ids.tolist() for call in row.calls)


@pytest.mark.parametrize("family", WITH_TOOLS)
@pytest.mark.parametrize(
    ("reply", "choice", "unreadable"),
    [
        ("broken", "auto", True),
        ("text", "auto", False),
        ("text", "any", True),
        ("call", "any", False),
        ("other", "auto", True),
    ],
)
async def test_what_counts_as_unreadable(
    family: str, formats: dict[str, ChatFormat], reply: str, choice: str, unreadable: bool
) -> None:
    right, other = called(family, "add", {"a": 1}), called(family, "add", {"a": 1, "required": 2})
    written = {"broken": right[:-9], "text": "3", "call": right, "other": other}
    policy = ScriptedPolicy(family, lambda request: written[reply], formats[family])
    options = {"tools": [ADD], "tool_choice": choice}
    found = await policy(Conversations().request([HumanMessage("q")], Sampling(), options))
    assert found.unreadable == unreadable
    assert bool(found.tool_calls) == (reply in ("call", "other"))
    if reply == "broken":
        assert found.text == written[reply]


@pytest.mark.parametrize("family", [one for one in WITH_TOOLS if one != "llama3_1"])  # whose calls stand alone
async def test_blanks_around_the_text_beside_a_call_are_left_out(family: str, formats: dict[str, ChatFormat]) -> None:
    call = called(family, "add", {"a": 1})
    policy = ScriptedPolicy(family, lambda request: f" I add.\n\n{call}", formats[family])
    found = await policy(Conversations().request([HumanMessage("q")], Sampling(), {"tools": [ADD]}))
    assert ([one["args"] for one in found.tool_calls], found.text) == ([{"a": 1}], "I add.")


def test_a_template_without_tools_is_refused_before_anything_is_sampled(formats: dict[str, ChatFormat]) -> None:
    with pytest.raises(ChatError):
        formats["smollm2"].prompt_ids(ChatRequest([{"role": "user", "content": "q"}], tools=[ADD]))


@pytest.mark.parametrize("family", list(ENDS))
def test_a_teachers_reply_is_read_back_as_it_was(family: str, formats: dict[str, ChatFormat]) -> None:
    known, call = formats[family], {"name": "add", "arguments": {"a": 1, "b": 2}}
    replies = [({"role": "assistant", "content": "three"}, "three", [])]
    if family in WITH_TOOLS:
        with_call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
        replies.append((with_call, "", [call["arguments"]]))
    for reply, text, arguments in replies:
        request = ChatRequest([{"role": "user", "content": "1 + 2?"}], tools=[ADD] if family in WITH_TOOLS else [])
        ids = known.reply_ids(request, reply)
        assert ids[-1] == known.tokenizer.eos_token_id
        found = known.reply(request, "x", [], ids, [0.0] * len(ids))
        assert found.finish_reason == "stop"
        assert (found.text.strip(), [one["args"] for one in found.tool_calls]) == (text, arguments)


def test_a_form_is_in_the_prompt_where_there_is_no_place_for_tools(formats: dict[str, ChatFormat]) -> None:
    known, asked = formats["smollm2"], ChatRequest([{"role": "user", "content": "q"}], [ADD], "add", form="add")
    ids = known.prompt_ids(asked)
    assert json.dumps(ADD["function"]["parameters"]) in known.tokenizer.decode(ids)
    reply = known.reply(asked, "r", ids, known.tokenizer('{"a": 1}')["input_ids"], [])
    assert in_form(reply, asked).text == '{"a": 1}'
    assert not in_form(reply, asked).unreadable
    with pytest.raises(ChatError):
        known.prompt_ids(replace(asked, form=""))
