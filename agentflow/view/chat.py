"""Conversations with the agent on the page: one question at a time, shown as events while it is answered.

A conversation is a thread of the graph and a list of events, which a page reads from the start and then as they come.
So a page that is reloaded, or a second one, shows the same, and a run ends by itself or by `stop`, not with its page.
Events are the graph's own (`agentflow.graph.events`), without secrets, between these:

    question       the run starts
    approval       a call waits for a person: the proposal
    decided        the person's decision
    ended          the run ended: status, answer, error, time, tokens, and the number of its trace
    stopped        the person stopped the run

An answer is streamed beside the events: a page gets the partial answer, which the next event replaces.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.graph.agent import Agent
from agentflow.graph.checkpoints import open_checkpointer
from agentflow.graph.context import Context
from agentflow.graph.run.runner import Event, Writing, rollout
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import append
from agentflow.nodes.approval import ApprovalDecision, Proposal
from agentflow.tools.redaction import redacted_data

MOST = 50
"""Most conversations that are kept; the oldest are forgotten."""
LONGEST = 20_000
"""Most characters of a question."""

MakeAgent = Callable[[BaseCheckpointSaver[Any]], Agent]


class Busy(Exception):
    """Another question is being answered, in the conversation `str(self)`."""


class Conversation:
    """A thread with its events. `changed` is set and replaced with each event and each part of an answer."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        self.events: list[dict[str, Any]] = []
        self.partial_answer = ""
        """The answer that is being streamed, so far; empty when none is."""
        self.changed = asyncio.Event()

    def add(self, kind: str, **data: Any) -> None:
        """Append an event without secrets."""
        self.events.append(redacted_data({"type": kind, **data}))
        self.stream("")

    def stream(self, partial_answer: str) -> None:
        """Set the answer so far."""
        self.partial_answer = partial_answer
        self.changed.set()
        self.changed = asyncio.Event()

    async def after(self, number: int, seconds: float, partial_answer: str = "") -> list[dict[str, Any]]:
        """Return the events from `number` on; if there is none yet, wait for one or for more of the answer.

        Args:
            number: Number of events that the caller has.
            seconds: Longest wait.
            partial_answer: The partial answer that the caller has.
        """
        if len(self.events) <= number and self.partial_answer in ("", partial_answer):
            changed = self.changed
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()
        return self.events[number:]


class Chat:
    """The conversations of a server. All methods run on its event loop, inside `open`."""

    def __init__(self, make_agent: MakeAgent, context: Context) -> None:
        """Set the agent and the settings of its runs."""
        self.context = context
        self._folder = TemporaryDirectory(prefix="agentflow-view-")
        self.traces = Path(self._folder.name).resolve() / "asked.jsonl"
        """File of the traces, which is deleted at the end."""
        self.conversations: dict[str, Conversation] = {}
        self._make_agent = make_agent
        self._agent: Agent
        self._saver: BaseCheckpointSaver[Any]
        self._running: Conversation | None = None
        self._task: asyncio.Task[None] | None = None
        self._decision: asyncio.Future[ApprovalDecision] | None = None
        self._number = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be ready for questions in the block; a run at its end is cancelled."""
        async with open_checkpointer() as self._saver:
            self._agent = self._make_agent(self._saver)
            try:
                yield
            finally:
                await self.stop()
                self._folder.cleanup()

    def about(self) -> dict[str, Any]:
        """Return what answers, and the conversation under way."""
        models = [self.context.model_name_of(name) for name in ("planner", "generator")]
        return {
            "models": redacted_data(list(dict.fromkeys(models))),
            "tools": list(self.context.tools),
            "approve": self.context.approve_tools,
            "max_turns": self.context.max_turns,
            "running": self._running.id if self._running else "",
        }

    async def ask(self, question: str, id: str) -> Conversation:
        """Start to answer, in the conversation `id` or, if there is none, in a new one. Raises Busy."""
        if self._running:
            raise Busy(self._running.id)
        conversation = self.conversations.get(id) or Conversation()
        self._running = self.conversations[conversation.id] = conversation
        conversation.add("question", question=question)
        self._task = asyncio.create_task(self._run(conversation, question))
        for old in list(self.conversations)[:-MOST]:
            if old != conversation.id:
                del self.conversations[old]
                await self._saver.adelete_thread(old)
        return conversation

    def decide(self, id: str, decision: ApprovalDecision) -> bool:
        """Decide on the call that waits in the conversation. Return False if none does."""
        if not self._decision or self._decision.done() or not self._running or self._running.id != id:
            return False
        self._decision.set_result(decision)
        return True

    async def stop(self, id: str = "") -> bool:
        """Cancel the run, if it is that of the conversation `id` or of any; its thread keeps the finished turns."""
        task, running = self._task, self._running
        if not task or not running or (id and running.id != id):
            return False
        task.cancel()
        await asyncio.wait([task])
        return True

    async def _run(self, conversation: Conversation, question: str) -> None:
        async def show(event: Any) -> None:
            conversation.add(event["type"], **{name: value for name, value in event.items() if name != "type"})

        async def stream(event: Event) -> None:
            if isinstance(event, Writing):
                conversation.stream(event.text)

        async def decide(proposal: Proposal) -> ApprovalDecision:
            self._decision = asyncio.get_running_loop().create_future()
            conversation.add("approval", proposal=proposal)
            decision = await self._decision
            conversation.add("decided", decision=decision.decision)
            return decision

        task, thread = Task.from_question(question), conversation.id
        try:
            finished = await rollout(
                self._agent,
                task,
                self.context,
                thread=thread,
                decide=decide,
                on_event=stream,
                on_progress=show,
                streams=True,
            )
            trace = finished.trace
            number = None
            with suppress(OSError):
                append(self.traces, trace)
                number, self._number = self._number, self._number + 1
            facts = {"answer": trace.answer, "status": trace.status, "error": trace.error, "seconds": trace.seconds}
            conversation.add("ended", **facts, tokens=trace.usage.total_tokens, trace=number)
        except asyncio.CancelledError:
            conversation.add("stopped")
        finally:
            self._running = self._task = self._decision = None
