"""The monolithic policy, `--agent react`, on Atlas: a baseline for the agent.

An answer without a tool corresponds to the agent's `base_generator`. Its seed is supervised on the same questions with
the same bad habits as the agent's planner, and it is trained by the same command:
agentflow train app=benchmarks.analyses.monolithic:monolithic start=DIRECTORY.
"""

from collections.abc import Iterator
from itertools import islice

from langchain_core.messages import AIMessage, HumanMessage

from agentflow import Trainable
from agentflow.evals.atlas.families import Problem, stream
from agentflow.evals.atlas.oracle import executor_reply, generator_reply
from agentflow.evals.baselines import react
from agentflow.rl.chat import ROLES
from agentflow.rl.planner import atlas
from agentflow.tools.catalogue import standard_cards
from recipes.micro.traces import Conversation, Habits, Search, Tracer

TOOLS = ("wikipedia_search", "python_coder")
MODULE = "monolithic"
"""Module name of its conversations in the micro model's training data."""


def call_text(tool: str, arguments: dict[str, object]) -> str:
    """Format a tool call as the policy writes it."""
    return f"Tool: {tool}\n{executor_reply(arguments)}"


def monolithic(frozen: str = "embedded:seed", max_turns: int = 6, max_tokens: int = 400) -> Trainable:
    """Return the policy as a trainable app."""
    return atlas(max_turns, max_tokens, frozen, agent="react", tools=TOOLS)


def conversation(tracer: Tracer, question: Problem) -> Conversation:
    """Convert the planner's tries on `question`, bad habits included, to a conversation of this policy."""
    tries, answer = tracer.tries(question)
    messages = react.messages(question.question, [], standard_cards(TOOLS))
    for attempt in tries:
        if attempt.step.tool == "base_generator":
            break
        messages += [
            AIMessage(call_text(attempt.step.tool, attempt.step.arguments)),
            HumanMessage(attempt.result.describe()),
        ]
    messages.append(AIMessage(generator_reply(answer)))
    return Conversation(MODULE, tuple((ROLES[message.type], str(message.text)) for message in messages))


def conversations(search: Search, number: int, seed: int = 0) -> Iterator[Conversation]:
    """Return the conversations of the first `number` train questions."""
    tracer = Tracer(search, seed, Habits())
    return (conversation(tracer, question) for question in islice(stream("train", seed), number))
