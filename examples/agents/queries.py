"""Tasks and the reward of an agent that asks a database: a small shop, questions, and the rows that answer them.

python -m examples.agents.queries shop.db > queries.jsonl
"""

import ast
import itertools
import json
import random
import sqlite3
import sys

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, price INTEGER);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER REFERENCES customers (id),
    product_id INTEGER REFERENCES products (id),
    quantity INTEGER
);
"""
NAMES = "Maria Tomas Aiko Nadia Oscar Leila Ravi Zoe Hugo Ines Kofi Lena".split()
CITIES = "Lisbon Oslo Kyoto Cairo".split()
PRODUCTS = {
    "garden": "spade rake hose bench".split(),
    "kitchen": "kettle knife pan toaster".split(),
    "office": "lamp stapler desk chair".split(),
}
BOUGHT = "FROM orders JOIN customers ON customers.id = customer_id JOIN products ON products.id = product_id WHERE"
QUERIES = {
    "How many orders did {name} place?": f"SELECT COUNT(*) {BOUGHT} customers.name = '{{name}}'",
    "How much did {name} spend in total?": f"SELECT SUM(price * quantity) {BOUGHT} customers.name = '{{name}}'",
    "Which different products did {name} order?": f"SELECT DISTINCT products.name {BOUGHT} customers.name = '{{name}}'",
    "In which city does {name} live?": "SELECT city FROM customers WHERE name = '{name}'",
    "How many pieces of the {product} were ordered?": f"SELECT SUM(quantity) {BOUGHT} products.name = '{{product}}'",
    "What does the {product} cost?": "SELECT price FROM products WHERE name = '{product}'",
    "How many customers live in {city}?": "SELECT COUNT(*) FROM customers WHERE city = '{city}'",
    "Which customers of {city} ordered a {product}?": (
        f"SELECT DISTINCT customers.name {BOUGHT} city = '{{city}}' AND products.name = '{{product}}'"
    ),
    "What is the cheapest {category} product?": (
        "SELECT name FROM products WHERE category = '{category}' ORDER BY price LIMIT 1"
    ),
}


def score(task, state) -> float:
    """Return 1 for the rows that answer the question, in any order, as Spider's execution accuracy does, else 0."""
    try:
        rows = ast.literal_eval(state["execution"])
    except (ValueError, SyntaxError):
        return 0.0
    return float(sorted(map(repr, map(list, rows))) == sorted(map(repr, task.data["rows"])))


def main(path: str) -> None:
    """Write the database, and print each question that has an answer, in random order, a line of JSON each."""
    rng, database = random.Random(0), sqlite3.connect(path)
    products = [(name, category) for category, names in PRODUCTS.items() for name in names]
    prices = rng.sample(range(5, 90), len(products))
    rows = {
        "INSERT INTO customers (name, city) VALUES (?, ?)": [(name, rng.choice(CITIES)) for name in NAMES],
        "INSERT INTO products (name, category, price) VALUES (?, ?, ?)": [
            (*product, price) for product, price in zip(products, prices, strict=True)
        ],
        "INSERT INTO orders (customer_id, product_id, quantity) VALUES (?, ?, ?)": [
            (rng.randint(1, len(NAMES)), rng.randint(1, len(products)), rng.randint(1, 5)) for _ in range(80)
        ],
    }
    with database:
        database.executescript(SCHEMA)
        for statement, values in rows.items():
            database.executemany(statement, values)
    queries = {}
    for question, query in QUERIES.items():
        for name, city, (product, category) in itertools.product(NAMES, CITIES, products):
            words = {"name": name, "city": city, "product": product, "category": category}
            queries[question.format(**words)] = query.format(**words)
    questions = list(queries)
    rng.shuffle(questions)
    for question in questions:
        found = database.execute(queries[question]).fetchall()
        if found and found[0][0] is not None:
            asked = {
                "question": question,
                "inputs": {"question": question},
            }  # the agent's state has a field of that name
            print(json.dumps({**asked, "query": queries[question], "rows": found}))


if __name__ == "__main__":
    main(sys.argv[1])
