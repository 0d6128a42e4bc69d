"""Training data for questions outside Atlas: generated questions, all with the same reply of the micro model."""

import random

from agentflow.evals.atlas.families import request
from agentflow.rl.micro.declining import CONTEXT, SUB_GOAL
from recipes.micro.outside_forms import ACTS, FIELDS, FORMS, LANGUAGES, NAMES, NEAR, THINGS, WORDY
from recipes.micro.words import ACTIONS, NOUNS, QUALITIES

QUERY = request(SUB_GOAL, CONTEXT)
ANALYSIS = "This question is about neither Atlas nor a simple sum."
FINDING = "The question is outside Atlas, and the reply says so."
NO_PAGE = "There is no page of that name, so the question is outside Atlas."


def question(rng: random.Random) -> str:
    """Generate a question that neither Atlas nor a sum answers."""
    name, second = rng.sample(NAMES, 2)
    thing, other = rng.sample(THINGS, 2)
    noun, second_noun = rng.sample(NOUNS, 2)
    quality, second_quality = rng.sample(QUALITIES, 2)
    return rng.choice(rng.choice((FORMS, NEAR, WORDY))).format(
        thing=thing,
        other=other,
        act=rng.choice(ACTS),
        name=name,
        second=second,
        year=rng.randint(1200, 2030),
        small=rng.randint(2, 20),
        word=rng.choice((noun, quality)),
        noun=noun,
        second_noun=second_noun,
        quality=quality,
        second_quality=second_quality,
        action=rng.choice(ACTIONS),
        language=rng.choice(LANGUAGES),
        field=rng.choice(FIELDS),
        noise=_noise(rng),
        noise2=_noise(rng),
        noise3=_noise(rng),
    )


def _noise(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
