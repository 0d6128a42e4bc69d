"""Each source becomes the same episodes: question, answer, reward."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.traces import chat_rows as chat
from agentflow.rl.traces import langsmith, otel
from agentflow.rl.traces.convert import convert, format_of
from agentflow.rl.traces.episode import Dropped, DropReason, Episode, TracesError
from tests.cases import table
from tests.failing import fails
from tests.unit.rl.traces.spans import Json, asked, attributes, chat_span, request, said, span, write

AGENT = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "travel"}


def run_of_spans(trace: str, question: str) -> list[Json]:
    conversation = {"gen_ai__input__messages": [said("user", question)]}
    conversation["gen_ai__output__messages"] = [said("assistant", "There.")]
    root = span("a", "invoke_agent travel", trace=trace, **AGENT, **conversation)
    score = {"key": "gen_ai.evaluation.score.value", "value": {"intValue": "1"}}
    named = attributes({"gen_ai.evaluation.name": "judge"})
    root["events"] = [{"name": "gen_ai.evaluation.result", "attributes": [*named, score]}]
    node = span("b", "research", trace=trace, parent="a", start=1, openinference__span__kind="CHAIN")
    call = chat_span("c", "Find it", "Found", trace=trace, parent="b", start=2)
    return [call, node, root]  # spans are exported when they end


def otel_episodes(path: Path) -> list[Episode]:
    return list(otel.read(path, Dropped(list)))


def test_spans_of_traces_may_be_mixed_and_in_one_document(tmp_path: Path) -> None:
    first, second = run_of_spans("t1", "One?"), run_of_spans("t2", "Two?")
    mixed = [one for pair in zip(first, second, strict=True) for one in pair]
    as_lines = otel_episodes(write(tmp_path / "s.jsonl", [request(one) for one in mixed]))
    (tmp_path / "s.json").write_text(json.dumps(request(*mixed), indent=1))
    assert format_of(tmp_path / "s.json") == "otel"
    for found in (as_lines, otel_episodes(tmp_path / "s.json")):
        told = [(one.question, one.answer, one.reward) for one in found]
        assert told == [("One?", "There.", 1.0), ("Two?", "There.", 1.0)]


def test_a_trace_without_an_agent_is_one_run(tmp_path: Path) -> None:
    spans = [chat_span("a", "One?", "Eins", start=1), chat_span("b", "Two?", "Zwei", start=2)]
    [found] = otel_episodes(write(tmp_path / "s.jsonl", [request(*spans)]))
    assert (found.question, found.answer, found.reward) == ("One?", "Zwei", None)


@pytest.mark.parametrize(
    ("attribute", "name"), [("traceloop__span__kind", "Traceloop"), ("langfuse__observation__type", "Langfuse")]
)
def test_spans_of_other_conventions_are_named(attribute: str, name: str, tmp_path: Path) -> None:
    dropped = Dropped(list)
    foreign = [span(id, "ChatOpenAI", **{attribute: "LLM", "llm__model_name": "m"}) for id in ("a", "b")]
    own = chat_span("c", "One?", "Eins", **{attribute: "LLM"})
    found = list(otel.read(write(tmp_path / "s.jsonl", [request(*foreign, own, span("d", "plain"))]), dropped))
    assert dropped == {DropReason.OTHER_CONVENTION: [f"s.jsonl ({name})"] * 2}
    assert [one.question for one in found] == ["One?"]


def openinference_call(**reply: Any) -> Json:
    """A model call with attributes of OpenInference only."""
    asked = {"llm__input_messages__0__message__role": "user", "llm__input_messages__0__message__content": "What?"}
    replied = {"llm__output_messages__0__message__role": "assistant"}
    replied |= {f"llm__output_messages__0__message__{name}": value for name, value in reply.items()}
    return span("b", "ChatOpenAI", parent="a", start=1, openinference__span__kind="LLM", **asked, **replied)


@pytest.mark.parametrize(
    ("reply", "answer", "dropped"),
    [
        ({"content": "So."}, "So.", 0),
        ({"contents__0__message_content__type": "text", "contents__0__message_content__text": "So."}, "So.", 0),
        ({"contents__0__message_content__type": "image"}, "", 1),
        ({"tool_calls__0__tool_call__function__name": "f"}, "", 0),
        ({"tool_calls__0__tool_call__function__arguments": "{"}, "", 1),
    ],
)
def test_replies_of_openinference(tmp_path: Path, reply: Json, answer: str, dropped: int) -> None:
    root = span("a", "Crew", openinference__span__kind="AGENT", input__value="What?", output__value="__REDACTED__")
    why = Dropped(list)
    [found] = otel.read(write(tmp_path / "s.jsonl", [request(root, openinference_call(**reply))]), why)
    assert (found.question, found.answer, len(why[DropReason.NOT_TEXT])) == ("What?", answer, dropped)


def test_what_was_said_before_a_question_is_its_input_with_the_calls_of_tools(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "1", "name": "add", "arguments": {"a": 1}}
    response = {"type": "tool_call_response", "id": "1", "response": "2"}
    before = [said("user", "One more?"), {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [response]}]
    prompt = [said("system", "Add."), *before, said("user", "Again?")]
    made = chat_span("a", "", "Three", gen_ai__input__messages=prompt)
    [found] = otel_episodes(write(tmp_path / "s.jsonl", [request(made)]))
    asked = {"type": "function", "id": "1", "function": {"name": "add", "arguments": {"a": 1}}}
    assert (found.question, found.answer) == ("Again?", "Three")
    assert found.inputs == {
        "messages": [
            {"role": "user", "content": "One more?"},
            {"role": "assistant", "content": "", "tool_calls": [asked]},
            {"role": "tool", "content": "2", "tool_call_id": "1"},
            {"role": "user", "content": "Again?"},
        ]
    }


def lc(kind: str, content: str, **more: Any) -> Json:
    """A message as LangChain serialises it."""
    path = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, **more}}


def langsmith_run(**root: Any) -> list[Json]:
    """The run of a graph and that of a model in it."""
    asked = {"messages": [["user", "How many?"]]}
    answered = {"messages": [lc("HumanMessage", "How many?"), lc("AIMessage", "Two.")]}
    known = {"id": "r", "trace_id": "r", "run_type": "chain", "inputs": asked, "outputs": answered}
    model = {"inputs": asked, "outputs": {"generations": [[{"message": lc("AIMessage", "Hm.")}]]}}
    return [{**known, **root}, {"id": "m", "trace_id": "r", "parent_run_id": "r", "run_type": "llm", **model}]


def langsmith_episode(path: Path, dropped: Dropped | None = None) -> Episode:
    [found] = langsmith.read(path, Dropped(list) if dropped is None else dropped)
    return found


ROOT, MODEL = langsmith_run()
NESTED = {**ROOT, "child_runs": [MODEL], "feedback_stats": {"thumbs": {"n": 2, "avg": 0.5}}}
OPENAI = langsmith_run(
    inputs={"messages": [{"role": "user", "content": [{"type": "text", "text": "How many?"}]}]},
    outputs={"choices": [{"message": {"role": "assistant", "content": "2"}}]},
    reference_outputs={"answer": "3"},
)
FAILED = langsmith_run(error="down", feedback=[{"key": "thumbs", "score": 0}])


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([ROOT, MODEL], {"question": "How many?", "answer": "Two.", "reward": None, "inputs": None}),
        ([NESTED], {"question": "How many?", "reward": 0.5}),
        (OPENAI, {"question": "How many?", "answer": "2", "gold": "3"}),
        (FAILED, {"answer": "", "reward": None}),
    ],
    ids=["plain", "nested, with feedback", "OpenAI's outputs and a reference", "failed"],
)
def test_a_langsmith_export(runs: list[Json], expected: Json, tmp_path: Path) -> None:
    found = langsmith_episode(write(tmp_path / "any.jsonl", runs))
    assert {name: getattr(found, name) for name in expected} == expected


def test_feedback_beside_the_runs(tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", langsmith_run())
    feedback = [
        {"run_id": "r", "key": "thumbs", "score": 0},
        {"run_id": "r", "key": "tone", "value": "up"},
        {"run_id": "r", "key": "stars", "score": 5},
        {"run_id": "r", "key": "note", "correction": {"answer": "Three."}},
    ]
    write(tmp_path / "feedback.jsonl", feedback)
    dropped = Dropped(list)
    found = langsmith_episode(tmp_path, dropped)
    assert (found.reward, found.edit) == (0.0, "Three.")
    assert dropped == {DropReason.BAD_SCORE: ["runs.jsonl, line 1"]}


@pytest.mark.parametrize(("score", "reward"), table(__file__, "scores.txt"))
def test_scores_of_chat_rows(tmp_path: Path, score: Json, reward: float | None) -> None:
    [found] = chat.read(write(tmp_path / "chat.jsonl", [asked("How?", "So.", **score)]), Dropped(list))
    assert found.reward == reward


def test_every_bad_line_is_counted_with_its_number(tmp_path: Path) -> None:
    good = json.dumps(asked("How?", "So.", score=1))
    deep = "[" * 200_000
    bad = ["{", "[]", '{"other": 1}', '{"messages": 3}', '{"messages": [{"role": "user"}]}', '"\ud800', deep]
    text = "\n".join([good, *bad, "", good])
    (tmp_path / "chat.jsonl.gz").write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass")))
    _, dropped = convert(tmp_path / "chat.jsonl.gz", tmp_path / "out")
    place = "chat.jsonl.gz, line {}".format
    assert dropped == {
        DropReason.MALFORMED: [place(2), place(3), place(7), place(8)],
        DropReason.OTHER_FORMAT: [place(4)],
        DropReason.NOT_TEXT: [place(5)],
        DropReason.NO_QUESTION: [place(6)],
    }


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b'{"messages": []}\n' * 1000)[:-20], b"\x1f\x8b" + bytes(40)],
    ids=["cut", "broken"],  # the header of an archive has the time
)
def test_an_archive_that_is_cut_or_broken_is_no_source(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "chat.gz").write_bytes(content)
    with fails(TracesError, "unreadable", tmp_path / "chat.gz"):
        convert(tmp_path / "chat.gz", tmp_path / "out", format="chat")
