from importlib.metadata import EntryPoint

import pytest
from pydantic import ValidationError

from agentflow.graph.context import MODULES, Context
from agentflow.graph.models import providers
from agentflow.graph.models.spec import ModelError
from agentflow.graph.toolbox import Toolbox
from agentflow.tools.search_settings import SearchSettings
from tests.failing import fails


def test_of_the_embedded_model_the_planner_has_a_checkpoint_of_its_own() -> None:
    context = Context()
    assert context.model_of("planner") == "embedded:trained"
    assert {context.model_of(module) for module in MODULES if module != "planner"} == {"embedded"}


@pytest.mark.parametrize("spec", ["embedded:seed", "embedded:runs/planner", "openai:gpt-4o-mini"])
def test_a_named_planner_is_that_planner(spec: str) -> None:
    assert Context(models={"planner": spec}).model_of("planner") == spec
    assert Context(model=spec).model_of("planner") == spec


def test_search_is_built_from_what_a_run_sets() -> None:
    assert Context(corpus="package", search_cache="use:a").search == SearchSettings(corpus="package", cache="use:a")
    assert Context().search.corpus == "atlas"
    with pytest.raises(ValidationError, match="search_cache"):
        Context(search_cache="sometimes")


@pytest.mark.parametrize(
    ("planner", "corpus"),
    [("embedded:seed", "atlas"), ("atlas-random", "atlas"), ("openai:m", "live"), ("none", "live"), ("broken", "live")],
)
def test_a_provider_declares_the_corpus_of_its_planners(
    planner: str, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("broken", "no_such_module:load", "agentflow.models")
    known = {**providers.installed(), "broken": broken}
    monkeypatch.setattr(providers, "installed", lambda: known)
    assert Context(models={"planner": planner}).corpus_name == corpus
    assert Context(models={"planner": planner}, corpus="package").corpus_name == "package"


async def test_a_search_engine_that_there_is_not_ends_the_run() -> None:
    with fails(ModelError, "no_tool", "bing", configuration=True):
        await Toolbox().available_tools(Context(tools=["google_search"], search_engine="bing"))
