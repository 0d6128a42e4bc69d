"""The wikipedia_search tool: an encyclopedia's article by its name.

The page with that title is returned in full. Otherwise, one line on each of the closest pages is returned, so that the
next step can name one of them. Wikipedia and a local corpus answer in the same form. A retrieval server finds passages,
as does an index of short texts; these are returned unchanged.
"""

import re
from functools import partial

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from agentflow.tools.card import UNKNOWN, tool_with_card
from agentflow.tools.encyclopedia.choice import LIVE, encyclopedia_of, holds_passages, is_address, is_local
from agentflow.tools.encyclopedia.encyclopedia import Article, Encyclopedia, Found
from agentflow.tools.redaction import cut
from agentflow.tools.result import PROVIDER, ErrorClass, ToolFailure
from agentflow.tools.search_cache import SearchCache, cached

CLOSEST = 3
"""Pages of which one line is returned."""
PASSAGES = 5
"""Passages that are returned."""
MAX_LINE = 240
"""Characters of a closest page's first sentence."""

CARD = {
    "description": "Looks up an encyclopedia by the name of a person, place, firm, work or topic "
    "and returns its article.",
    "limits": "Query by one exact name, not by a question; does not reason or combine articles.",
    "examples": [{"query": "Alan Turing"}],
    "side_effects": False,
}

PASSAGES_CARD = {
    "description": "Finds the passages of an encyclopedia that fit a question best.",
    "limits": "Returns passages as they stand; does not reason or combine them.",
    "examples": [{"query": "Where was Alan Turing born?"}],
    "takes_question": True,
    "side_effects": False,
}
"""The card where the source holds passages, which a question finds better than a name."""


class Arguments(BaseModel):
    """Arguments of wikipedia_search."""

    query: str = Field(description="One name.")


class PassageArguments(BaseModel):
    """Arguments of wikipedia_search over passages."""

    query: str = Field(description="One question, whole, with every name in it.")


def wikipedia_search(source: str | Encyclopedia = LIVE, cache: SearchCache | None = None) -> BaseTool:
    """Return the tool for an encyclopedia, or for one by its name (`encyclopedia.choice.encyclopedia_of`).

    `cache` only stores results of remote sources, since a local corpus always gives the same answer.
    """
    corpus = source if isinstance(source, str) else type(source).__name__
    encyclopedia = encyclopedia_of(source) if isinstance(source, str) else source
    passages = isinstance(source, str) and holds_passages(source)
    card = PASSAGES_CARD if passages else CARD
    kept = None if isinstance(source, str) and is_local(corpus) else cache

    async def run(query: str) -> tuple[str, dict[str, str]]:
        name = " ".join(query.split())
        load = partial(encyclopedia.find, name, PASSAGES)
        return answer(name, await cached(kept, Found, "wikipedia_search", corpus, name, load)), {PROVIDER: corpus}

    return tool_with_card(
        "wikipedia_search",
        card,
        "" if isinstance(source, str) and not is_address(source) else UNKNOWN,
        run,
        args_schema=PassageArguments if passages else Arguments,
        response_format="content_and_artifact",
    )


def answer(name: str, found: Found) -> str:
    """Return the tool's output. Raises ToolFailure(EMPTY_RESULT) if nothing was found."""
    if found.exact and not found.exact.ambiguous:
        return f"{found.exact.title}: {found.exact.text}"
    if not found.closest:
        raise ToolFailure(ErrorClass.EMPTY_RESULT, f'no page matches "{name}"')
    if found.passages:
        return "\n".join(f"{page.title}: {' '.join(page.text.split())}" for page in found.closest)
    head = f'"{name}" names several pages' if found.exact else f'No page is titled "{name}"'
    return "\n".join(
        [f"{head}. Closest pages:", *(f"- {page.title}: {_first_sentence(page)}" for page in found.closest[:CLOSEST])]
    )


def _first_sentence(page: Article) -> str:
    if page.ambiguous:
        return "(several meanings)"
    text = " ".join(page.text.split())
    # A full stop within the first words is usually an initial or an abbreviation.
    match = re.match(r".{20,}?[.!?](?=\s|$)", text)
    sentence = match.group() if match else text
    return cut(sentence, MAX_LINE)
