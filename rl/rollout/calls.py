"""Model calls of a rollout with the exact token ids of prompt and reply, which training uses.

The chat models that can be trained (`embedded`, `policy`) put prompt ids, sampled ids and their
log-probabilities into the reply's metadata. `TokenCollector` reads them there when a call ends, so that the order in
which concurrent calls end does not matter, and nothing is tokenised a second time.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from langchain_core.messages import AIMessage

from agentflow.graph.models.reply import UNREADABLE
from agentflow.graph.tracing.operation import Operation
from agentflow.rl.policy.chat import IDS
from agentflow.rl.policy.node_paths import Nodes, learns
from agentflow.tools.coded_error import CodedError


class TokenError(CodedError, RuntimeError):
    """A reply cannot be trained on: its ids are missing or do not fit together."""


@dataclass(frozen=True)
class Call:
    """One model call of a trainable node. Invariant: response_ids and logprobs have the same length, at least 1.

    They are arrays, of 4 bytes a value: a list takes 8 and an object for each, and the trainer would copy them one by
    one.
    """

    rollout: str
    node: str
    """Path of the node that called, with slashes, as in `research/planner`."""
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
    unreadable: bool = False
    """True if a tool call or a structured reply could not be parsed, or a call that was asked for is missing."""


class TokenCollector:
    """Sink that collects the model calls of one rollout: `Observer(collector, raise_error=True)` as a callback.

    With `raise_error`, a reply that cannot be trained on ends the rollout instead of vanishing in a log. Calls of an
    attempt that was given up are left out: what the last attempt called led to the outcome.
    """

    def __init__(self, rollout: str, nodes: Nodes) -> None:
        """Collect the calls whose path fits one of the patterns `nodes`, or all calls if there are none."""
        self.rollout = rollout
        self.nodes = nodes
        self.model_calls: Counter[str] = Counter()
        """Number of model calls at each path, those of nodes that do not learn included."""
        self.answered = 0
        """Number of model calls that ended without an error, anywhere in the graph."""
        self._begun: dict[UUID, int] = {}
        self._ended: list[tuple[Operation, Call]] = []

    @property
    def calls(self) -> list[Call]:
        """The calls that ended and count, by turn."""
        return sorted((call for made, call in self._ended if not made.given_up), key=lambda call: call.turn)

    @property
    def given_up(self) -> list[Call]:
        """The calls of attempts that were given up for what the policy said, by turn."""
        attempts = ((made.given_up, call) for made, call in self._ended)
        found = [call for attempt, call in attempts if attempt and (attempt.refused or call.unreadable)]
        return sorted(found, key=lambda call: call.turn)

    def begin(self, operation: Operation) -> None:
        """Number a call."""
        if operation.kind != "model_call":
            return
        self.model_calls["/".join(operation.path)] += 1
        if learns(operation.path, self.nodes):
            self._begun[operation.id] = len(self._begun)

    def end(self, operation: Operation) -> None:
        """Take the tokens of a call that did not fail. Raises TokenError."""
        self.answered += operation.kind == "model_call" and not operation.error
        if operation.id in self._begun and not operation.error:
            call = _call(self.rollout, "/".join(operation.path), self._begun[operation.id], operation.replies)
            self._ended.append((operation, call))


def _call(rollout: str, node: str, turn: int, replies: Sequence[AIMessage]) -> Call:
    message = replies[0] if replies else None
    if message is None or not message.response_metadata.keys() >= set(IDS):
        raise TokenError(
            f"the model of node '{node}' returned no token ids; a trainable node must call a model that does, such as "
            "policy or embedded",
            code="no_ids",
        )
    found = message.response_metadata
    # Taken out: the message stays in the graph's state and in each of its checkpoints, at 40 bytes a token.
    prompt_ids, response_ids, logprobs = (found.pop(name) for name in IDS)
    usage = message.usage_metadata
    counted = len(prompt_ids), len(response_ids)
    if usage and "input_tokens" in usage:  # which a reply from LangChain's cache may lack
        counted = usage["input_tokens"], usage["output_tokens"]
    if not len(response_ids) == len(logprobs) == counted[1] > 0 or len(prompt_ids) != counted[0] or not prompt_ids:
        raise TokenError(
            f"node '{node}': {len(prompt_ids)} prompt ids, {len(response_ids)} sampled ids and {len(logprobs)} "
            f"log-probabilities do not fit the {counted[0]} and {counted[1]} tokens that the server counted",
            code="ids_misfit",
        )
    try:
        tokens = array("i", prompt_ids), array("i", response_ids), array("f", logprobs)
    except (TypeError, OverflowError) as error:
        raise TokenError(
            f"node '{node}': the server's ids or log-probabilities are no numbers", code="ids_invalid"
        ) from error
    finish_reason, weights_version = found.get("finish_reason") or "", int(found.get("weights_version") or 0)
    return Call(rollout, node, turn, *tokens, finish_reason, weights_version, bool(found.pop(UNREADABLE, False)))
