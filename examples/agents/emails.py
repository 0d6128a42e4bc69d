"""Tasks and the reward of an agent that writes an email: short, and with all that it is to say.

python -m examples.agents.emails > emails.jsonl
"""

import json
import random

NAMES = "Maria Lopez,Tomas Berg,Aiko Tanaka,Nadia Haddad,Oscar Lind,Leila Omar,Ravi Menon,Zoe Clark".split(",")
MATTERS = ("budget review", "team lunch", "design meeting", "job interview", "site visit", "project call", "fire drill")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
LONGEST = 30
"""Words of a short email."""


def score(task, state) -> float:
    """Return the share of five points: the address, the matter, the day, the hour, and at most 30 words."""
    calls = [call for message in state["messages"] if message.type == "ai" for call in message.tool_calls]
    sent = {name: str(value) for name, value in calls[-1]["args"].items()} if calls else {}
    told, asked = sent.get("content", ""), task.data
    points = (
        sent.get("to") == asked["address"],
        asked["matter"] in f"{sent.get('subject', '')} {told}".lower(),
        asked["day"] in told,
        asked["hour"] in told,
        0 < len(told.split()) <= LONGEST,
    )
    return sum(points) / len(points)


def main() -> None:
    """Print 400 tasks, one line of JSON each."""
    rng, tasks = random.Random(0), dict[str, dict[str, str]]()
    while len(tasks) < 400:
        name, matter, day = rng.choice(NAMES), rng.choice(MATTERS), rng.choice(DAYS)
        address = f"{name.lower().replace(' ', rng.choice(['.', '_', '']))}@example.com"
        hour = f"{rng.randint(8, 18)}:{rng.choice(['00', '15', '30', '45'])}"
        question = f"Write to {name}, {address}, that the {matter} is moved to {day} at {hour}."
        tasks[question] = {"address": address, "matter": matter, "day": day, "hour": hour}
    for question, facts in tasks.items():
        print(json.dumps({"question": question, **facts}))


if __name__ == "__main__":
    main()
