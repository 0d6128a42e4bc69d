"""The time that a refusal asks to wait, in every form that servers are known to write."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.web import rate_limits
from agentflow.tools.web.rate_limits import asked_to_wait
from tests.cases import table

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("headers", "body", "seconds"), table(__file__, "rate_limits.jsonl"))
def test_the_time_is_read(
    headers: dict[str, str], body: Any, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits.time, "time", lambda: NOW)
    assert asked_to_wait(headers, body) == (seconds if seconds is None else pytest.approx(seconds))


@given(st.text(), st.text())
def test_any_text_is_read(header: str, body: str) -> None:
    for name in ("retry-after", "x-ratelimit-reset"):
        seconds = asked_to_wait({name: header}, body)
        assert seconds is None or seconds >= 0
