"""Prices that a user gives, and what a server says that its replies cost."""

import json
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.graph.run.cost import UNLIMITED, Budget, Price, PriceError, cost
from agentflow.graph.run.trace import Tokens, Usage
from tests.failing import fails

MANY = Tokens(input_tokens=2_000_000, output_tokens=500_000, total_tokens=2_500_000)


def test_a_price_is_for_a_million_tokens() -> None:
    name, price = Price.parse("vendor/model=v2=0.15/0.60")
    assert (name, price) == ("vendor/model=v2", Price(0.15, 0.6))
    assert isclose(price.of(MANY), 0.6)


@pytest.mark.parametrize("text", ["", "model", "model=", "model=1", "=1/2", "model=1/2/3", "model=-1/2", "model=nan/1"])
def test_what_is_no_price_is_one_line(text: str) -> None:
    with fails(PriceError, "", "MODEL=READ/WRITTEN"):
        Price.parse(text)


def test_the_users_price_counts_before_the_servers_and_a_part_is_not_given_as_the_whole() -> None:
    models = {"a": MANY, "b": MANY.model_copy(update={"cost": 0.5})}
    assert cost(models, {"a": Price(1, 2)}) == 3.5
    assert cost(models, {"a": Price(1, 2), "b": Price(0, 0)}) == 3.0
    assert cost(models, {}) is cost({}, {}) is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 10)), max_size=6))
def test_costs_add_up_where_there_are_any(costs: list[float | None]) -> None:
    total = sum((Tokens(cost=each) for each in costs), Tokens()).cost
    known = [each for each in costs if each is not None]
    assert total is None if not known else isclose(total or 0.0, sum(known), abs_tol=1e-9)


def test_usage_by_model_is_derived_and_comes_back_from_json() -> None:
    usage = Usage(calls=3, modules={"planner": {"m": MANY}, "tools": {"m": MANY, "n": MANY}})
    assert usage.models["m"].input_tokens == 4_000_000
    again = Usage.model_validate_json(usage.model_dump_json())
    assert again == usage
    assert "cost" not in json.loads(usage.model_dump_json())["models"]["n"]


def test_a_budget_is_of_all_models_and_modules() -> None:
    tokens = Tokens(input_tokens=600, output_tokens=100, calls=1)
    usage = Usage(calls=2, modules={"planner": {"a": tokens}, "verifier": {"b": tokens}})
    prices = {"a": Price(1000, 0)}
    assert UNLIMITED.exceeded(usage) == ""
    assert Budget(tokens=1400).exceeded(usage) == ""
    assert Budget(tokens=1399).exceeded(usage)
    assert Budget(dollars=0.6, prices=prices).exceeded(usage) == ""
    assert Budget(dollars=0.59, prices=prices).exceeded(usage)
    assert Budget(dollars=0.0).exceeded(usage) == ""
    assert Budget(dollars=1.0, prices=prices).unpriced(usage) == ["b"]
    assert Budget(dollars=1.0, prices={**prices, "b": Price(0, 0)}).unpriced(usage) == []
    assert UNLIMITED.unpriced(usage) == []
    reported = Usage(modules={"planner": {"a": tokens.model_copy(update={"cost": 0.1})}})
    assert Budget(dollars=1.0).unpriced(reported) == []
