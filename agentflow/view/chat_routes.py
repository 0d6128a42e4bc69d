"""Addresses of the chat page: ask, follow, decide, stop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

from pydantic import BaseModel, StringConstraints, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentflow.nodes.approval import ApprovalDecision
from agentflow.view.chat import LONGEST, Busy, Chat, Conversation
from agentflow.view.json_reply import Json
from agentflow.view.sources import id_of

BEAT = 1.0
"""Longest interval between looks, while a client listens, at whether it is gone or the server stops, in seconds."""
PAUSE = 0.1
"""Interval between two partial answers, in seconds."""
_LARGEST = 8 * LONGEST
"""Most bytes of a request."""


class Asked(BaseModel):
    """A question, and the conversation that it continues; "" for a new one."""

    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST)]
    conversation: str = ""


class Answer(BaseModel):
    """A person's decision on a call."""

    decision: Literal["approve", "refuse"]
    reason: Annotated[str, StringConstraints(max_length=LONGEST)] = ""


class ChatRoutes:
    """Request handlers of a chat; without one, they say that asking is switched off."""

    def __init__(self, chat: Chat | None, stopping: Callable[[], bool]) -> None:
        self._chat, self._stopping = chat, stopping
        self.routes = [
            Route("/api/chat", self.about),
            Route("/api/chat", self.ask, methods=["POST"]),
            Route("/api/chat/{conversation}/events", self.events),
            Route("/api/chat/{conversation}/decision", self.decide, methods=["POST"]),
            Route("/api/chat/{conversation}/stop", self.stop, methods=["POST"]),
        ]

    @property
    def chat(self) -> Chat:
        """Return the chat. Raises HTTPException."""
        if self._chat is None:
            raise HTTPException(404, "this server was started with --no-chat; it answers no questions")
        return self._chat

    async def about(self, request: Request) -> Response:
        """Say who answers, and which source has the traces."""
        return Json({**self.chat.about(), "source": id_of(self.chat.traces)})

    async def ask(self, request: Request) -> Response:
        """Start a run; 409 while there is another."""
        chat, body = self.chat, await _body(request)
        try:
            asked = Asked.model_validate_json(body)
        except ValidationError as error:
            raise HTTPException(400, f"a question has 1 to {LONGEST:,} characters") from error
        try:
            conversation = await chat.ask(asked.question, asked.conversation)
        except Busy as busy:
            return Json({"running": str(busy)}, 409)
        return Json({"conversation": conversation.id}, 202)

    async def events(self, request: Request) -> Response:
        """Stream the events of a conversation from the first, or after the last one that the client has."""
        conversation = self._conversation(request)
        last = request.headers.get("last-event-id", "")
        start = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
        return StreamingResponse(self._events(conversation, start), media_type="text/event-stream")

    async def decide(self, request: Request) -> Response:
        """Decide on the call that waits; 409 if none does."""
        chat, body = self.chat, await _body(request)
        try:
            answer = Answer.model_validate_json(body)
        except ValidationError as error:
            raise HTTPException(400, "a decision is approve or refuse") from error
        done = chat.decide(
            self._conversation(request).id, ApprovalDecision(decision=answer.decision, reason=answer.reason or None)
        )
        return Json({"decided": done}, 200 if done else 409)

    async def stop(self, request: Request) -> Response:
        """Cancel the run of the conversation."""
        return Json({"stopped": await self.chat.stop(self._conversation(request).id)})

    def _conversation(self, request: Request) -> Conversation:
        found = self.chat.conversations.get(request.path_params["conversation"])
        if found is None:
            raise HTTPException(404, "there is no such conversation (any more)")
        return found

    async def _events(self, conversation: Conversation, number: int) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        sent = ""  # of the partial answer
        while not self._stopping():
            events = await conversation.after(number, BEAT, sent)
            for event in events:
                yield b"id: %d\ndata: %b\n\n" % (number, bytes(Json(event).body))
                number, sent = number + 1, ""
            if conversation.partial_answer not in ("", sent):
                sent = conversation.partial_answer
                # Without an id: a client that reconnects asks for the events after the last one.
                yield b"data: %b\n\n" % bytes(Json({"type": "partial_answer", "answer": sent}).body)
                await asyncio.sleep(PAUSE)
            elif not events:
                yield b": still here\n\n"  # by sending, the server learns that the client is gone


async def _body(request: Request) -> bytes:
    """Return the body of a request. Raises HTTPException if it is no JSON of a fair size."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "send application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise HTTPException(413, f"a request has at most {_LARGEST:,} bytes")
    return body
