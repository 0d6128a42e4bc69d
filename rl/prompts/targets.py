"""The prompts that a search may change: the system messages of a graph's nodes, or the prompts of AgentFlow's modules.

AgentFlow takes prompts through its `Context`. In any other graph, the system message of a node's model calls is
replaced, which needs the message to be the same in every call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentflow.evals.agents import agent_prompts
from agentflow.graph.agent import graph as agentflow
from agentflow.graph.context import Context
from agentflow.graph.prompts import PLACEHOLDERS, check
from agentflow.rl.apps.trainable import Made, Trainable
from agentflow.rl.policy.node_paths import fits
from agentflow.rl.prompts import PromptsError
from agentflow.rl.prompts.feedback import PromptRollout

LONGEST = 20_000  # characters of a prompt


class Target:
    """The prompts of an app by node."""

    def __init__(self, app: Trainable, graph: Made) -> None:
        context = app.context_of()
        ours = isinstance(context, Context) and getattr(graph, "name", "") == agentflow.name
        self.app, self.context = app, context if ours else None
        self.file = "context.json" if ours else "prompts.json"
        """Name of the file that the result is written to."""
        self._shipped = dict[str, str](agent_prompts("agentflow", context).items()) if ours else {}
        self.kept: dict[str, str] = {**context.prompts} if ours else {}
        """Prompts that a run has in place of the shipped ones before the search."""
        self.defaults = {**self._shipped, **self.kept}
        """The prompts before the search."""

    def learn(self, rollouts: Sequence[PromptRollout]) -> None:
        """Take the system messages of another graph's nodes as defaults, where all calls had the same one."""
        pairs = {pair for one in rollouts for pair in one.systems} if not self.context else set()
        nodes = [node for node, _ in pairs]
        self.defaults |= {node: text for node, text in sorted(pairs) if text.strip() and nodes.count(node) == 1}

    def chosen(self, patterns: Sequence[str]) -> dict[str, str]:
        """Return the prompts of the nodes that the patterns fit, all without patterns. Raises PromptsError."""
        names = ", ".join(self.defaults) or "no node, as none has a system message that is the same in all its calls"
        found: dict[str, str] = {}
        for pattern in patterns or ("*",):
            fit = {node: text for node, text in self.defaults.items() if fits(pattern, node.split("/"))}
            if not fit:
                raise PromptsError(f"no prompt of '{pattern}' can evolve; there are those of {names}", code="no_prompt")
            found |= fit
        return found

    def placeholders(self, node: str) -> str:
        """Return the placeholders of a node's prompt, as they are written in it."""
        return str(PLACEHOLDERS[node]) if self.context else "none"  # type: ignore[index]

    def check(self, node: str, text: str) -> None:
        """Raise ValueError if `text` is not a valid prompt of the node: empty, too long, or without a placeholder."""
        if not text.strip() or len(text) > LONGEST:
            raise ValueError(f"the prompt has {len(text):,} characters; it may have 1 to {LONGEST:,}")
        if self.context:
            check(node, text)  # type: ignore[arg-type]

    def changed(self, texts: Mapping[str, str]) -> tuple[Trainable, dict[str, tuple[str, str]]]:
        """Return what runs with `texts`: an app, and the system messages to replace in its calls."""
        if not self.context:
            return self.app, {node: (self.defaults[node], text) for node, text in texts.items()}
        prompts = {node: text for node, text in {**self.kept, **texts}.items() if text != self._shipped[node]}
        context = self.context.model_copy(update={"prompts": prompts})
        return replace(self.app, context=lambda: context), {}
