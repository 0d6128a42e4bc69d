"""wikipedia_search: an encyclopedia's article by its name.

The page of that title comes back in full, else one line on each of the closest pages, so that the next step can name
one of them. Live Wikipedia and a local corpus answer in the same form.
"""

import re

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from agentflow.tools.encyclopedia import Encyclopedia, Found, LocalEncyclopedia, Page
from agentflow.tools.mediawiki import MediaWiki
from agentflow.tools.result import ErrorClass, ToolFailure

LIVE = "live"
"""The corpus name that stands for the MediaWiki API."""
CLOSEST = 3
MAX_LINE = 240
"""Characters of a closest page's first sentence."""

CARD = {
    "description": "Looks up an encyclopedia by the name of a person, place, firm, work or topic "
    "and returns its article.",
    "limits": "Query by one exact name, not by a question; does not reason or combine articles.",
    "examples": [{"query": "Alan Turing"}],
}


class Arguments(BaseModel):
    """Arguments of wikipedia_search."""

    query: str = Field(description="One name.")


def wikipedia_search(source: str | Encyclopedia) -> BaseTool:
    """The tool, reading from an encyclopedia, or from a corpus by name ("live", a provider's name, or a path)."""
    encyclopedia = _encyclopedia(source) if isinstance(source, str) else source

    async def run(query: str) -> str:
        name = " ".join(query.split())
        return answer(name, await encyclopedia.find(name, CLOSEST))

    return StructuredTool.from_function(
        coroutine=run,
        name="wikipedia_search",
        description=str(CARD["description"]),
        args_schema=Arguments,
        metadata={"agentflow": CARD},
    )


def _encyclopedia(corpus: str) -> Encyclopedia:
    return MediaWiki() if corpus == LIVE else LocalEncyclopedia(corpus)


def answer(name: str, found: Found) -> str:
    """What the tool says; raises ToolFailure(EMPTY_RESULT) if nothing was found."""
    if found.exact and not found.exact.ambiguous:
        return f"{found.exact.title}: {found.exact.text}"
    if not found.closest:
        raise ToolFailure(ErrorClass.EMPTY_RESULT, f'no page matches "{name}"')
    head = f'"{name}" names several pages' if found.exact else f'No page is titled "{name}"'
    return "\n".join(
        [f"{head}. Closest pages:", *(f"- {page.title}: {_first_sentence(page)}" for page in found.closest)]
    )


def _first_sentence(page: Page) -> str:
    if page.ambiguous:
        return "(several meanings)"
    text = " ".join(page.text.split())
    # A full stop within the first words is an initial or an abbreviation more often than an end.
    match = re.match(r".{20,}?[.!?](?=\s|$)", text)
    sentence = match.group() if match else text
    return sentence if len(sentence) <= MAX_LINE else sentence[: MAX_LINE - 1] + "…"
