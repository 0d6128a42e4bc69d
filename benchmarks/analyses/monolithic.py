"""One policy that does everything, to compare the agent with: it reads the question and what its tools returned, and
writes the next call, arguments included, or the answer. What `base_generator` is to the agent, an answer without a tool
is to it.

Its seed is supervised on the same questions with the same bad habits as the agent's planner, and it is trained by the
same command: agentflow train app=benchmarks.analyses.monolithic:monolithic start=DIRECTORY.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from agentflow import Policy, Sampling, Task, Trainable
from agentflow.evals.atlas.families import Question, stream
from agentflow.evals.atlas.oracle import executor_reply, generator_reply
from agentflow.evals.episode import Episode, EpisodeTurn
from agentflow.graph.context import Context
from agentflow.graph.state import Verdict
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import executor, planner
from agentflow.rl.micro.traces import Conversation, Habits, Search, Tracer
from agentflow.rl.planner import reward, tasks
from agentflow.rl.policy import ROLES
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool

TOOLS = ("wikipedia_search", "python_coder")
MODULE = "monolithic"
"""Name of its rows among the conversations that a micro model learns from."""

PROMPT = """\
You answer a question with tools, one call at a time.

Tools:
{tools}

Write either a call, its first line Tool: and the tool's name, then the arguments as a JSON object, or a program in a \
```python block; or, when you know it, the answer, as Answer: and the answer."""

_context = Context(corpus="atlas", tools=list(TOOLS))
_toolbox = Toolbox()
_cards = standard_cards(TOOLS)


class State(TypedDict):
    """One run."""

    messages: Annotated[list[BaseMessage], add_messages]
    turns: list[EpisodeTurn]
    answer: str


def opening(question: str) -> list[BaseMessage]:
    """What the policy reads first."""
    tools = planner.describe_tools(_cards.values())
    return [SystemMessage(PROMPT.format(tools=tools)), HumanMessage(f"Question: {question}")]


def call_text(tool: str, arguments: dict[str, Any]) -> str:
    """A call as the policy writes it."""
    return f"Tool: {tool}\n{executor_reply(arguments)}"


def read(text: str) -> tuple[str, dict[str, Any] | None, str]:
    """Tool, arguments and answer of a reply; an answer ends the run."""
    if answer := re.search(r"^Answer:(.*)", text, re.MULTILINE):
        return "", None, answer[1].strip()
    named = re.match(r"\s*Tool:\s*(\S+)[ \t]*\n?(.*)", text, re.DOTALL)
    if named is None:
        return "", None, ""
    card = _cards.get(named[1])
    return named[1], executor.parse(named[2], card) if card else None, ""


async def execute(text: str, seconds: float) -> EpisodeTurn:
    """The turn that a reply which is no answer makes."""
    tool, arguments, _ = read(text)
    tools = (await _toolbox.offer(_context)).tools
    if not tool:
        result = ToolResult.failed(ErrorClass.BAD_PLAN, "neither a call nor an answer")
    elif tool not in tools:
        result = ToolResult.failed(
            ErrorClass.UNKNOWN_TOOL, f"there is no tool '{tool}'; the tools are {', '.join(tools)}"
        )
    elif arguments is None:
        result = ToolResult.failed(ErrorClass.BAD_ARGUMENTS, "the arguments could not be read")
    else:
        result = await run_tool(tools[tool], arguments, seconds)
    verdict = Verdict(analysis="", signal="continue")
    return EpisodeTurn(
        turn=1, sub_goal="", context="", tool=tool, arguments=arguments or {}, result=result, verdict=verdict
    )


def build(fallback: str, max_turns: int, max_tokens: int) -> Any:
    """The compiled graph: the policy, its tools, and back."""
    model = Policy(fallback=fallback, sampling=Sampling(max_tokens=max_tokens))

    async def policy(state: State) -> dict[str, Any]:
        reply = await model.ainvoke(state["messages"])
        return {"messages": [AIMessage(str(reply.text))], "answer": read(str(reply.text))[2]}

    async def tools(state: State) -> dict[str, Any]:
        turn = await execute(str(state["messages"][-1].text), seconds=60.0)
        numbered = turn.model_copy(update={"turn": len(state["turns"]) + 1})
        return {"messages": [HumanMessage(turn.result.describe())], "turns": [*state["turns"], numbered]}

    def ends(state: State) -> Literal["tools", "__end__"]:
        return END if state["answer"] or len(state["turns"]) == max_turns else "tools"  # type: ignore[return-value]

    builder = StateGraph(State)
    builder.add_node("policy", policy)
    builder.add_node("tools", tools)
    builder.add_edge(START, "policy")
    builder.add_conditional_edges("policy", ends)
    builder.add_edge("tools", "policy")
    return builder.compile(name="monolithic")


def episode(task: Task, state: State) -> Episode:
    """The run as the agent's are recorded."""
    status: Literal["answered", "out_of_turns"] = "answered" if state["answer"] else "out_of_turns"
    return Episode(question=task.question, answer=state["answer"], status=status, turns=state["turns"])


def monolithic(fallback: str = "embedded:seed", max_turns: int = 6, max_tokens: int = 400) -> Trainable:
    """The policy as something to train; `fallback` answers outside of training."""
    return Trainable(
        name="monolithic",
        graph=lambda: build(fallback, max_turns, max_tokens),
        nodes=("policy",),
        tasks=tasks,
        inputs=lambda task: {"messages": opening(task.question), "turns": [], "answer": ""},
        reward=reward,
        episode=episode,
        faults=lambda state: [turn.result.error is not None for turn in state["turns"]],
    )


def conversation(tracer: Tracer, question: Question) -> Conversation:
    """What the agent's planner would do on `question`, habits included, as this policy would write it."""
    tries, answer = tracer.tries(question)
    messages = opening(question.question)
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
    """The rows of the first `number` train questions."""
    tracer = Tracer(search, seed, Habits())
    return (conversation(tracer, question) for question in islice(stream("train", seed), number))
