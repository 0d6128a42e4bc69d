"""Endpoint of an agent that learns, with the embedded model."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("hydra", reason="the extra train is not installed")

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.rl.live.journal import Traffic, VersionDecision
from agentflow.rl.live.learner import Learner, LearningSettings
from agentflow.rl.live.server import LiveAgent
from agentflow.rl.live.versions import Versions
from agentflow.rl.micro.chat_model import SEED, TRAINED
from tests.cases import table

CONTEXT = Context(model="embedded:seed", models={"planner": "embedded:seed"})


class Parts:
    """The parts of a server whose learner does not run."""

    def __init__(self, folder: Path, versions: Versions, traffic: Traffic, key: str = "") -> None:
        self.versions, self.traffic = versions, traffic
        settings = LearningSettings(folder, folder / "held.jsonl", CONTEXT, SEED)
        learner = Learner(settings, self.traffic, self.versions)
        self.live = LiveAgent(build_graph(), learner, self.versions, self.traffic, key)

    def client(self, key: str = "") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.live.app(), client=("127.0.0.1", 1))
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=None)


@pytest.fixture
def parts(tmp_path: Path, versions: Versions, traffic: Traffic) -> Parts:
    return Parts(tmp_path, versions, traffic)


@pytest.fixture
async def client(parts: Parts) -> AsyncIterator[httpx.AsyncClient]:
    async with parts.client() as client:
        yield client


def asking(*texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return {"model": "agent", "messages": messages, **fields}


async def test_an_answer_can_be_scored(client: httpx.AsyncClient, parts: Parts) -> None:
    reply = (await client.post("/v1/chat/completions", json=asking("How many feet are 3 yards?"))).json()
    assert (reply["choices"][0]["message"]["content"], reply["system_fingerprint"]) == ("9", "version-0")
    assert reply["usage"]["total_tokens"] > 100
    scored = await client.post("/v1/feedback", json={"id": reply["id"], "score": 1, "answer": "9 feet"})
    assert scored.json() == {"id": reply["id"]}
    [(answer, feedback)] = parts.traffic.unused
    assert (answer.question, answer.answer, answer.version) == ("How many feet are 3 yards?", "9", 0)
    assert (feedback.score, feedback.answer) == (1, "9 feet")


async def test_the_answer_streams(client: httpx.AsyncClient, parts: Parts) -> None:
    body = asking("How many feet are 3 yards?", stream=True)
    lines = [line async for line in (await client.post("/v1/chat/completions", json=body)).aiter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "9"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "stop"
    assert {chunk["id"] for chunk in chunks} == set(parts.traffic.answers)


async def test_the_version_that_was_promoted_last_answers(parts: Parts) -> None:
    parts.live._learner.weights(1).parent.mkdir()
    parts.live._learner.weights(1).symlink_to(TRAINED)
    async with parts.client() as client:
        replies = [await client.post("/v1/chat/completions", json=asking("3 + 4?"))]
        parts.versions.decide(VersionDecision(version=1, outcome="promoted", reason=""))
        replies.append(await client.post("/v1/chat/completions", json=asking("3 + 4?")))
        assert [reply.json()["system_fingerprint"] for reply in replies] == ["version-0", "version-1"]
        state = (await client.get("/v1/learning")).json()
    assert (state["current"], state["unused"], len(state["decisions"])) == (1, 0, 1)
    assert datetime.fromisoformat(state["since"]) <= datetime.now(UTC)


@pytest.mark.parametrize(("path", "body", "status", "code"), table(__file__, "refused.txt"))
async def test_what_cannot_be_answered_is_refused(
    client: httpx.AsyncClient, path: str, body: Any, status: int, code: str | None
) -> None:
    reply = await client.post(f"/v1/{path}", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


async def test_a_run_that_fails_is_an_error_and_is_recorded(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = CONTEXT.model_copy(update={"models": {"planner": "embedded:/nowhere"}})
    monkeypatch.setattr(parts.live._learner, "context", lambda version: broken)
    async with parts.client() as client:
        reply = await client.post("/v1/chat/completions", json=asking("3 + 4?"))
        streamed = await client.post("/v1/chat/completions", json=asking("3 + 4?", stream=True))
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "run_failed")
    assert '"run_failed"' in streamed.text
    assert [one.status for one in parts.traffic.answers.values()] == ["failed", "failed"]


async def test_a_key_is_asked_for(tmp_path: Path, versions: Versions, traffic: Traffic) -> None:
    parts = Parts(tmp_path, versions, traffic, key="right")
    calls = [("GET", "/v1/learning"), ("GET", "/v1/models"), ("POST", "/v1/feedback"), ("POST", "/v1/chat/completions")]
    async with parts.client("wrong") as wrong, parts.client("right") as right:
        assert [(await wrong.request(*call)).status_code for call in calls] == [401] * 4
        assert [(await right.request(*call)).status_code for call in calls] == [200, 200, 400, 400]
        assert (await wrong.get("/health")).status_code == 200


async def test_other_machines_need_a_key(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/learning", headers={"host": "evil.example"})).status_code == 403


@pytest.mark.process
async def test_the_server_answers_on_when_the_learner_stops(
    parts: Parts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its held-out tasks have been spoilt, so that the first evaluation fails; that is no failure of a version."""
    (tmp_path / "held.jsonl").write_text("{}\n")
    async with parts.live._life(parts.live.app()), parts.client() as client:
        await asyncio.wait([parts.live._learning])  # type: ignore[list-item]
        assert (await client.get("/v1/learning")).json()["doing"].startswith("stopped: eval ended with exit status 2")
        assert (await client.post("/v1/chat/completions", json=asking("3 + 4?"))).status_code == 200
    assert "the learner stopped" in caplog.text
