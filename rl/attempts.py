"""Which attempts of a rollout were given up, from the runs that LangChain's callbacks report.

A node with a `RetryPolicy` that fails begins again, as does a runnable made by `with_retry`. The model calls of an
earlier attempt did not lead to the rollout's outcome and are not credited with it. An error alone gives nothing up:
where a node catches what a chain raised, or `with_fallbacks` tries something else, the chain's calls led to what came.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID


class Attempts:
    """The tree of a rollout's runs, and those of its branches that were given up."""

    def __init__(self) -> None:
        self._parents: dict[UUID, UUID | None] = {}
        self._children: dict[UUID, list[UUID]] = defaultdict(list)
        self._tasks: dict[tuple[UUID, str], UUID] = {}
        self._given_up: set[UUID] = set()

    def begins(self, run: UUID, parent: UUID | None, tags: Sequence[str], metadata: Mapping[str, Any]) -> None:
        """A run begins: of a graph, a node, a runnable in it or a model."""
        self._parents[run] = parent
        if parent is None:
            return
        if any(tag.startswith("retry:attempt:") for tag in tags):
            self._given_up.update(self._children[parent])
        if any(tag.startswith("graph:step:") for tag in tags):
            # LangGraph's namespace ends in the id of the task, which its attempts share.
            task = parent, str(metadata.get("langgraph_checkpoint_ns"))
            if task in self._tasks:
                self._given_up.add(self._tasks[task])
            self._tasks[task] = run
        self._children[parent].append(run)

    def given_up(self, run: UUID) -> bool:
        """Whether a run belongs to an attempt that was given up."""
        found: UUID | None = run
        while found is not None and found not in self._given_up:
            found = self._parents.get(found)
        return found is not None
