"""Loops that know no LangChain model: the openai client, sync and streamed, and code in the text of a reply."""

import json
import re
from typing import Any

from langchain_core.messages import convert_to_openai_messages
from langgraph.graph import MessagesState
from openai import AsyncOpenAI, OpenAI

from tests.agents.calling import look_up
from tests.agents.model import URL, model
from tests.agents.states import chain

SPEC: Any = {
    "type": "function",
    "function": {"name": "look_up", "parameters": look_up.get_input_schema().model_json_schema()},
}
client, async_client = OpenAI(base_url=URL, api_key="none"), AsyncOpenAI(base_url=URL, api_key="none")


def loop(state: MessagesState) -> Any:
    said: Any = convert_to_openai_messages(state["messages"])
    while True:
        reply = client.chat.completions.create(model="m", messages=said, tools=[SPEC], parallel_tool_calls=True)
        said.append(reply.choices[0].message.model_dump(exclude_none=True))
        for call in reply.choices[0].message.tool_calls or ():
            result = look_up.invoke(json.loads(call.function.arguments))
            said.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if not reply.choices[0].message.tool_calls:
            return {"messages": [("ai", said[-1]["content"])]}


async def stream(state: MessagesState) -> Any:
    said: Any = convert_to_openai_messages(state["messages"])
    parts = await async_client.chat.completions.create(model="m", messages=said, stream=True)
    text = "".join([part.choices[0].delta.content or "" async for part in parts if part.choices])
    return {"messages": [("ai", text)]}


async def act(state: MessagesState) -> Any:
    """Run the code of a reply, which prints a word, until there is none."""
    said = list(state["messages"])
    while code := re.search(r"```python\nprint\('(\w{1,20})'\)\n```", str((reply := await model.ainvoke(said)).text)):
        said += [reply, ("user", f"It printed {code[1]}.")]  # type: ignore[list-item]
    return {"messages": [*said[len(state["messages"]) :], reply]}


blocking, streamed, code = (chain(MessagesState, node) for node in (loop, stream, act))
