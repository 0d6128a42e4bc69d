"""Targets of tracing that cannot be switched on, each with one line that says what to write."""

import pytest

from agentflow import TracingError, tracing
from tests.cases import table
from tests.failing import fails


@pytest.mark.parametrize(("to", "code", "named"), table(__file__, "setup.txt"))
def test_what_cannot_be_switched_on(to: str, code: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGSMITH_API_KEY", raising=False)
    if to.startswith("otel"):
        pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")
    with fails(TracingError, code, named), tracing(to):
        pass


def test_a_process_is_traced_once(tmp_path: object) -> None:
    pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")
    once = f"otel:{tmp_path}/spans.jsonl"
    with tracing(once), fails(TracingError, "traced_twice", "otel"), tracing(once):
        pass
    with tracing(once):  # and again, after it was
        pass
