"""Checkpoint stores, as far as that takes no database."""

import os
import sys
from pathlib import Path

import pytest

from agentflow import CheckpointError, open_checkpointer
from agentflow.graph.checkpoints import STATE_TYPES, StateSerializer
from agentflow.graph.state import Plan
from tests.failing import fails


class Own(Plan):
    """Type of an application's own state."""


async def test_a_missing_extra_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "aiosqlite", None)
    with fails(CheckpointError, "missing_package", "aiosqlite", "[durable]", configuration=True):
        async with open_checkpointer("sqlite:x.sqlite"):
            pass
    assert os.listdir() == []


@pytest.mark.parametrize("spec", ["postgres://user:hunter2-hunter2@host", "redis://somewhere", "sqlite:"])
async def test_a_setting_that_names_no_place(spec: str) -> None:
    with fails(CheckpointError, "bad_spec", configuration=True) as caught:
        async with open_checkpointer(spec):
            pass
    assert "hunter2" not in str(caught.value)


def test_only_the_types_of_the_state_come_back() -> None:
    plan, own = Plan(text="x"), Own(text="x")
    serializer = StateSerializer()
    assert Plan in STATE_TYPES
    assert serializer.loads_typed(serializer.dumps_typed(plan)) == plan
    assert serializer.loads_typed(serializer.dumps_typed(own)) == own.model_dump()
    assert StateSerializer([Own]).loads_typed(serializer.dumps_typed(own)) == own


@pytest.mark.parametrize("data", [b"\x91" * 50_000, b"\xd9"])
def test_damaged_data_is_an_error_of_the_checkpoints(data: bytes) -> None:
    with fails(CheckpointError, "damaged"):
        StateSerializer().loads_typed(("msgpack", data))
