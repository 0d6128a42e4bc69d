"""The verifier and the planner as middleware of LangChain's agents."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from agentflow import Context, PlannerVerifierMiddleware, VerifierMiddleware
from agentflow.graph.models.spec import ModelError
from tests.scripted import CONTINUE, STOP, THREAD, Conversation, Script, question
from tests.unit.graph.test_agent import Doubter

WRONG = "Analysis: The word is not said.\nVerdict: continue"
CALL = AIMessage("", tool_calls=[{"name": "echo", "args": {"text": "hello"}, "id": "1"}])


def echo(text: str) -> str:
    """Repeats a text."""
    return text


class Model(BaseChatModel):
    """The agent's own model: replies in turn, of which the last repeats."""

    replies: list[AIMessage]
    seen: list[Conversation] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "replies"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Conversation, *args: Any, **options: Any) -> ChatResult:
        self.seen.append(list(messages))
        reply = self.replies[min(len(self.seen), len(self.replies)) - 1]
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(update={"id": str(len(self.seen))}))])


async def test_an_answer_is_sent_back_with_the_reason_until_it_is_right(scripted: Script) -> None:
    script = scripted(tools=[WRONG, STOP])
    model = Model(replies=[AIMessage("I guess"), CALL, AIMessage("hello")])
    agent = create_agent(model, [echo], middleware=[VerifierMiddleware(script.spec)])
    found = await agent.ainvoke(question())
    assert found["messages"][-1].text == "hello"
    assert found["verdict"] == {"analysis": "The word is hello.", "signal": "stop"}
    assert "The word is not said." in model.seen[1][-1].text
    first, second = (talk[-1].text for talk in script.asked("tools"))
    assert "Answer: I guess" in first
    assert all(part in second for part in ("Question: Which word?", "Call: hello", "Result: hello", "Answer: hello"))


@pytest.mark.parametrize(("verdict", "calls"), [(WRONG, 3), (STOP, 1), ("Verdict: continue", 1), ("no idea", 1)])
def test_it_sends_back_twice_at_most_and_never_without_a_reason(verdict: str, calls: int, scripted: Script) -> None:
    script = scripted(tools=verdict)
    model = Model(replies=[AIMessage("I guess")])
    agent = create_agent(model, [echo], middleware=[VerifierMiddleware(script.spec)], checkpointer=InMemorySaver())
    for n in (1, 2):  # each question of a thread has its own checks
        found = agent.invoke(question(), THREAD)
        assert len(model.seen) == n * calls
        assert found["verdict"]["signal"] == ("stop" if verdict == STOP else "continue")


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_person_decides_on_an_answer_that_is_still_not_right(sync: bool, scripted: Script) -> None:
    script = scripted(tools=WRONG)
    checks = VerifierMiddleware(script.spec, max_checks=0, ask_person=True)
    model = Model(replies=[AIMessage("I guess"), AIMessage("hello")])
    agent = create_agent(model, [echo], middleware=[checks], checkpointer=InMemorySaver())

    async def go_on(given: Any) -> dict[str, Any]:
        return agent.invoke(given, THREAD) if sync else await agent.ainvoke(given, THREAD)

    [asked] = (await go_on(question()))["__interrupt__"]
    [request] = asked.value["action_requests"]
    assert (request["args"], request["description"]) == ({"answer": "I guess"}, "The word is not said.")
    reject = {"decisions": [{"type": "reject", "message": "no guesses"}]}
    [asked] = (await go_on(Command(resume=reject)))["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"answer": "hello"}
    assert "no guesses" in model.seen[1][-1].text
    found = await go_on(Command(resume={"decisions": [{"type": "approve"}]}))
    assert (found["messages"][-1].text, found["verdict"]["signal"]) == ("hello", "stop")
    assert (len(model.seen), len(script.asked("tools"))) == (2, 2)  # nothing is asked again


def test_no_person_is_asked_about_a_right_answer_nor_unless_it_is_wished_for(scripted: Script) -> None:
    for verdict, wished in ((STOP, True), (WRONG, False)):
        checks = VerifierMiddleware(scripted(tools=verdict).spec, max_checks=0, ask_person=wished)
        model, saver = Model(replies=[AIMessage("hello")]), InMemorySaver()
        agent = create_agent(model, [echo], middleware=[checks], checkpointer=saver)
        assert "__interrupt__" not in agent.invoke(question(), THREAD)


def test_an_agent_that_could_not_wait_for_a_person_is_refused_before_any_call(scripted: Script) -> None:
    model = Model(replies=[AIMessage("hello")])
    agent = create_agent(model, [echo], middleware=[VerifierMiddleware(scripted().spec, ask_person=True)])
    with pytest.raises(ModelError, match="checkpointer"):
        agent.invoke(question())
    assert model.seen == []


def test_the_verifier_of_a_long_run_sees_its_last_calls(scripted: Script) -> None:
    script = scripted(tools=STOP)
    calls = [
        AIMessage("", tool_calls=[{"name": "echo", "args": {"text": f"word {n}"}, "id": f"{n}"}]) for n in range(4)
    ]
    checks = VerifierMiddleware(context=Context(model=script.spec, max_turns=2))
    create_agent(Model(replies=[*calls, AIMessage("hello")]), [echo], middleware=[checks]).invoke(question())
    [conversation] = script.asked("tools")
    assert [f"Result: word {n}" in conversation[-1].text for n in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("middleware", [VerifierMiddleware, PlannerVerifierMiddleware])
async def test_a_decision_model_can_be_the_verifier(middleware: Any, scripted: Script) -> None:
    script = scripted()
    checks = middleware(context=Context(model=script.spec, models={"verifier": Doubter(word="hello")}))
    agent = create_agent(Model(replies=[CALL, AIMessage("hello")]), [echo], middleware=[checks])
    found = (await agent.ainvoke(question()))["verdict"]
    assert (found["signal"], found["probability"]) == ("stop", 0.9)
    assert script.asked("verifier") + script.asked("tools") == []


class Word(BaseModel):
    """The word."""

    word: str


async def test_structured_output_is_an_answer_too(scripted: Script) -> None:
    script = scripted(tools=[WRONG, STOP])
    said = [
        AIMessage("", tool_calls=[{"name": "Word", "args": {"word": word}, "id": word}]) for word in ("hm", "hello")
    ]
    agent: Any = create_agent(
        Model(replies=said), [echo], response_format=ToolStrategy(Word), middleware=[VerifierMiddleware(script.spec)]
    )
    found = await agent.ainvoke(question())
    assert (found["structured_response"].word, found["verdict"]["signal"]) == ("hello", "stop")
    assert "hm" in script.asked("tools")[0][-1].text


@pytest.mark.parametrize("sync", [False, True])
async def test_the_loop_plans_each_step_and_says_when_to_answer(sync: bool, scripted: Script) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    model = Model(
        replies=[CALL, CALL.model_copy(update={"tool_calls": [{**CALL.tool_calls[0], "id": "2"}]}), AIMessage("hello")]
    )
    agent = create_agent(model, [echo], middleware=[PlannerVerifierMiddleware(script.spec)])
    found = agent.invoke(question()) if sync else await agent.ainvoke(question())
    assert [message.type for message in found["messages"]] == ["human", *["human", "ai", "tool"] * 2, "human", "ai"]
    first, second, last = (talk[-1].text for talk in model.seen)
    assert first == "Next step: repeat it\nTool: echo\nContext: hello"
    assert second == f"Checked: More is needed.\n{first}"
    assert "repeat it" not in last
    assert (len(script.asked("planner")), len(script.asked("verifier")), script.asked("tools")) == (2, 2, [])
    told = script.asked("planner")[1]
    assert [told[0].text.count("- echo: Repeats a text."), *(message.text for message in told[2:])] == [
        1,
        first.replace("Next step", "Sub-Goal"),
        "Result: hello\nVerifier: More is needed.\nTurns left: 9",
    ]
    assert found["verdict"]["signal"] == "stop"


async def test_an_answer_before_the_verifier_stops_is_checked_and_planned_from(scripted: Script) -> None:
    script = scripted(tools=WRONG)
    model = Model(replies=[AIMessage("I guess")])
    agent = create_agent(model, [echo], middleware=[PlannerVerifierMiddleware(script.spec, max_checks=1)])
    found = await agent.ainvoke(question())
    assert [len(script.asked(name)) for name in ("planner", "verifier", "tools")] == [2, 0, 2]
    assert "Result: I guess\nVerifier: The word is not said." in script.asked("planner")[1][-1].text
    assert found["verdict"]["signal"] == "continue"


async def test_without_a_plan_or_further_turns_the_model_goes_on_alone(scripted: Script) -> None:
    script = scripted(planner="hm", verifier=CONTINUE)
    model = Model(replies=[CALL, AIMessage("hello")])
    settings = Context(model=script.spec, max_turns=1)
    agent = create_agent(model, [echo], middleware=[PlannerVerifierMiddleware(context=settings, max_checks=0)])
    found = await agent.ainvoke(question())
    assert [message.type for message in found["messages"]] == ["human", "ai", "tool", "ai"]


def test_deepagents_take_it_too(scripted: Script) -> None:
    deepagents = pytest.importorskip("deepagents", reason="the extra agents is not installed")
    script = scripted(tools=[WRONG, STOP])
    agent = deepagents.create_deep_agent(
        model=Model(replies=[AIMessage("I guess"), AIMessage("hello")]), middleware=[VerifierMiddleware(script.spec)]
    )
    found = agent.invoke(question())
    assert (found["messages"][-1].text, found["verdict"]["signal"]) == ("hello", "stop")
