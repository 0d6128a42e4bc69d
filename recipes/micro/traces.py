"""Training data of the micro model: the conversations of all modules on Atlas, rendered with the nodes' prompts.

The planner of these traces is imperfect on purpose. If the last step needs a tool, it sometimes guesses with
`base_generator`. It sometimes searches for a whole question at once, or names a tool that does not exist. It guesses
often on some kinds of question and rarely on the others. Executor, verifier and generator make no mistakes of their
own, but the verifier accepts guesses. So a better planner earns more, and only the reward shows which plan was better.
The other modules are also trained on longer chains than the planner, so that they do not limit a planner that is
trained further while they are frozen.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from agentflow.evals.atlas import oracle
from agentflow.evals.atlas.families import FAMILIES, Problem, Step, belongs, request, stream
from agentflow.evals.atlas.world import pages, worlds
from agentflow.graph.context import Context
from agentflow.graph.state import Action, Plan, Turn
from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.rl.micro import declining
from agentflow.rl.policy.chat import ROLES
from agentflow.tools import base_generator
from agentflow.tools.card import ToolCard
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.result import ErrorClass, ToolResult
from recipes.micro import everyday, outside, outside_forms

FAILED_CALL = 0.03
"""Probability that a correct call fails."""

READ_GUESSES = 0.25
"""Share of the guesses of base_generator that become its training rows: most cannot be derived from the request."""

Search = Callable[[str], ToolResult]
"""Function that returns the result of `wikipedia_search` for a query."""


@dataclass(frozen=True)
class Conversation:
    """One training row; the loss is on the assistant's messages."""

    module: str
    messages: tuple[tuple[str, str], ...]
    """(role, content), roles as in the chat template."""


@dataclass(frozen=True)
class Habits:
    """Probabilities of the planner's mistakes."""

    guess: float = 0.75
    """Guess on questions that tempt to it (`_tempts`)."""
    slip: float = 0.15
    """Guess on other questions."""
    whole_question: float = 0.15
    """Search for the whole question."""
    no_such_tool: float = 0.1
    """Name a tool that does not exist."""


@dataclass(frozen=True)
class Try:
    """One turn of a run, before it is rendered."""

    step: Step
    result: ToolResult
    verdict: str
    problem: ErrorClass | None = None
    instead_of: Step | None = None
    """The correct step, if this turn is a guess."""


class Tracer:
    """Generator of conversations from questions."""

    def __init__(self, search: Search, seed: int, habits: Habits) -> None:
        context = Context()
        self.search = search
        self.habits = habits
        self.rng = random.Random(f"traces {seed}")
        self.cards: dict[str, ToolCard] = standard_cards(context.tools)
        self.tools = planner.describe_tools(self.cards.values())
        self.most_turns = context.max_turns
        self.titles: dict[str, list[str]] = {}
        for page in pages("train"):
            self.titles.setdefault(page.kind, []).append(page.title)

    def conversations(self, question: Problem) -> Iterator[Conversation]:
        """Yield the conversations of all modules in one run on `question`, in the order of the run."""
        analysis = oracle.analyst_reply(question)
        tries, answer = self.tries(question)
        yield _row("analyst", analyst.messages(question.question, list(self.cards)), analysis)
        yield from self._rows(question.question, analysis, tries, answer)

    def outside(self, question: str) -> Iterator[Conversation]:
        """Yield the conversations of a question that is unrelated to Atlas."""
        step = Step(
            declining.SUB_GOAL,
            "base_generator",
            declining.CONTEXT,
            {"query": outside.QUERY},
            declining.REPLY,
            outside.FINDING,
            "",
        )
        verdict = f"Analysis: {outside.FINDING}\nVerdict: stop"
        tries = [Try(step, ToolResult(status="ok", output=declining.REPLY), verdict)]
        yield _row("analyst", analyst.messages(question, list(self.cards)), outside.ANALYSIS)
        yield from self._rows(question, outside.ANALYSIS, tries, declining.REPLY)

    def unknown_page(self, question: Problem) -> Iterator[Conversation]:
        """Yield the conversations of a question in Atlas's form about a name that is not in Atlas."""
        name = self.rng.choice(outside_forms.NAMES)
        first = question.steps[0]
        text = question.question.replace(first.context, name)
        step = Step(
            first.sub_goal.replace(first.context, name), first.tool, name, {"query": name}, "", outside.NO_PAGE, ""
        )
        verdict = f"Analysis: {outside.NO_PAGE}\nVerdict: stop"
        analysis = oracle.analyst_reply(question)
        yield _row("analyst", analyst.messages(text, list(self.cards)), analysis)
        yield from self._rows(text, analysis, [Try(step, self.search(name), verdict)], declining.REPLY)

    def tries(self, question: Problem) -> tuple[list[Try], str]:
        """Return the turns of one run, and its answer."""
        tries: list[Try] = []
        for number, step in enumerate(question.steps):
            done = number == len(question.steps) - 1
            if self.rng.random() < self.habits.no_such_tool:
                tries.append(self._no_such_tool(step))
            if self.rng.random() < FAILED_CALL:
                tries.append(self._failed_call(step))
            if number == 0 and len(question.steps) > 1 and self.rng.random() < self.habits.whole_question:
                tries.append(self._whole_question(question))
            if done and step.tool != "base_generator" and self.rng.random() < self._guess_rate(question):
                tries.append(self._guess(question, step))
                return tries, tries[-1].step.value
            tries.append(Try(step, _ok(step.output), oracle.verifier_reply(step.finding, done=done)))
        return tries, question.answer

    def _guess_rate(self, question: Problem) -> float:
        if question.family == everyday.FAMILY:
            return 0.0
        return self.habits.guess if _tempts(question) else self.habits.slip

    def _no_such_tool(self, step: Step) -> Try:
        tool = self.rng.choice(("calculator", "search", "python", "wikipedia"))
        problem = f"there is no tool '{tool}'; the tools are {', '.join(self.cards)}"
        wrong = Step(step.sub_goal, tool, step.context, {}, problem, "", "")
        verdict = oracle.verifier_reply(f"There is no tool {tool}.", done=False)
        return Try(wrong, ToolResult.failed(ErrorClass.UNKNOWN_TOOL, problem), verdict, ErrorClass.UNKNOWN_TOOL)

    def _failed_call(self, step: Step) -> Try:
        """Return a correct step whose call fails, which teaches the planner to try again."""
        error, problem = self.rng.choice(
            (
                (ErrorClass.TOOL_ERROR, "SyntaxError: invalid syntax"),
                (ErrorClass.TIMEOUT, "the call took longer than 10 s"),
                (ErrorClass.BAD_ARGUMENTS, "the arguments could not be read"),
            )
        )
        verdict = oracle.verifier_reply("The step failed.", done=False)
        return Try(step, ToolResult.failed(error, problem), verdict)

    def _whole_question(self, question: Problem) -> Try:
        query = question.question.rstrip("?.")
        step = Step("Find the answer", "wikipedia_search", query, {"query": query}, "", "", "")
        return Try(step, self.search(query), oracle.verifier_reply("No page answers that.", done=False))

    def _guess(self, question: Problem, step: Step) -> Try:
        """Return the last step as a guess of `base_generator`, which the verifier accepts."""
        value = self._guessed_value(question, step)
        finding = step.finding.replace(step.value, value) if step.value in step.finding else f"The result is {value}."
        guess = Step(
            step.sub_goal,
            "base_generator",
            step.context,
            {"query": request(step.sub_goal, step.context)},
            value,
            finding,
            value,
        )
        return Try(guess, _ok(value), oracle.verifier_reply(finding, done=True), instead_of=step)

    def _guessed_value(self, question: Problem, step: Step) -> str:
        rng = self.rng
        if question.numbers:
            numbers = rng.sample(question.numbers, 4)
            one, two, three = (rng.choice("+-*") for _ in range(3))
            return f"(({numbers[0]}{one}{numbers[1]}){two}{numbers[2]}){three}{numbers[3]}"
        if step.kind in self.titles:
            return rng.choice(self.titles[step.kind])
        return step.value  # a sum or a date: correct in the data, so that the model tries it and fails by lack of skill

    def _rows(self, question: str, analysis: str, tries: list[Try], answer: str) -> Iterator[Conversation]:
        turns, memory = [], []
        for number, attempt in enumerate(tries, start=1):
            step, text = attempt.step, oracle.planner_reply(attempt.step)
            plan = Plan(text=text, sub_goal=step.sub_goal, tool=step.tool, context=step.context, error=attempt.problem)
            action = Action(arguments=step.arguments, result=attempt.result)
            turns.append((plan, action))
            verdict = verifier.parse(attempt.verdict)
            memory.append(Turn(turn=number, plan=plan, action=action, verdict=verdict))
            if attempt.problem is None:
                yield self._executor(step)
            if attempt.instead_of is not None:
                yield self._executor(attempt.instead_of)
            if step.tool == "base_generator" and (attempt.instead_of is None or self.rng.random() < READ_GUESSES):
                prompt = base_generator.prompt(step.arguments["query"])
                yield Conversation("tools", (("user", prompt), ("assistant", step.output)))
        # The usual limit in most cases, else a random one that the run fits in.
        limit = self.most_turns if self.rng.random() < 0.6 else self.rng.randint(len(tries), self.most_turns)
        planned = planner.messages(question, analysis, memory, self.tools, limit)
        yield _row("planner", planned[:-1])
        replies = [verifier.reply_text(turn.verdict) for turn in memory]
        yield _row("verifier", verifier.messages(question, analysis, turns, replies))
        yield _row("generator", generator.messages(question, memory), oracle.generator_reply(answer))

    def _executor(self, step: Step) -> Conversation:
        plan = Plan(text=oracle.planner_reply(step), sub_goal=step.sub_goal, tool=step.tool, context=step.context)
        messages = executor.messages(self.cards[step.tool], plan)
        return _row(f"executor {step.tool}", messages, oracle.executor_reply(step.arguments))


def _tempts(question: Problem) -> bool:
    """Return whether the planner usually guesses: on long chains, large numbers, one wording or subject of the rest."""
    return {
        "arithmetic": question.depth >= 2,
        "look-up": question.question.startswith("Name"),
        "hops": question.question.startswith("Name"),
        "units": question.depth >= 2,
        "dates": question.depth >= 2,
        "aggregate": "smallest" not in question.question,
        "compare": "later" in question.question,
        "years": "publication" in question.question,
        "game of 24": bool({1, 2} & set(question.numbers)),
        "countdown": question.target >= 35,
        "disambiguation": question.question.endswith("firm?"),
    }.get(question.family, False)


def _ok(output: str) -> ToolResult:
    return ToolResult(status="ok", output=output)


def _row(module: str, messages: list[BaseMessage], reply: str | None = None) -> Conversation:
    turns = [(ROLES[message.type], message.text) for message in messages]
    return Conversation(module, (*turns, ("assistant", reply)) if reply is not None else tuple(turns))


OUTSIDE_EVERY, UNKNOWN_PAGE_EVERY, DEEPER_EVERY = 2, 24, 8
"""Intervals, in questions of Atlas, between questions outside Atlas, questions about names that are not in Atlas, and
longer chains than the planner is trained on. An everyday sum follows every question of Atlas."""


def traces(search: Search, seed: int = 0, habits: Habits = Habits()) -> Iterator[Conversation]:
    """Yield an endless, deterministic sequence of training rows for a seed."""
    tracer = Tracer(search, seed, habits)
    longer = _deeper(seed)
    for number, question in enumerate(stream("train", seed)):
        yield from tracer.conversations(question)
        if number % DEEPER_EVERY == 3:
            yield from (row for row in tracer.conversations(next(longer)) if row.module != "planner")
        yield from tracer.conversations(everyday.question(tracer.rng))
        if number % OUTSIDE_EVERY == 1:
            yield from tracer.outside(outside.question(tracer.rng))
        if number % UNKNOWN_PAGE_EVERY == 1:  # a single look-up, whose only name can be replaced
            yield from tracer.unknown_page(question)


def _deeper(seed: int) -> Iterator[Problem]:
    """Yield questions on train worlds without end, at depths that only the test split has; deterministic for a seed."""
    rng = random.Random(f"atlas deeper {seed}")
    chains = [
        (make, depth) for make, depths in FAMILIES.values() for depth in set(depths["test"]) - set(depths["train"])
    ]
    while True:
        make, depth = rng.choice(chains)
        question = make(rng, rng.choice(worlds("train")), depth)
        if belongs(question, "train"):
            yield question
