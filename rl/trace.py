"""What a rollout is trained on: each model call of a trainable node, as the exact ids that went in and came out.

The chat models that can be trained (`embedded`, `policy`, `agentflow.rl.traced`) put prompt ids, sampled ids and their
log-probabilities into the reply's metadata. A callback on the model call reads them there, keyed by LangChain's run id,
so that nothing depends on the order in which concurrent calls end, and nothing is tokenised a second time.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from agentflow.rl.attempts import Attempts
from agentflow.rl.policy import IDS


class TraceError(RuntimeError):
    """A reply cannot be trained on: its ids are missing or do not fit together."""


@dataclass(frozen=True)
class Call:
    """One model call of a trainable node. Invariant: response_ids and logprobs have the same length, at least 1.

    They are arrays, of 4 bytes a value: a list takes 8 and an object for each, and the trainer would copy them one by
    one.
    """

    rollout: str
    node: str
    """The node that called; where graphs are nodes of graphs, its path, as in `research/planner`."""
    turn: int
    """Number of the call among the rollout's calls, from 0, in the order in which they began."""
    prompt_ids: "array[int]"
    response_ids: "array[int]"
    """As sampled, the end token included."""
    logprobs: "array[float]"
    """Log-probability of each sampled token under the distribution that it was drawn from, top_p aside."""
    finish_reason: str
    """stop, or length if the reply was cut off."""
    weights_version: int
    """Training step of the weights that wrote it; 0 where weights do not change."""


def ids_array(ids: Iterable[int]) -> "array[int]":
    """Token ids as calls and rows hold them. Raises TypeError, OverflowError."""
    return array("i", ids)


def logprobs_array(logprobs: Iterable[float]) -> "array[float]":
    """Log-probabilities as calls and rows hold them, to float32, which is what is trained with. Raises TypeError."""
    return array("f", logprobs)


@dataclass
class _Open:
    turn: int
    node: str


@dataclass(eq=False)  # LangGraph keeps handlers in sets
class TraceCollector(BaseCallbackHandler):
    """Collects the calls of one rollout: `graph.ainvoke(..., config={"callbacks": [collector]})`.

    Calls of an attempt that was given up count for nothing: a node with a RetryPolicy begins again under the same task,
    and what its last attempt called is what led to the outcome (`agentflow.rl.attempts`).
    """

    rollout: str
    nodes: Collection[str]
    """Names of the graph's nodes whose calls are trained on. Of a subgraph: all calls in it."""
    _open: dict[UUID, _Open] = field(default_factory=dict)
    _calls: dict[UUID, Call] = field(default_factory=dict)
    _attempts: Attempts = field(default_factory=Attempts)
    _begun: int = 0

    run_inline = True
    """On the event loop: a call is recorded before the node that made it goes on. It also spares a thread a call."""
    raise_error = True
    """A reply that cannot be trained on ends the rollout instead of vanishing in a log."""

    @property
    def calls(self) -> list[Call]:
        """The calls that have ended and count, by turn."""
        kept = (call for run, call in self._calls.items() if not self._attempts.given_up(run))
        return sorted(kept, key=lambda call: call.turn)

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Called by LangChain before each node, and each chain in it."""
        self._attempts.begins(run_id, parent_run_id, tags or (), metadata or {})

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Called by LangChain before each call."""
        path = _path(metadata or {})
        if any(node in self.nodes for node in path):
            self._attempts.begins(run_id, parent_run_id, tags or (), metadata or {})
            self._open[run_id] = _Open(self._begun, "/".join(path))
            self._begun += 1

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Called by LangChain for a call that failed: there is nothing to train on; a retry is another call."""
        self._open.pop(run_id, None)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Called by LangChain after each call. Raises TraceError."""
        opened = self._open.pop(run_id, None)
        if opened is not None:
            self._calls[run_id] = _call(self.rollout, opened, response)


def _path(metadata: Mapping[str, Any]) -> list[str]:
    """Names of the nodes that a call was made in, the outermost first: of `research:ID|planner:ID`, both."""
    namespace = str(metadata.get("langgraph_checkpoint_ns", ""))
    # A part without an id only numbers the graphs that one node called.
    names = [part.partition(":")[0] for part in namespace.split("|") if ":" in part]
    return names or [str(metadata.get("langgraph_node"))]


def _call(rollout: str, opened: _Open, response: LLMResult) -> Call:
    generation = response.generations[0][0]
    message = generation.message if isinstance(generation, ChatGeneration) else None
    if not isinstance(message, AIMessage) or not message.response_metadata.keys() >= set(IDS):
        raise TraceError(
            f"the model of node '{opened.node}' returned no token ids; a trainable node must call a model that does: "
            "policy, embedded, or one from agentflow.rl.traced"
        )
    found = message.response_metadata
    # Taken out: the message stays in the graph's state and in each of its checkpoints, at 40 bytes a token.
    prompt_ids, response_ids, logprobs = (found.pop(name) for name in IDS)
    usage = message.usage_metadata
    counted = (usage["input_tokens"], usage["output_tokens"]) if usage else (len(prompt_ids), len(response_ids))
    if not len(response_ids) == len(logprobs) == counted[1] > 0 or len(prompt_ids) != counted[0] or not prompt_ids:
        raise TraceError(
            f"node '{opened.node}': {len(prompt_ids)} prompt ids, {len(response_ids)} sampled ids and {len(logprobs)} "
            f"log-probabilities do not fit the {counted[0]} and {counted[1]} tokens that the server counted"
        )
    try:
        tokens = ids_array(prompt_ids), ids_array(response_ids), logprobs_array(logprobs)
    except (TypeError, OverflowError) as error:
        raise TraceError(f"node '{opened.node}': the server's ids or log-probabilities are no numbers") from error
    finish_reason, weights_version = found.get("finish_reason") or "", int(found.get("weights_version") or 0)
    return Call(rollout, opened.node, opened.turn, *tokens, finish_reason, weights_version)
