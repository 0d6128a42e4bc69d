import pytest

from agentflow.graph.context import MODULES, Context


def test_of_the_embedded_model_the_planner_has_a_checkpoint_of_its_own() -> None:
    context = Context()
    assert context.model_of("planner") == "embedded:trained"
    assert {context.model_of(module) for module in MODULES if module != "planner"} == {"embedded"}


@pytest.mark.parametrize("spec", ["embedded:seed", "embedded:runs/planner", "openai:gpt-4o-mini"])
def test_a_named_planner_is_that_planner(spec: str) -> None:
    assert Context(models={"planner": spec}).model_of("planner") == spec
    assert Context(model=spec).model_of("planner") == spec
