"""The base_generator tool: the model answers from the text of the request alone."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from langchain_core.tools import BaseTool

from agentflow.tools.card import RUN, tool_with_card
from agentflow.tools.result import ErrorClass, ToolFailure

Ask = Callable[[str], Awaitable[str]]
"""Sends a prompt to the model of the tools that need one and returns its text. Raises ToolFailure(MODEL_ERROR)."""

CARD = {
    "description": "Answers from the words of the request alone, without looking anything up or running code. "
    "Good for reading a fact out of a given text, rewording, and simple reasoning.",
    "limits": "Knows no fresh or rare facts and guesses when it does not know; unreliable at arithmetic.",
    "examples": [{"query": "Text: The code is 7. What is the code?"}],
    "side_effects": False,
    "takes_step": "query",
}


def prompt(query: str) -> str:
    """Return the prompt. It must match, character for character, the one that the embedded model was trained on."""
    return "Answer the request below directly and briefly. Give only the answer.\n\nRequest: " + query


def base_generator(ask: Ask) -> BaseTool:
    """Return the tool, which answers by calling `ask`."""

    async def run(query: Annotated[str, "What to answer, with all the text it needs."]) -> str:
        answer = (await ask(prompt(query))).strip()
        if not answer:
            raise ToolFailure(ErrorClass.EMPTY_RESULT, "the model gave no answer")
        return answer

    return tool_with_card("base_generator", CARD, RUN, run)
