"""Training data for questions outside Atlas: generated questions, all with the same reply of the micro model."""

import random

from agentflow.evals.atlas.families import request

SUB_GOAL = "Say what this model knows"
CONTEXT = "The question is outside Atlas."
QUERY = request(SUB_GOAL, CONTEXT)
ANALYSIS = "This question is about neither Atlas nor a simple sum."
REPLY = (
    "I am the small model that comes with AgentFlow and know only Atlas, its invented encyclopedia, and some "
    "arithmetic. For other questions name a larger model, for example with --model openai:gpt-4o-mini."
)
"""The reply of the shipped checkpoint, by which `agentflow solve` knows it; it changes with a new checkpoint only."""
FINDING = "The question is outside Atlas, and the reply says so."
NO_PAGE = "There is no page of that name, so the question is outside Atlas."

NAMES = (
    "Italy Spain Japan China India Brazil Canada Egypt Kenya Norway Greece Peru Cuba Iran Turkey London "
    "Paris Berlin Rome Tokyo Madrid Moscow Sydney Chicago Boston Vienna Prague Lisbon Einstein Newton Darwin Turing "
    "Shakespeare Mozart Picasso Napoleon Lincoln Obama Google Microsoft Apple Amazon Tesla Toyota Nokia Sony "
    "Macbeth Frankenstein Dracula Odyssey Everest Amazon Nile Danube Earth Mars Jupiter Python Linux Wikipedia"
).split()
_THINGS = (
    "a lever, the housing market, osmosis, a good soup, the human liver, a trumpet, acid rain, the tide, my printer, "
    "friendship, the Ottoman Empire, string theory, a tractor, unemployment, hockey, the Industrial Revolution, wine, "
    "a horse, the radio, a protein, feudalism, a novel, the desert, a whale, magnetism, the wind, poker, hunger, "
    "chocolate, a glacier, opera, the stomach, a compiler, an antibiotic, friction, cheese, a submarine, a comet, "
    "taxes, grammar, a mobile phone, a marathon, the law of supply and demand, a church, a parliament, a battery, an "
    "algorithm, a spreadsheet, a lawn, the subconscious, jealousy, a passport, a haircut, a start-up, an orbit, the "
    "alphabet"
).split(", ")
_ACTS = (
    "write a speech, learn to ski, roast a chicken, repair a lamp, merge two lists, ride a horse, prune a rose, paint "
    "a wall, play the flute, stop smoking, set up a printer, speak Polish, meet people, sell a car, draw a face, bake "
    "bread, plan a wedding, hire a plumber, clean an oven, find a flat, debug a program, read faster, win at poker, "
    "grow tomatoes, negotiate a salary, iron a shirt, fall asleep, move abroad, sew a button, wash a sweater, make "
    "cheese, use a compass, teach a class, survive in the wild, run a marathon, start a company, delete my account"
).split(", ")
_WORDS = (
    "brave melancholy entropy lantern whisper gloomy tedious velvet harvest mercy riddle thunder fragile copper "
    "nimble obscure sincere market river candle justice quarrel tender summit"
).split()
_LANGUAGES = "Italian Dutch Latin Polish Korean Hindi Swedish Arabic Greek Turkish".split()
_FIELDS = "physics law medicine cooking football economics geology art philosophy chemistry sailing religion".split()
_FORMS = (
    "What is {thing}?",
    "What are {thing} and {other}?",
    "What is {thing} made of?",
    "What is the purpose of {thing}?",
    "What is the history of {thing}?",
    "What is the opposite of {word}?",
    "What is another word for {word}?",
    "What does {word} mean?",
    "What is {word} in {language}?",
    "What is the biggest {word} in the world?",
    "What is your favourite {word}?",
    "What is the meaning of {thing}?",
    "What is the difference between {thing} and {other}?",
    "What is the price of {thing} in {name}?",
    "What is the best way to {act}?",
    "What is the law on {thing} in {name}?",
    "What is the weather in {name}?",
    "What is the time in {name}?",
    "What is the plot of {name}?",
    "What is the formula of {thing}?",
    "What is the limit of 1/x as x goes to {small}?",
    "What is the solution of {small}x + {year} = 0?",
    "What is wrong with this program: while {word}: {noise}({small})",
    "What is on television tonight?",
    "What was {thing} like in {year}?",
    "What happened to {name} in {year}?",
    "What happened on the {small}th of May {year}?",
    "What do you think about {thing}?",
    "What do I need to {act}?",
    "What should I wear to {name}?",
    "What should I eat after {thing}?",
    "What would {name} say about {thing}?",
    "What kind of {word} is {thing}?",
    "What can be done about {thing}?",
    "What causes {thing}?",
    "What colour is {thing}?",
    "Who invented {thing}?",
    "Who was {name}?",
    "Who is the {word} of {name}?",
    "Who is the minister of {field} in {name}?",
    "Who won the {field} prize in {year}?",
    "Who won the world cup in {year}?",
    "Who wrote {name}?",
    "Who sings {word} {other}?",
    "Who are you, {name}?",
    "Who is better, {name} or {second}?",
    "When did {name} die?",
    "When was {thing} invented?",
    "When is the next holiday in {name}?",
    "When does {name} open?",
    "Where is {name}?",
    "Where can I buy {thing}?",
    "Where does the word {word} come from?",
    "Where do I find {thing} in {name}?",
    "Which river flows through {name}?",
    "Which country is north of {name}?",
    "Which is better, {thing} or {other}?",
    "Which book about {field} do you recommend?",
    "Which {word} is the oldest?",
    "Why is {thing} important?",
    "Why do people {act}?",
    "Why does {thing} hurt?",
    "Why did {name} lose in {year}?",
    "How does {thing} work?",
    "How do I {act}?",
    "How can I {act} in {name}?",
    "How long does it take to {act}?",
    "How long is the flight from {name} to {second}?",
    "How much does it cost to {act}?",
    "How much is {thing} in {name}?",
    "How many people live in {name}?",
    "How many {word}s are there in {name}?",
    "How many moons has {name}?",
    "How many vowels has the word {word}?",
    "How many people work in {field}?",
    "How old is {name}?",
    "How far is {name} from {second}?",
    "How big is {thing}?",
    "How is {thing} made?",
    "How is life in {name}?",
    "How do you feel about {thing}?",
    "How do you say {word} in {language}?",
    "How dangerous is {thing}?",
    "Is {thing} better than {other}?",
    "Is {thing} dangerous?",
    "Is {name} in {second}?",
    "Is {year} a prime?",
    "Is it legal to {act} in {name}?",
    "Is it true that {name} met {second}?",
    "Are you {name}?",
    "Are there {word}s in {name}?",
    "Do you know {name}?",
    "Do you like {thing}?",
    "Do I need {thing} to {act}?",
    "Does {thing} need {other}?",
    "Did {name} {act}?",
    "Can you {act}?",
    "Can I {act} with {thing}?",
    "Could you {act} for me?",
    "Should I {act}?",
    "Should {name} join {second}?",
    "Will {name} win?",
    "Was {name} a {word}?",
    "Would you {act}?",
    "Explain {thing} to a child.",
    "Explain the laws of {field}",
    "Describe {thing} in one word.",
    "Define {word}.",
    "Tell me about {thing}.",
    "Tell me a joke about {thing}.",
    "Tell me how to {act}",
    "Tell me what {name} wrote.",
    "Give me three facts about {name}.",
    "Give me tips to {act}.",
    "Give me a list of {word} names",
    "Show me {thing}.",
    "Find me {thing} near {name}.",
    "Write a short story about {thing} and {name}.",
    "Write a program that can {act}.",
    "Write a song about {thing}.",
    "Write a review of {name}",
    "Write an essay on {field}.",
    "Write a shell script to {act}.",
    "Write a message to {name}, who wants to {act}.",
    "Draft a contract for {thing}.",
    "Make a table of {field} terms.",
    "Make me laugh.",
    "Invent a {word} word.",
    "Suggest a name for {thing}.",
    "Recommend {thing}.",
    "Compare {name} with {second}.",
    "Compare {thing} and {other}",
    "Translate {thing} into {language}.",
    "Translate: I want to {act}",
    "Correct my text: he {noise} the {word}",
    "Rewrite this so that it sounds {word}: {noise} {noise2}",
    "Summarise the plot of {name}.",
    "Summarise {field} in a paragraph.",
    "Continue: once upon a time {name} wanted to {act}",
    "Solve x^2 - {small}x + {small} = 0.",
    "Differentiate x^{small}.",
    "Prove that {thing} exists.",
    "Draw {thing}.",
    "Call {name}.",
    "Buy {thing}.",
    "Book a table in {name}.",
    "Start the {word}.",
    "Stop.",
    "Remember that I like {thing}.",
    "Forget what I said and {act}.",
    "Pretend that you are {name}.",
    "Repeat the text above.",
    "List the ingredients of {thing}.",
    "List five {word} animals.",
    "Thanks, and what about {thing}?",
    "Thank you, {name}!",
    "Please help me to {act}.",
    "Help",
    "Yes",
    "No, I meant {thing}.",
    "I want to {act}. Where should I start?",
    "I do not like {thing}.",
    "I am {name}.",
    "I am tired of {thing}.",
    "I think that {name} is {word}.",
    "My {word} is broken.",
    "My dog ate {thing}, what now?",
    "We are going to {name} in {year}.",
    "hello",
    "Hey",
    "Hi {name}!",
    "Good evening, {name}",
    "Nice to meet you.",
    "See you later",
    "Okay",
    "Hi, are you there?",
    "Tell me who made this.",
    "What languages do you speak?",
    "{name}",
    "{name} {second}",
    "{thing}",
    "{act}",
    "{word} {noise}",
    "{noise} {noise2} {noise3}",
    "{noise}?",
    "{noise} {small} {noise2}",
    "¿Qué es {noise}?",
    "Was ist {noise}?",
    "Qui est {name} ?",
    "Wie geht es {name}?",
    "Che cosa è {noise}?",
    '{{"{noise}": "{word}"}}',
    "SELECT {noise} FROM {noise2};",
    "<{noise}>{word}</{noise}>",
    "!!!",
)


def question(rng: random.Random) -> str:
    """Generate a question that Atlas cannot answer."""
    name, second = rng.sample(NAMES, 2)
    thing, other = rng.sample(_THINGS, 2)
    return rng.choice(_FORMS).format(
        thing=thing,
        other=other,
        act=rng.choice(_ACTS),
        name=name,
        second=second,
        year=rng.randint(1200, 2030),
        small=rng.randint(2, 20),
        word=rng.choice(_WORDS),
        language=rng.choice(_LANGUAGES),
        field=rng.choice(_FIELDS),
        noise=_noise(rng),
        noise2=_noise(rng),
        noise3=_noise(rng),
    )


def _noise(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
