"""One question through the compiled graph, as events while it runs and as an `Episode` at the end.

The command line shows the events, evaluation keeps the episode. Turns are collected as the graph streams them, so that
a run that fails keeps what it had done.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage

from agentflow.evals.episode import Episode, EpisodeTurn, Tokens, Usage
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models import ModelError
from agentflow.graph.state import InputState


@dataclass(frozen=True)
class Started:
    """A module begins its work."""

    module: str
    turn: int
    tool: str = ""
    """What the executor is about to call."""


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    episode: Episode
    failure: ModelError | None = None
    """Why there is no answer, if the run failed."""


Event = Started | EpisodeTurn | Finished


class Meter(UsageMetadataCallbackHandler):
    """Counts model calls, beside the tokens that the base class counts."""

    run_inline = True  # no thread per call: there is nothing to wait for

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Called by LangChain at the start of every call, also of the tools' model."""
        with self._lock:
            self.calls += 1

    def usage(self) -> Usage:
        """What was counted so far."""
        models = {name: Tokens.model_validate(dict(counts)) for name, counts in self.usage_metadata.items()}
        return Usage(calls=self.calls, models=models)


async def rollout(
    agent: Agent, question: str, context: Context, meter: Meter | None = None
) -> AsyncGenerator[Event, None]:
    """Runs `question`; the last event is `Finished`, also when a model fails. Anything else that is raised is a bug.

    `meter` counts the model calls, for a caller that wants to know of them also when the run is cut short.
    """
    start, meter = time.perf_counter(), meter or Meter()
    turns: list[EpisodeTurn] = []
    analysis = ""
    outcome: dict[str, Any] = {"status": "failed"}
    failure: ModelError | None = None
    stream: AsyncIterator[Any] = agent.astream(
        InputState(messages=[HumanMessage(question)]),
        {"callbacks": [meter]},
        context=context,
        stream_mode=["tasks", "updates"],
    )
    try:
        async for mode, chunk in stream:
            if mode == "tasks":
                if "input" in chunk:
                    yield _started(chunk, len(turns) + 1)
                continue
            for turn in chunk.get("verifier", {}).get("memory", []):
                turns.append(EpisodeTurn.of(turn))
                yield turns[-1]
            analysis = chunk.get("analyst", {}).get("analysis", analysis)
            for node in ("verifier", "generator"):
                outcome.update({key: chunk[node][key] for key in ("status", "answer") if key in chunk.get(node, {})})
    except ModelError as error:
        failure, outcome = error, {"status": "failed", "error": str(error)}
    seconds = round(time.perf_counter() - start, 3)
    known = {"question": question, "analysis": analysis, "turns": turns, "usage": meter.usage(), "seconds": seconds}
    yield Finished(Episode(**known, **outcome), failure)


def _started(task: dict[str, Any], turn: int) -> Started:
    state = task["input"]
    plan = state.plan if task["name"] == "executor" else None
    return Started(task["name"], turn, plan.tool if plan and not plan.error else "")
