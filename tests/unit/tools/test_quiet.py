"""Warnings are ignored in one thread at a time."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentflow.nodes.reply_parsing import parsed
from agentflow.tools.catalogue import standard_tool
from agentflow.tools.quiet import without_warnings
from agentflow.tools.search_settings import SearchSettings


async def ask(prompt: str) -> str:
    return prompt


def test_what_ignores_warnings_in_many_threads_leaves_the_filters_as_they_were() -> None:
    before = list(warnings.filters)

    def work(number: int) -> None:
        if number % 2:
            assert parsed(r'"\d"')
        else:
            standard_tool("python_coder", ask, SearchSettings())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(200)))
    assert warnings.filters == before


def test_only_that_category_is_ignored() -> None:
    with without_warnings(DeprecationWarning):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        with pytest.raises(RuntimeWarning):
            warnings.warn("wrong", RuntimeWarning, stacklevel=1)
