"""The ways in which a node may call its model."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def ainvoke(model: Any, asked: Any, **options: Any) -> str:
    return str((await model.ainvoke(asked, **options)).text)


async def astream(model: Any, asked: Any) -> str:
    return "".join([str(chunk.text) async for chunk in model.astream(asked)])


async def abatch(model: Any, asked: Any) -> str:
    return str((await model.abatch([asked, asked]))[1].text)


async def agenerate(model: Any, asked: Any) -> str:
    messages = model._convert_input(asked).to_messages()
    return str((await model.agenerate([messages])).generations[0][0].text)


WAYS: dict[str, Callable[[Any, Any], Awaitable[str]]] = {
    "ainvoke": ainvoke,
    "astream": astream,
    "abatch": abatch,
    "agenerate": agenerate,
    "callbacks": lambda model, asked: ainvoke(model, asked, config={"callbacks": []}),
    "invoke": lambda model, asked: asyncio.to_thread(lambda: str(model.invoke(asked).text)),
    "stream": lambda model, asked: asyncio.to_thread(lambda: "".join(str(one.text) for one in model.stream(asked))),
}
