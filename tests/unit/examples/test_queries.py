"""The database that a public agent was trained to ask, its questions, and the reward."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.run.task import Task
from examples.agents import queries

TASK = Task(id="1", question="", data={"rows": [["Ann", 3], ["Ben", None]]})


@pytest.mark.parametrize(
    ("execution", "reward"),
    [
        ("[('Ann', 3), ('Ben', None)]", 1),
        ("[('Ben', None), ('Ann', 3)]", 1),
        ("[('Ann', 3)]", 0),
        ("[(3, 'Ann'), (None, 'Ben')]", 0),
        ("", 0),
        ("Error: (sqlite3.OperationalError) no such column: nam", 0),
    ],
)
def test_the_rows_that_answer_the_question_are_rewarded_in_any_order(execution: str, reward: float) -> None:
    assert queries.score(TASK, {"execution": execution}) == reward


def test_the_rows_of_a_question_are_those_that_the_tables_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries.main(str(tmp_path / "shop.db"))
    found = {task["question"]: task["rows"] for task in map(json.loads, capsys.readouterr().out.splitlines())}
    database = sqlite3.connect(tmp_path / "shop.db")
    customers = {id: (name, city) for id, name, city in database.execute("SELECT * FROM customers")}
    products = {id: (name, price) for id, name, _, price in database.execute("SELECT * FROM products")}
    orders = [(*customers[who], *products[what], n) for _, who, what, n in database.execute("SELECT * FROM orders")]
    expected = dict[str, Any]()
    for name, city in customers.values():
        own = [order for order in orders if order[0] == name]
        if own:
            expected[f"How much did {name} spend in total?"] = {sum(price * n for *_, price, n in own)}
            expected[f"Which different products did {name} order?"] = {order[2] for order in own}
        expected[f"In which city does {name} live?"] = {city}
    for _, city, product, *_ in orders:
        buyers = {order[0] for order in orders if order[1:3] == (city, product)}
        expected[f"Which customers of {city} ordered a {product}?"] = buyers
        pieces = sum(order[4] for order in orders if order[2] == product)
        expected[f"How many pieces of the {product} were ordered?"] = {pieces}
    for question, answer in expected.items():
        assert {value for (value,) in found[question]} == answer
    assert len(expected) > 50
