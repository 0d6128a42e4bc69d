"""Advantage estimators, one module each: from the rewards of a step's rollouts to the advantage of each token."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.algorithms.grpo import GRPO
from agentflow.rl.algorithms.sft import SFT

AnyAlgorithm = Annotated[FlowGRPO | GRPO | SFT, Field(discriminator="name")]
"""Type of the setting `flow.algorithm`: an algorithm's name with its settings."""

FORMULAS: dict[str, str] = {
    one.model_fields["name"].default: one.formula for one in get_args(get_args(AnyAlgorithm)[0])
}
"""Formula of each algorithm's advantage, by name."""

NAMES = tuple(FORMULAS)


def algorithm_of(settings: Mapping[str, Any]) -> AnyAlgorithm:
    """Build the algorithm that `settings` name. Raises pydantic.ValidationError."""
    found: AnyAlgorithm = TypeAdapter(AnyAlgorithm).validate_python(settings)
    return found
