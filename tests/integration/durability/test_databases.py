"""The database that keeps runs: what comes back from it, and what it says when it fails."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import ormsgpack
import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.graph import threads
from agentflow.graph.agent import build_graph
from agentflow.graph.checkpoints import CheckpointError, open_checkpointer
from agentflow.graph.context import Context
from tests.failing import fails
from tests.scripted import Scripted, echo, question

pytestmark = pytest.mark.slow


@pytest.fixture
def spec(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'threads.sqlite'}"


@pytest.fixture
async def saver(spec: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    async with open_checkpointer(spec) as opened:
        yield opened


def thread() -> Any:
    return threads.config_of(uuid4().hex)


async def test_fifty_threads_at_once(saver: BaseCheckpointSaver[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted()
    script.install(monkeypatch)
    graph = build_graph([echo], context=Context(model=script.spec), checkpointer=saver)
    found = await asyncio.gather(*(graph.ainvoke(question(), thread()) for _ in range(50)))
    assert [state["answer"] for state in found] == ["hello"] * 50


async def test_objects_written_as_json_are_refused(saver: BaseCheckpointSaver[Any]) -> None:
    planted = b'{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"]}'
    with fails(CheckpointError, "json_object"):
        saver.serde.loads_typed(("json", planted))
    with pytest.raises(NotImplementedError):
        saver.serde.loads_typed(("pickle", b""))
    assert saver.serde.loads_typed(("msgpack", ormsgpack.packb({"a": 1}))) == {"a": 1}


# What goes wrong


async def test_a_database_that_fails_in_the_middle(spec: str) -> None:
    with fails(CheckpointError, "unusable"):
        async with open_checkpointer(spec) as saver:
            await saver.conn.execute("DROP TABLE checkpoints")
            await saver.aget_tuple(thread())


async def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"this is no database, whatever its name says" * 100)
    for path, code in ((broken, "unusable"), (broken / "below", "unwritable")):
        with fails(CheckpointError, code, broken):
            async with open_checkpointer(f"sqlite:{path}"):
                pass


async def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "threads.sqlite"
    async with open_checkpointer(str(path)):
        assert path.stat().st_mode & 0o077 == 0
