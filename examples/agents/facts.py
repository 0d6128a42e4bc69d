"""Tasks and the reward of an agent that remembers what a user tells: the share of the facts that it stored.

python -m examples.agents.facts > facts.jsonl
"""

import json
import random

FACTS = {
    "My name is {}.": ("Maria", "Tomas", "Aiko", "Nadia", "Oscar", "Leila", "Ravi", "Ingrid", "Pedro", "Zoe"),
    "I live in {}.": ("Lisbon", "Oslo", "Nairobi", "Kyoto", "Lima", "Cairo", "Austin", "Riga", "Hanoi", "Perth"),
    "I work as a {}.": ("nurse", "carpenter", "pilot", "teacher", "chemist", "baker", "lawyer", "gardener", "plumber"),
    "I love {}.": ("climbing", "chess", "sailing", "pottery", "cycling", "opera", "fishing", "origami", "skiing"),
    "My dog is called {}.": ("Biscuit", "Rex", "Luna", "Pepper", "Bruno", "Maple", "Ziggy", "Koda"),
    "I cannot eat {}.": ("peanuts", "gluten", "shrimp", "dairy", "eggs", "soy", "celery"),
}


def score(task, state) -> float:
    """Return the share of the facts that are in a memory which was stored."""
    messages = state["messages"]
    stored = {one.tool_call_id for one in messages if one.type == "tool" and one.text.startswith("Stored memory")}
    calls = [call for one in messages if one.type == "ai" for call in one.tool_calls if call["id"] in stored]
    memories = [str(call["args"].get("content", "")).lower() for call in calls]
    facts = task.data["facts"]
    return sum(any(fact.lower() in memory for memory in memories) for fact in facts) / len(facts)


def main() -> None:
    """Print 400 tasks of two to four facts, one line of JSON each."""
    rng, tasks = random.Random(0), dict[str, list[str]]()
    while len(tasks) < 400:
        forms = rng.sample(list(FACTS), rng.randint(2, 4))
        facts = [rng.choice(FACTS[form]) for form in forms]
        tasks[" ".join(form.format(fact) for form, fact in zip(forms, facts, strict=True))] = facts
    for question, facts in tasks.items():
        print(json.dumps({"question": question, "facts": facts}))


if __name__ == "__main__":
    main()
