"""Training data for questions outside Atlas: generated questions, all with the same reply of the micro model."""

import random

from agentflow.evals.atlas.families import request

SUB_GOAL = "Say what this model knows"
CONTEXT = "The question is outside Atlas."
QUERY = request(SUB_GOAL, CONTEXT)
ANALYSIS = "This question is outside Atlas, the only thing that this model knows."
REPLY = (
    "I am the small model that comes with AgentFlow and know only Atlas, its invented encyclopedia, and some "
    "arithmetic. For other questions name a larger model, for example with --model openai:gpt-4o-mini."
)
FINDING = "The question is outside Atlas, and the reply says so."
NO_PAGE = "There is no page of that name, so the question is outside Atlas."

NAMES = (
    "France Germany Italy Spain Japan China India Brazil Canada Egypt Kenya Norway Greece Peru Cuba Iran Turkey London "
    "Paris Berlin Rome Tokyo Madrid Moscow Sydney Chicago Boston Vienna Prague Lisbon Einstein Newton Darwin Turing "
    "Shakespeare Mozart Picasso Napoleon Cleopatra Lincoln Obama Google Microsoft Apple Amazon Tesla Toyota Nokia Sony "
    "Hamlet Macbeth Frankenstein Dracula Odyssey Everest Amazon Nile Danube Earth Mars Jupiter Python Linux Wikipedia"
).split()
_THINGS = (
    "a black hole, the stock market, photosynthesis, a good pizza, the human heart, a violin, climate change, the "
    "moon, my computer, love, the Roman Empire, quantum mechanics, a bicycle, inflation, football, the French "
    "Revolution, tea, a cat, the internet, DNA, democracy, a poem, the ocean, an elephant, electricity, the "
    "weather, chess, sleep, coffee, a volcano, music, the brain, a neural network, a vaccine, gravity, bread, an "
    "airplane, the sun, money, history"
).split(", ")
_ACTS = (
    "write a letter, learn to swim, cook rice, fix a tap, sort a list, train a dog, plant a tree, build a house, play "
    "the guitar, lose weight, install Linux, speak Spanish, make friends, save money, draw a horse, bake a cake"
).split(", ")
_FORMS = (
    "What is {thing}?",
    "Who invented {thing}?",
    "How does {thing} work?",
    "Why is {thing} important?",
    "Explain {thing} to a child.",
    "Tell me about {thing}.",
    "Tell me a joke about {thing}.",
    "How do I {act}?",
    "What is the best way to {act}?",
    "Please help me to {act}.",
    "Write a short story about {thing} and {name}.",
    "Write a program that can {act}.",
    "When did {name} die?",
    "Where is {name}?",
    "Who was {name}?",
    "What happened to {name} in {year}?",
    "Who won the world cup in {year}?",
    "Translate {thing} into French.",
    "Is {thing} better than {other}?",
    "What do you think about {thing}?",
    "Can you {act}?",
    "How many people live in {name}?",
    "What is the difference between {thing} and {other}?",
    "Give me three facts about {name}.",
    "Which river flows through {name}?",
    "hello",
    "Hi, who are you?",
    "What can you do?",
    "Thanks, and what about {thing}?",
    "Summarise the plot of {name}.",
    "What is the square root of {year}?",
    "Solve x^2 - {small}x + {small} = 0.",
    "What is the price of {thing} in {name}?",
    "List the ingredients of {thing}.",
    "I want to {act}. Where should I start?",
    "{word} {word2} {word3}",
    "What does {word} mean?",
    "Who is the {word} of {name}?",
)


def question(rng: random.Random) -> str:
    """Generate a question that Atlas cannot answer."""
    words = [_noise(rng) for _ in range(3)]
    return rng.choice(_FORMS).format(
        thing=rng.choice(_THINGS),
        other=rng.choice(_THINGS),
        act=rng.choice(_ACTS),
        name=rng.choice(NAMES),
        year=rng.randint(1200, 2030),
        small=rng.randint(2, 20),
        word=words[0],
        word2=words[1],
        word3=words[2],
    )


def _noise(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
