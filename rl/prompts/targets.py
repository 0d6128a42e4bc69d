"""The prompts that a search may change: those of AgentFlow's modules, or the system messages of another graph's nodes.

Both have a default text for each node, a rule that every text must fulfil, and a way to run the graph with other texts.
AgentFlow takes prompts through its `Context`. In any other graph, the system message of a node's model calls is
replaced (`system_messages`), which needs the message to be the same in every call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from agentflow.evals.agents import agent_prompts
from agentflow.graph.agent import graph as agentflow
from agentflow.graph.context import Context
from agentflow.graph.prompts import PLACEHOLDERS, check
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.node_paths import fits
from agentflow.rl.prompts.errors import PromptsError
from agentflow.rl.prompts.system_messages import replacing
from agentflow.rl.trainable import Graph, Trainable

LONGEST = 20_000
"""Maximum number of characters of a prompt."""

Texts = Mapping[str, str]
"""System messages by node."""


class Target(Protocol):
    """The prompts of a graph."""

    file: str
    """Name of the file that the result is written to."""
    kept: dict[str, str]
    """Prompts that a run has in place of the default ones before the search."""

    def defaults(self, seen: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the prompts before the search; `seen` are the system messages of some rollouts by node."""
        ...

    def placeholders(self, node: str) -> str:
        """Return the placeholders that a node's prompt must have, as they are written in it; "" for none."""
        ...

    def check(self, node: str, text: str) -> None:
        """Raise ValueError if `text` is not a valid prompt of the node."""
        ...

    def applied(self, texts: Texts, observer: Observer) -> AbstractContextManager[Any]:
        """Run the graph with `texts` in the block; enters with the graph's context."""
        ...


class ContextPrompts:
    """The prompts of AgentFlow's modules."""

    file = "context.json"

    def __init__(self, context: Context) -> None:
        """Start from the prompts of `context`, or the default ones."""
        self._context = context
        self.kept: dict[str, str] = dict(context.prompts.items())
        self._defaults: dict[str, str] = dict(agent_prompts("agentflow").items())

    def defaults(self, seen: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the modules' prompts."""
        return {**self._defaults, **self.kept}

    def placeholders(self, node: str) -> str:
        """Return what the module fills in."""
        return ", ".join(f"{{{name}}}" for name in PLACEHOLDERS[node].needed)  # type: ignore[index]

    def check(self, node: str, text: str) -> None:
        """Raise ValueError if a placeholder is missing or unknown."""
        _check_length(text)
        check(node, text)  # type: ignore[arg-type]

    @contextmanager
    def applied(self, texts: Texts, observer: Observer) -> Iterator[Context]:
        """Pass `texts` in the context, those aside that are the default."""
        changed = {node: text for node, text in texts.items() if text != self._defaults[node]}
        same = {node: text for node, text in self.kept.items() if node not in texts}
        yield self._context.model_copy(update={"prompts": {**same, **changed}})


class SystemMessages:
    """The system messages of a graph's nodes by path."""

    file = "prompts.json"

    def __init__(self, app: Trainable) -> None:
        self._app = app
        self.kept: dict[str, str] = {}
        self._defaults: dict[str, str] = {}

    def defaults(self, seen: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the system message of each node whose calls all had the same one."""
        self._defaults = {node: texts[0] for node, texts in seen.items() if len(texts) == 1 and texts[0].strip()}
        return dict(self._defaults)

    def placeholders(self, node: str) -> str:
        """Return none."""
        return ""

    def check(self, node: str, text: str) -> None:
        """Raise ValueError for an empty text, or one that is too long."""
        if not text.strip():
            raise ValueError("the prompt is empty")
        _check_length(text)

    @contextmanager
    def applied(self, texts: Texts, observer: Observer) -> Iterator[Any]:
        """Replace the system messages."""
        changed = {node: (self._defaults[node], text) for node, text in texts.items() if text != self._defaults[node]}
        with replacing(observer, changed):
            yield self._app.context()


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"the prompt has {len(text):,} characters, more than {LONGEST:,}")


def target_of(app: Trainable, graph: Graph) -> Target:
    """Return the prompts of an app."""
    context = app.context()
    ours = isinstance(context, Context) and graph.name == agentflow.name
    return ContextPrompts(context) if ours else SystemMessages(app)


def chosen(patterns: Sequence[str], defaults: Texts) -> dict[str, str]:
    """Return the prompts of the nodes that the patterns fit, all without patterns. Raises PromptsError."""
    if not defaults:
        raise PromptsError(
            "no node has a system message that is the same in all of its calls; there is no prompt to evolve",
            code="no_prompts",
        )
    for pattern in patterns:
        if not any(fits(pattern, node.split("/")) for node in defaults):
            raise PromptsError(
                f"no prompt of a node '{pattern}' can be changed; there are those of {', '.join(defaults)}",
                code="unknown_node",
            )
    return {
        node: text
        for node, text in defaults.items()
        if not patterns or any(fits(pattern, node.split("/")) for pattern in patterns)
    }
