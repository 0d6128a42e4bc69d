"""What the micro model learns from: the conversations of all modules on Atlas, rendered by the nodes' own prompts.

The planner of these traces is imperfect on purpose. Where the right step is a program, it sometimes guesses with
`base_generator`; it searches for a whole question at once; it names a tool that does not exist. On hard questions the
guess is its habit, on easy ones a slip. Executor, verifier and generator are faithful, and the verifier is credulous:
it believes a guess. So a better planner is worth something, and only the reward tells which plan was better.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from agentflow.evals.atlas import oracle
from agentflow.evals.atlas.families import Question, Step, request, stream
from agentflow.evals.atlas.world import pages
from agentflow.graph.context import Context
from agentflow.graph.state import Action, Plan, Turn
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.rl.micro import outside
from agentflow.rl.policy import ROLES
from agentflow.tools import base_generator
from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass, ToolResult

HABIT, SLIP = 0.62, 0.12
"""How often the planner guesses where guessing is its habit, and elsewhere."""
WHOLE_QUESTION, NO_SUCH_TOOL, FAILED_CALL = 0.12, 0.03, 0.02
"""How often it searches for the whole question, names a tool that does not exist, and meets a call that fails."""

Search = Callable[[str], ToolResult]
"""What `wikipedia_search` returns for a query."""


@dataclass(frozen=True)
class Conversation:
    """One training row: the assistant's messages are what is learnt."""

    module: str
    messages: tuple[tuple[str, str], ...]
    """(role, content), roles as in the chat template."""


@dataclass(frozen=True)
class _Try:
    """One turn as it is about to be traced."""

    step: Step
    result: ToolResult
    verdict: str
    problem: ErrorClass | None = None


class Tracer:
    """Turns questions into conversations."""

    def __init__(self, search: Search, seed: int) -> None:
        context = Context()
        self.search = search
        self.rng = random.Random(f"traces {seed}")
        self.cards: dict[str, ToolCard] = Toolbox().cards(context)
        self.tools = planner.describe_tools(self.cards.values())
        self.most_turns = context.max_turns
        self.titles: dict[str, list[str]] = {}
        for page in pages("train"):
            self.titles.setdefault(page.kind, []).append(page.title)

    def conversations(self, question: Question) -> Iterator[Conversation]:
        """All modules' conversations of one run on `question`, in the order of the run."""
        analysis = oracle.analyst_reply(question)
        tries, answer = self._run(question)
        yield _row("analyst", analyst.messages(question.question, list(self.cards)), analysis)
        yield from self._rows(question.question, analysis, tries, answer)

    def outside(self, question: str) -> Iterator[Conversation]:
        """The conversations of a question that has nothing to do with Atlas."""
        step = Step(
            outside.SUB_GOAL,
            "base_generator",
            outside.CONTEXT,
            {"query": outside.QUERY},
            outside.REPLY,
            outside.FINDING,
            "",
        )
        verdict = f"Analysis: {outside.FINDING}\nVerdict: stop"
        tries = [_Try(step, ToolResult(status="ok", output=outside.REPLY), verdict)]
        yield _row("analyst", analyst.messages(question, list(self.cards)), outside.ANALYSIS)
        yield from self._rows(question, outside.ANALYSIS, tries, outside.REPLY)

    def unknown_page(self, question: Question) -> Iterator[Conversation]:
        """The conversations of a question in the form of Atlas about a name that Atlas does not have."""
        name = self.rng.choice(outside.NAMES)
        first = question.steps[0]
        text = question.question.replace(first.context, name)
        step = Step(
            first.sub_goal.replace(first.context, name), first.tool, name, {"query": name}, "", outside.NO_PAGE, ""
        )
        verdict = f"Analysis: {outside.NO_PAGE}\nVerdict: stop"
        analysis = oracle.analyst_reply(question)
        yield _row("analyst", analyst.messages(text, list(self.cards)), analysis)
        yield from self._rows(text, analysis, [_Try(step, self.search(name), verdict)], outside.REPLY)

    def _run(self, question: Question) -> tuple[list[_Try], str]:
        """The turns of one imperfect run, and the answer it ends with."""
        tries: list[_Try] = []
        for number, step in enumerate(question.steps):
            done = number == len(question.steps) - 1
            if self.rng.random() < NO_SUCH_TOOL:
                tries.append(self._no_such_tool(step))
            if self.rng.random() < FAILED_CALL:
                tries.append(self._failed_call(step))
            if number == 0 and len(question.steps) > 1 and self.rng.random() < WHOLE_QUESTION:
                tries.append(self._whole_question(question))
            if done and step.tool != "base_generator" and self.rng.random() < _guess_rate(question):
                tries.append(self._guess(question, step))
                return tries, tries[-1].step.value
            tries.append(_Try(step, _ok(step.output), oracle.verifier_reply(step.finding, done=done)))
        return tries, question.answer

    def _no_such_tool(self, step: Step) -> _Try:
        tool = self.rng.choice(("calculator", "search", "python", "wikipedia"))
        problem = f"there is no tool '{tool}'; the tools are {', '.join(self.cards)}"
        wrong = Step(step.sub_goal, tool, step.context, {}, problem, "", "")
        verdict = oracle.verifier_reply(f"There is no tool {tool}.", done=False)
        return _Try(wrong, ToolResult.failed(ErrorClass.UNKNOWN_TOOL, problem), verdict, ErrorClass.UNKNOWN_TOOL)

    def _failed_call(self, step: Step) -> _Try:
        """A right step whose call fails: there is nothing to learn from it but to try again."""
        error, problem = self.rng.choice(
            (
                (ErrorClass.TOOL_ERROR, "SyntaxError: invalid syntax"),
                (ErrorClass.TIMEOUT, "the call took longer than 10 s"),
                (ErrorClass.BAD_ARGUMENTS, "the arguments could not be read"),
            )
        )
        verdict = oracle.verifier_reply("The step failed.", done=False)
        return _Try(step, ToolResult.failed(error, problem), verdict)

    def _whole_question(self, question: Question) -> _Try:
        query = question.question.rstrip("?.")
        step = Step("Find the answer", "wikipedia_search", query, {"query": query}, "", "", "")
        return _Try(step, self.search(query), oracle.verifier_reply("No page answers that.", done=False))

    def _guess(self, question: Question, step: Step) -> _Try:
        """The last step as `base_generator` would do it: a guess, which the verifier believes."""
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
        return _Try(guess, _ok(value), oracle.verifier_reply(finding, done=True))

    def _guessed_value(self, question: Question, step: Step) -> str:
        rng = self.rng
        if question.numbers:
            numbers = rng.sample(question.numbers, 4)
            one, two, three = (rng.choice("+-*") for _ in range(3))
            return f"(({numbers[0]}{one}{numbers[1]}){two}{numbers[2]}){three}{numbers[3]}"
        if step.kind in self.titles:
            return rng.choice(self.titles[step.kind])
        return step.value  # a sum or a date: right, so that the model learns to try, and fails by its own weakness

    def _rows(self, question: str, analysis: str, tries: list[_Try], answer: str) -> Iterator[Conversation]:
        turns, memory = [], []
        for number, attempt in enumerate(tries, start=1):
            step, text = attempt.step, oracle.planner_reply(attempt.step)
            plan = Plan(text=text, sub_goal=step.sub_goal, tool=step.tool, context=step.context, error=attempt.problem)
            action = Action(arguments=step.arguments, result=attempt.result)
            turns.append((plan, action))
            verdict = verifier.parse(attempt.verdict)
            memory.append(Turn(turn=number, plan=plan, action=action, verdict=verdict))
            if attempt.problem is None:
                reply = oracle.executor_reply(step.arguments)
                yield _row(f"executor {step.tool}", executor.messages(self.cards[step.tool], plan), reply)
                if step.tool == "base_generator":
                    prompt = base_generator.prompt(step.arguments["query"])
                    yield Conversation("tools", (("user", prompt), ("assistant", step.output)))
        # The usual limit mostly, and any that the run fits in.
        limit = self.most_turns if self.rng.random() < 0.6 else self.rng.randint(len(tries), self.most_turns)
        planned = planner.messages(question, analysis, memory, self.tools, limit)
        yield _row("planner", planned[:-1])
        replies = [verifier.reply_text(turn.verdict) for turn in memory]
        yield _row("verifier", verifier.messages(question, analysis, turns, replies))
        yield _row("generator", generator.messages(question, memory), oracle.generator_reply(answer))


def _guess_rate(question: Question) -> float:
    """Where guessing is the habit: long chains, large numbers, and one wording of each two-sided question."""
    habits = {
        "arithmetic": question.depth >= 3,
        "hops": question.depth >= 3,
        "units": question.depth >= 2,
        "dates": question.depth >= 2,
        "aggregate": question.depth >= 2,
        "compare": "later" in question.question,
        "years": "publication" in question.question,
        "countdown": question.target >= 35,
    }
    return HABIT if habits.get(question.family, False) else SLIP


def _ok(output: str) -> ToolResult:
    return ToolResult(status="ok", output=output)


def _row(module: str, messages: list[BaseMessage], reply: str | None = None) -> Conversation:
    turns = [(ROLES[message.type], message.text) for message in messages]
    return Conversation(module, (*turns, ("assistant", reply)) if reply is not None else tuple(turns))


OUTSIDE_EVERY, UNKNOWN_PAGE_EVERY = 12, 24
"""One question in so many lies outside Atlas, or asks in its form for a name that it does not have."""


def traces(search: Search, seed: int = 0) -> Iterator[Conversation]:
    """Endless training rows, the same for the same seed."""
    tracer = Tracer(search, seed)
    for number, question in enumerate(stream("train", seed)):
        yield from tracer.conversations(question)
        if number % OUTSIDE_EVERY == 5:
            yield from tracer.outside(outside.question(tracer.rng))
        if number % UNKNOWN_PAGE_EVERY == 1:  # a single look-up: its only name can be exchanged
            yield from tracer.unknown_page(question)
