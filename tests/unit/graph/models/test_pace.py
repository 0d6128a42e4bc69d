"""Rate limits: what a server asks for is waited for, by everyone, and nothing else is."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.graph.models.pace import LONGEST, Pace, retry_after
from tests.cases import table


@pytest.mark.parametrize(("headers", "seconds"), table(__file__, "pace.txt"))
def test_the_time_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@given(st.text())
def test_any_header_is_read(text: str) -> None:
    seconds = retry_after({"retry-after": text})
    assert seconds is None or seconds >= 0


async def test_one_refusal_holds_back_all_requests_to_that_server_and_to_no_other() -> None:
    pace, start = Pace(), time.monotonic()
    assert pace.refused("slow:80", 0.3)
    assert pace.refused("slow:80", 0.0), "an earlier, longer wait stands"
    with pytest.raises(StopIteration):
        pace.keep("other:80").send(None)  # it returns without waiting
    await asyncio.gather(*(pace.keep("slow:80") for _ in range(3)))
    assert time.monotonic() - start >= 0.3


def test_a_server_that_asks_for_too_much_is_not_waited_for() -> None:
    assert not Pace().refused("slow:80", LONGEST + 1)
