"""Structured output in the forms that people write it, none of which shows the schema to the model by itself."""

from importlib.util import find_spec
from typing import Any

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI
from pydantic import BaseModel, SecretStr

from tests.agents.model import URL, model


class Sum(BaseModel):
    """A sum of two numbers."""

    a: int
    b: int


agent: Any = create_agent(model, response_format=ProviderStrategy(Sum))
by_tool: Any = create_agent(model, response_format=ToolStrategy(Sum))
client = AsyncOpenAI(base_url=URL, api_key="none")


async def parse(question: Any) -> Any:
    asked: Any = [{"role": "user", "content": question}]
    return (
        (await client.chat.completions.parse(model="m", messages=asked, response_format=Sum)).choices[0].message.parsed
    )


FORMS: dict[str, Any] = {
    "default": model.with_structured_output(Sum),
    "json_mode": model.with_structured_output(Sum, method="json_mode"),
    "json schema": model.with_structured_output(Sum.model_json_schema(), method="json_schema") | Sum.model_validate,
    "function_calling": model.with_structured_output(Sum, method="function_calling"),
    "ollama": model.bind(format=Sum.model_json_schema()) | (lambda said: Sum.model_validate_json(said.text)),
    "parse": RunnableLambda(parse),
    "agent": RunnableLambda(lambda q: {"messages": q}) | agent | (lambda state: state["structured_response"]),
}

if find_spec("langchain_anthropic"):  # not with the packages of `make test` alone
    from langchain_anthropic import ChatAnthropic

    claude = ChatAnthropic(model_name="claude-sonnet-4-5", api_key=SecretStr("none"), timeout=None, stop=None)
    FORMS["anthropic"] = claude.with_structured_output(Sum, method="json_schema")
if find_spec("langchain_google_genai"):
    from langchain_google_genai import ChatGoogleGenerativeAI

    gemini = ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key=SecretStr("none"))
    FORMS["gemini"] = gemini.with_structured_output(Sum, method="json_schema")


def graph(form: str) -> Any:
    """A graph whose only node wants a reply in a form."""

    async def fill_in(state: MessagesState) -> Any:
        return {"messages": [("ai", repr(await FORMS[form].ainvoke(state["messages"][-1].text)))]}

    return StateGraph(MessagesState).add_node(fill_in).add_edge(START, "fill_in").compile()
