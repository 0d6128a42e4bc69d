"""Streamed replies, as servers send them, read as whole ones."""

import json

import pytest

from agentflow.graph.models.errors import StreamCutError
from agentflow.graph.models.streamed import completion
from tests.cases import table


@pytest.mark.parametrize(("body", "message", "reason", "total"), [*map(tuple, table(__file__, "streams.txt"))])
def test_a_stream_is_read_as_the_whole_reply(body: str, message: object, reason: str | None, total: int | None) -> None:
    found = completion(body.encode())
    (choice,) = found["choices"]
    assert (choice["message"], choice.get("finish_reason")) == (message, reason)
    assert found.get("usage", {}).get("total_tokens") == total
    assert completion(json.dumps(found).encode()) == found, "a whole reply stays as it is"


def test_a_stream_without_its_end_is_no_reply() -> None:
    with pytest.raises(StreamCutError):
        completion(b'data: {"choices": [{"delta": {"content": "half"}, "finish_reason": null}]}\n\n')
