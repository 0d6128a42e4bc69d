from importlib.metadata import EntryPoint
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agentflow.graph.context import MODULES, Context, Sampling
from agentflow.graph.models import providers
from tests.cases import table


def test_of_the_embedded_model_the_planner_has_a_checkpoint_of_its_own_unless_one_is_named() -> None:
    found = {module: Context().model_of(module) for module in MODULES}
    assert (found.pop("planner"), set(found.values())) == ("embedded:trained", {"embedded"})
    for spec in ("embedded:seed", "embedded:runs/planner", "openai:gpt-4o-mini"):
        assert Context(models={"planner": spec}).model_of("planner") == spec
        assert Context(model=spec).model_of("planner") == spec


@pytest.mark.parametrize(("settings", "profiles", "analyses"), table(__file__, "profiles.txt"))
def test_the_embedded_model_is_spoken_to_as_it_was_trained_and_given_an_analysis(
    settings: dict[str, Any], profiles: str, analyses: bool
) -> None:
    context = Context(**settings)
    assert [context.profile_of("planner"), context.profile_of("verifier")] == profiles.split()
    assert context.analyses is analyses


@pytest.mark.parametrize(
    ("planner", "corpus"),
    [("embedded:seed", "atlas"), ("atlas-oracle", "atlas"), ("openai:m", "live"), ("none", "live"), ("broken", "live")],
)
def test_a_provider_declares_the_corpus_of_its_planners(
    planner: str, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("broken", "no_such_module:load", "agentflow.models")
    known = {**providers.installed(), "broken": broken}
    monkeypatch.setattr(providers, "installed", lambda: known)
    assert Context(models={"planner": planner}).corpus_name == corpus
    assert Context(models={"planner": planner}, corpus="wiki.sqlite").corpus_name == "wiki.sqlite"


def test_a_chat_model_keeps_its_own_sampling_and_is_named() -> None:
    model = ChatOpenAI(model="m", api_key=SecretStr("k"), temperature=0.3)
    context = Context(models={"planner": model}, sampling={"planner": Sampling(top_p=0.5)})
    assert context.sampling_of("planner") == Sampling(top_p=0.5)
    assert context.model_name_of("planner") == "openai:m"
    assert context.model_dump()["models"] == {"planner": "openai:m"}
    assert Context.model_json_schema()["properties"]["model"]["type"] == "string"
