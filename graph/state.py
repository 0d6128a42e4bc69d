"""The evolving memory: the typed state that the four nodes read and extend (paper section 3.1).

`memory` holds one `Turn` per planner-executor-verifier round and only ever grows, so that the planner's prompt of turn
t+1 extends the prompt of turn t. A new question on an existing thread starts with an empty memory; `messages` hold the
conversation.
"""

import operator
import time
from typing import Annotated, Any, Literal, Self

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from pydantic import BaseModel, Field, model_validator

from agentflow.tools.result import ErrorClass, ToolResult

SHORTEST_PAUSE = 5.0
"""Seconds. A shorter gap between two nodes is due to a busy machine, and counts towards the run's time."""

Signal = Literal["continue", "stop"]
Status = Literal["running", "answered", "out_of_turns", "out_of_time", "no_plan", "abstained"]
"""State of a run; "no_plan": it ended since the planner's model wrote no plan that could be read; "abstained": the
answer was not sure enough to be given."""


class Plan(BaseModel):
    """The planner's action a^t: one step, one tool, and all information that the tool needs."""

    text: str = ""
    """The planner's exact output, but for repetitions at the end of a long one, which are cut. Later prompts repeat
    it, so that their tokens extend this prompt's tokens. A plan that a person wrote instead has the text that the
    planner would have written.
    """
    thought: str = Field(default="", exclude_if=lambda thought: not thought)
    """The planner's reasoning for this plan; later prompts repeat it with `Context.result_role="tool"`."""
    sub_goal: str = ""
    tool: str = ""
    context: str = ""
    error: ErrorClass | None = None
    """Set when `text` could not be parsed as a step; the executor then runs nothing."""
    problem: str = ""
    """One line for the planner on the cause; set with `error`."""

    @model_validator(mode="after")
    def _in_the_planners_words(self) -> Self:
        if not self.text and self.tool and self.error is None:
            self.text = f"Sub-Goal: {self.sub_goal}\nTool: {self.tool}\nContext: {self.context}"
        return self


class PendingCall(BaseModel):
    """A tool call that is written and not made yet: it waits for approval, or for the checkpoint before it is made."""

    arguments: dict[str, Any]
    plan: Plan
    """The plan that the call carries out."""
    since: float = 0.0
    """When it began to wait for approval, in seconds since the epoch."""
    mark: str = ""
    """Set when a call with side effects is about to be made (`nodes.at_most_once`)."""
    interrupted: bool = False
    """True if the call may have been carried out, and a person decides whether to repeat it."""


class Action(BaseModel):
    """The executor's part of a turn: the tool call and its result (e^t)."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    result: ToolResult


class Verdict(BaseModel):
    """The verifier's part of a turn: its analysis of the memory, and whether to stop (v^t)."""

    analysis: str
    signal: Signal
    probability: float | None = Field(default=None, exclude_if=lambda probability: probability is None)
    """Probability of "stop", where a decision model or a calibration (`Context.skip_verifier`) gave the verdict."""


class Turn(BaseModel):
    """One finished round of the loop."""

    turn: int = Field(ge=1)
    plan: Plan
    action: Action
    verdict: Verdict


class InputState(BaseModel):
    """Input of a run: a conversation, in which a person's last message is the question."""

    messages: Annotated[list[AnyMessage], add_messages] = Field(default_factory=list)


class State(InputState):
    """The whole state of a run."""

    question: str = ""
    """The question as one that stands by itself, without the conversation."""
    analysis: str = ""
    """The initial query analysis, from which the planner starts."""
    plan: Plan | None = None
    """The step of the current turn."""
    pending_call: PendingCall | None = None
    """The call that the executor has written, until it is made."""
    action: Action | None = None
    """The call of the current turn."""
    verdict: Verdict | None = None
    memory: Annotated[list[Turn], operator.add] = Field(default_factory=list)
    answer: str = ""
    confidence: float | None = None
    """Probability that the answer is right; None where no calibration says so (`graph.confidence`)."""
    status: Status = "running"
    deadline: float = 0.0
    """When the run is out of time, in seconds since the epoch.

    This is wall-clock time, so that it survives a restart.
    """
    at: float = 0.0
    """When the last node ended, in seconds since the epoch."""

    @property
    def call(self) -> PendingCall | None:
        """The pending call, unless a person has edited the plan since, in a fork."""
        return self.pending_call if self.pending_call and self.pending_call.plan == self.plan else None

    @property
    def waits(self) -> bool:
        """True while a call waits for a person."""
        return self.call is not None and not self.call.mark

    def pause(self) -> float:
        """Return the seconds for which nothing worked on a run that was resumed, after a crash or from an old
        checkpoint whose plan a person has edited. The deadline moves by them.

        A call that waits for approval is accounted for separately (`PendingCall.since`).
        """
        pause = time.time() - self.at
        return pause if self.at and not self.waits and pause >= SHORTEST_PAUSE else 0.0

    def seconds_left(self) -> float:
        """Return the seconds until `deadline`, never below zero."""
        return max(0.0, self.deadline - time.time())
