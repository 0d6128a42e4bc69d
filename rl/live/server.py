"""OpenAI-compatible endpoint of an agent that learns from its answers' scores: `agentflow serve --learn`.

    POST /v1/chat/completions    the agent's answer to the last message; the earlier ones are what was said before
    POST /v1/feedback            {"id": the reply's id, "score": 0 to 1, "answer": the right one, if it is known}
    GET  /v1/learning            versions of the planner, decisions, and what the learner does
    GET  /v1/models, /health

The reply's `system_fingerprint` is the version of the planner. An id is known only to the client that got the answer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import convert_to_messages
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentflow.evals.scorers.final import final_answer
from agentflow.graph.agent import Agent
from agentflow.graph.loopback import LoopbackOnly
from agentflow.graph.run.run_events import Event, Restated, Writing
from agentflow.graph.run.runner import asking, run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Tokens, Trace
from agentflow.rl.live.journal import Feedback, Reward, ServedAnswer, Traffic
from agentflow.rl.live.learner import Learner
from agentflow.rl.live.versions import Versions
from agentflow.rl.micro import protocol
from agentflow.rl.micro.http import HUNG_UP, Refused, check_key, event, read, refuse, unless_gone
from agentflow.rl.micro.protocol import ChatMessage

NAME = "agent"
"""Name of the agent as a model."""
MOST_BYTES = 1 << 20
"""Maximum size of a request's body."""
MOST_RUNS = 64
"""Most runs at once; further requests wait."""


class AgentRequest(BaseModel):
    """A request for an answer. Other fields, as of sampling, are the agent's own and not the client's."""

    model_config = ConfigDict(extra="ignore")

    model: str = NAME
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = False


class FeedbackRequest(BaseModel):
    """A score of an answer."""

    model_config = ConfigDict(extra="forbid")

    id: str
    score: Reward
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)] = ""


class LiveAgent:
    """The agent, its versions and its learner behind the endpoint."""

    def __init__(self, agent: Agent, learner: Learner, versions: Versions, traffic: Traffic, key: str = "") -> None:
        """Set the parts. With a `key`, clients must send it; without one, they must use a loopback address."""
        self._agent, self._learner, self._versions, self._traffic = agent, learner, versions, traffic
        self._key, self._places = key, asyncio.Semaphore(MOST_RUNS)
        self._learning: asyncio.Task[None] | None = None

    def app(self) -> Starlette:
        """Build the endpoint, which learns while it runs."""
        routes = [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/feedback", self.feedback, methods=["POST"]),
            Route("/v1/learning", self.learning),
            Route("/v1/models", self.models),
            Route("/health", self.health),
        ]
        guard = [] if self._key else [Middleware(LoopbackOnly)]
        return Starlette(routes=routes, middleware=guard, lifespan=self._life, exception_handlers={Refused: refuse})

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self._learning = asyncio.create_task(self._learner.run())
        self._learning.add_done_callback(_tell)
        try:
            yield
        finally:
            self._learning.cancel()
            await asyncio.wait([self._learning])

    async def health(self, request: Request) -> Response:
        """Say that the server runs."""
        return JSONResponse({"status": "ok"})

    async def models(self, request: Request) -> Response:
        """List the agent as a model."""
        check_key(request, self._key)
        one = {"id": NAME, "object": "model", "created": 0, "owned_by": "agentflow"}
        return JSONResponse({"object": "list", "data": [one]})

    async def learning(self, request: Request) -> Response:
        """Tell the versions and decisions, and what the learner does."""
        check_key(request, self._key)
        task = self._learning
        error = task.exception() if task and task.done() and not task.cancelled() else None
        return JSONResponse(
            {
                "current": self._versions.current,
                "unused": len(self._traffic.unused),
                "doing": f"stopped: {error}" if error else self._learner.doing,
                "since": self._learner.since.isoformat(timespec="seconds"),
                "decisions": [one.model_dump(mode="json") for one in self._versions.decisions],
            }
        )

    async def feedback(self, request: Request) -> Response:
        """Keep a score."""
        check_key(request, self._key)
        given = await read(request, FeedbackRequest, MOST_BYTES)
        try:
            self._traffic.score(Feedback(id=given.id, score=given.score, answer=given.answer))
        except KeyError:
            raise Refused(404, "there is no answer of this id here; send the id of the reply", "unknown_id") from None
        return JSONResponse({"id": given.id})

    async def chat(self, request: Request) -> Response:
        """Answer the last message."""
        check_key(request, self._key)
        wanted = await read(request, AgentRequest, MOST_BYTES)
        if wanted.model != NAME:
            raise Refused(404, f"there is no such model here; there is {NAME}", "model_not_found")
        if wanted.messages[-1].role != "user" or not wanted.messages[-1].as_pair()[1].strip():
            raise Refused(400, "the last message is no question; send a text of the role user last", "no_question")
        asked = _Run(self, wanted.messages)
        if wanted.stream:
            return StreamingResponse(asked.stream(), media_type="text/event-stream")
        answer = await unless_gone(request, asked.whole())
        return JSONResponse(answer) if answer else Response(status_code=HUNG_UP)

    async def answer(self, asked: "_Run") -> Trace:
        """Run the agent with the planner that answers now, and keep the answer."""
        async with self._places:
            asked.version = self._versions.current
            task = Task(id=asked.id, question=asked.question)
            context = self._learner.context(asked.version)
            inputs = asking(asked.question, earlier=asked.earlier)
            trace = await run(self._agent, task, context, inputs=inputs, on_event=asked.on_event, streams=True)
        self._traffic.add(
            ServedAnswer(
                id=asked.id,
                version=asked.version,
                question=asked.restated or trace.task.question,
                answer=final_answer(trace.answer),
                status=trace.status,
                turns=len(trace.turns),
                seconds=trace.seconds,
            )
        )
        return trace


class _Run:
    """A request and its reply."""

    def __init__(self, live: LiveAgent, messages: Sequence[ChatMessage]) -> None:
        pairs = [message.as_pair() for message in messages]
        self.id, self.version, self.restated = f"chatcmpl-{uuid4().hex}", 0, ""
        self.question = pairs[-1][1]
        self.earlier = convert_to_messages(pairs[:-1])
        self.written = ""
        """The reply so far, as a chat shows it."""
        self._live, self._more = live, asyncio.Event()

    async def on_event(self, event: Event) -> None:
        """Keep the question as it is read, and the reply so far."""
        if isinstance(event, Restated):
            self.restated = event.question
        elif isinstance(event, Writing):
            self.written = event.text
            self._more.set()

    async def whole(self) -> dict[str, Any]:
        """Return the body of a reply that is not streamed. Raises Refused if the run failed."""
        trace = await self._live.answer(self)
        if trace.status == "failed":
            raise Refused(500, trace.error, "run_failed")
        message = {"role": "assistant", "content": self.written or trace.answer, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        tokens = sum(trace.usage.models.values(), Tokens())
        usage = protocol.usage(tokens.input_tokens, tokens.output_tokens)
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage}

    async def stream(self) -> AsyncIterator[str]:
        """Yield the reply as server-sent events."""
        running, sent = asyncio.create_task(self._live.answer(self)), 0
        running.add_done_callback(lambda _: self._more.set())
        try:
            while not running.done():
                await self._more.wait()
                self._more.clear()
                if len(self.written) > sent:
                    yield self._chunk({"role": "assistant", "content": self.written[sent:]})
                    sent = len(self.written)
            trace = running.result()
            if trace.status == "failed":
                yield event(protocol.error(trace.error, "run_failed"))
            else:
                yield self._chunk({"role": "assistant", "content": "" if sent else trace.answer}, "stop")
            yield "data: [DONE]\n\n"
        finally:
            running.cancel()

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> str:
        return event(
            {**self._head("chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        )

    def _head(self, kind: Any) -> dict[str, Any]:
        return {**protocol.head(kind, NAME), "id": self.id, "system_fingerprint": f"version-{self.version}"}


def _tell(learning: "asyncio.Task[None]") -> None:
    """Log why the learner stopped, which is an error of ours; the server goes on answering."""
    if not learning.cancelled() and (error := learning.exception()):
        logging.getLogger(__name__).error("the learner stopped; the server goes on answering", exc_info=error)
