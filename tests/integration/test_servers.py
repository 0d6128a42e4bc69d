"""The bestiary: what servers are known to send, each a row of servers.jsonl with its source, and what we read in it."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.loading import ask, stream_text
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.nodes.answer_text import AnswerStream
from agentflow.nodes.planner import parse
from agentflow.nodes.reply_parsing import spoken
from tests.fake_openai import FakeOpenAI, Reply

Row = dict[str, Any]
ROWS: list[Row] = [
    json.loads(line) for line in (Path(__file__).parent / "cases/servers.jsonl").read_text().splitlines()
]


def sent(row: Row, body: dict[str, Any]) -> Reply:
    """What the server of a row sends: `body` as it is, `message` whole or as the parts of a stream, or `events`."""
    if "body" in row:
        return 200, row["body"], {"Content-Type": "text/html" if isinstance(row["body"], str) else "application/json"}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    reason, message = row.get("finish_reason", "stop"), row.get("message", {})
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        return 200, {**head, "object": "chat.completion", "choices": [choice]}
    events = row.get("events")
    if events is None:
        deltas = [{key: part} for key, value in message.items() for part in parts(value)]
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, "[DONE]"]
    lines = [line(event if isinstance(event, str) else head | event) for event in events]
    return 200, "".join(f"{one}\r\n\r\n" for one in lines), {"Content-Type": "text/event-stream"}


def parts(value: Any) -> list[Any]:
    return [value[:9], value[9:]] if isinstance(value, str) else [value]


def line(event: Any) -> str:
    if isinstance(event, str):
        return event if event.startswith(":") else f"data: {event}"
    return f"data: {json.dumps(event)}"


async def read(row: Row, how: str) -> str:
    with FakeOpenAI(lambda body: sent(row, body)) as server:
        context = Context(model=f"openai-compatible:m@{server.base_url}")
        if how == "whole":
            return await ask(context, "generator", [HumanMessage("What is 3 times 17?")])
        return "".join(
            [part async for part in stream_text(context, "generator", [HumanMessage("What is 3 times 17?")])]
        )


@pytest.mark.parametrize(
    ("row", "how"),
    [
        pytest.param(row, how, id=f"{row['case']}, {how}")
        for row in ROWS
        for how in row.get("how", ["streamed"] if "events" in row else ["whole", "streamed"])
    ],
)
async def test_what_a_server_sends_is_read_or_named(row: Row, how: str) -> None:
    if "says" in row:
        text = await read(row, how)
        assert spoken(text) == row["says"]
        assert how == "streamed" or text.strip() == row["says"], "a node gets what is said, and nothing else"
        return
    with pytest.raises(ModelError) as caught:
        await read(row, how)
    assert caught.value.code == row["code"]
    assert row.get("named", "") in str(caught.value)


@pytest.mark.parametrize("case", ["no text, only a thought", "cut off while thinking", "refusal", "filter"])
async def test_a_reply_that_says_nothing_is_no_fault_of_the_planner(case: str) -> None:
    [row] = [row for row in ROWS if row["case"] == case]
    with FakeOpenAI(lambda body: sent(row, body)) as server:
        context = Context(model=f"openai-compatible:m@{server.base_url}")
        trace = await run(build_graph(), Task.of("What is 3 times 17?", "51"), context)
    assert (trace.status, trace.cause) == ("failed", "infrastructure")
    assert isinstance(trace.failure, ModelError)
    assert trace.failure.code == row["code"]


async def test_a_planner_that_says_nothing_is_told_from_one_that_says_too_little() -> None:
    for message in ("", "I would add."):
        with FakeOpenAI(lambda body, message=message: sent({"message": {"content": message}}, body)) as server:
            context = Context(model=f"openai-compatible:m@{server.base_url}", max_turns=1)
            trace = await run(build_graph(), Task.of("What is 3 times 17?", "51"), context)
        assert trace.status == "no_plan"
        assert f"({parse(message, ['python_coder']).problem})" in trace.answer


async def test_a_thought_that_the_prompt_opened_is_not_shown_once_the_model_is_known_for_it() -> None:
    reply = "It is 50, if I am not wrong.\nBut I am: 3 times 7 is 21, and 3 times 10 is 30.\n</think>\n\nAnswer: 51"
    with FakeOpenAI(lambda _: reply) as server:
        context, asked = Context(model=f"openai-compatible:m@{server.base_url}"), [HumanMessage("?")]
        assert await ask(context, "planner", asked) == "\n\nAnswer: 51"
        answer = AnswerStream()
        shown = [answer.add(part) async for part in stream_text(context, "generator", asked)]
    assert "".join(shown) + answer.end() == "51"
