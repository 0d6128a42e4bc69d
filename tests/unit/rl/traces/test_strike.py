"""No secret and no personal data of a known shape survives a conversion; ordinary text does."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.traces.convert import convert
from agentflow.rl.traces.personal import without_personal
from agentflow.tools import redaction
from tests.cases import sections
from tests.unit.rl.traces.spans import chat_span, request, write
from tests.unit.tools.test_redaction import CASES

KINDS, ORDINARY = sections(__file__, "strike.txt").values()
PERSONAL = dict(KINDS)

WORDS = st.text("abc XYZ.,\n'\"{}", max_size=20)
SECRETS = st.sampled_from([*CASES["keys of services"], *PERSONAL.values()])


@pytest.fixture(autouse=True)
def _no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())


@pytest.mark.parametrize("text", PERSONAL.values(), ids=PERSONAL)
@pytest.mark.parametrize("around", ["{}", "It is {}.", "({}), and", "<{}>"])
def test_personal_data_is_struck_out(text: str, around: str) -> None:
    assert without_personal(around.format(text)) == around.format("***")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert without_personal(text) == text


@given(SECRETS, WORDS, WORDS)
def test_nothing_survives_in_any_place_of_any_source(secret: str, before: str, after: str) -> None:
    text = f"{before} {secret} {after}"
    call = {"type": "function", "id": text, "function": {"name": "f", "arguments": {"deep": [{text: text}]}}}
    question = {"role": "user", "content": text}
    reply = {"role": "assistant", "content": f"So. {text}", "tool_calls": [call]}
    rows = [
        {"messages": [["system", text], question, reply], "score": 1, "id": text},
        {"messages": [question, {"role": "assistant", "content": "no"}], "score": 0},
        {"messages": [question, {"role": "assistant", "content": text}], "edit": text},
    ]
    run = {"inputs": {"question": text, "k": text}, "outputs": {"answer": text}, "feedback_stats": {"t": {"avg": 1}}}
    runs = [{"id": "r", "run_type": "chain", **run}]
    sources = {"chat": rows, "otel": [request(chat_span("a", text, text))], "langsmith": runs}
    with TemporaryDirectory() as name:
        for format, lines in sources.items():
            source = write(Path(name) / f"{format}.jsonl", lines)
            written, _ = convert(source, Path(name) / format)
            assert written
        texts = "".join(path.read_text() for path in Path(name).glob("*/*"))
    assert "***" in texts
    assert secret not in texts
    assert json.dumps(secret)[1:-1] not in texts
