"""The verifier, and the planner with it, as middleware of LangChain's agents: `create_agent` and deepagents.

The conversation of such an agent holds all of the memory: what the planner and the verifier say stands in it as marked
messages, so that prompts only grow, and a checkpointer keeps it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agentflow.graph.agent import in_background, with_models
from agentflow.graph.context import Context, Model
from agentflow.graph.conversation import quiet
from agentflow.graph.models.loading import ask
from agentflow.graph.models.spec import misconfigured
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.nodes import planner, verifier
from agentflow.nodes.approval import read_decision
from agentflow.nodes.at_most_once import has_checkpointer
from agentflow.nodes.reply_parsing import without_loop
from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.untrusted_text import bounded_line

ANSWER = """\
You check the answer of an agent before a person gets it. Say in one or two sentences whether the results of its tools \
support the answer, whether it answers the whole question, and what is wrong or missing. Then decide: stop when the \
answer is right and complete, continue when something is missing, wrong or unproved. End with exactly these two lines:
Analysis: what is established and what is missing
Verdict: stop or continue"""

MARK = "agentflow"
"""Key in `additional_kwargs` of the messages that the middleware writes: the verdict and the plan that one tells."""

DONE = "The results answer the question. Answer it now."


class CheckedState(AgentState[Any]):
    """The agent's state, with the verifier's last verdict as an output."""

    verdict: NotRequired[Annotated[dict[str, Any], OmitFromInput]]
    checks: NotRequired[Annotated[int, PrivateStateAttr]]


class VerifierMiddleware(AgentMiddleware[CheckedState, Any, Any]):
    """The verifier as middleware: it reads an answer before the agent ends, and sends the agent back with its reason.

    `create_agent(model, tools, middleware=[VerifierMiddleware("openai:gpt-4o-mini")])`, and so for `create_deep_agent`.
    The agent's result then has a `verdict`, with its `signal`: "stop" for an answer that the verifier found right and
    complete, "continue" for one that it did not, after `max_checks` or without saying why.
    """

    state_schema = CheckedState

    def __init__(
        self,
        model: Model | None = None,
        *,
        context: Context | None = None,
        max_checks: int = 2,
        ask_person: bool = False,
    ) -> None:
        """Set the model, and what becomes of an answer that it does not find right.

        Args:
            model: The verifier's model, as in `Context`: a spec, or a LangChain chat model.
            context: Further settings, such as `sampling`, `prompts` and `models` of single modules. The verifier sees
                the last `max_turns` calls, with results of `memory_tokens` in all.
            max_checks: How often one question's answer may be sent back.
            ask_person: Whether a person decides, by an interrupt, on an answer that is still not found right. The
                agent needs a checkpointer; it is resumed as after LangChain's HumanInTheLoopMiddleware, by "approve",
                or by a rejection with a message, which sends the agent back once more.

        Raises:
            TypeError: Neither `model` nor `context` names a model.
        """
        super().__init__()
        if model is None and context is None:
            raise TypeError(f"{type(self).__name__} needs a model, such as 'openai:gpt-4o-mini'")
        self.context, self.max_checks = with_models(context, model, None) or Context(), max_checks
        self.ask_person = ask_person

    def before_agent(self, state: CheckedState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a question on the thread without the verdict on the one before.

        Raises:
            ModelError: A person may be asked, and there is no checkpointer to keep the agent until then.
        """
        if self.ask_person and not has_checkpointer():
            raise misconfigured(
                "no_checkpointer",
                "ask_person needs a checkpointer, which keeps the agent while it waits: create_agent(checkpointer=...)",
            )
        return {"checks": 0, "verdict": {}}

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: CheckedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check an answer, as `aafter_model` does."""
        return in_background(self.aafter_model(state, runtime))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: CheckedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check an answer, and send the agent back to its model if it is not right."""
        last = state["messages"][-1]
        answers = isinstance(last, AIMessage) and not last.tool_calls
        question, turns = remembered(state["messages"], self.context)
        if not turns or not (answers or state.get("structured_response") is not None):
            return None
        if len(turns) > 1 and turns[-2].verdict.signal == "stop":
            return {"verdict": turns[-2].verdict.model_dump()}
        with quiet():
            verdict = await self._check(question, turns)
        update: dict[str, Any] = {"verdict": verdict.model_dump()}
        checks, reason = state.get("checks", 0), verdict.analysis
        no_reason = not reason or reason.endswith(verifier.UNREADABLE)
        if verdict.signal == "stop" or no_reason or checks >= self.max_checks:
            return update
        note = _note(f"This answer is not right yet: {reason} Go on, and answer again.", verdict)
        return {**update, "messages": [note], "checks": checks + 1, "jump_to": "model"}

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: CheckedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask a person about an answer that the verifier did not find right, if that is wished for."""
        if not self.ask_person or (state.get("verdict") or {}).get("signal") != "continue":
            return None
        verdict = Verdict.model_validate(state["verdict"])
        answer = {"answer": state["messages"][-1].text}
        about = verifier.own_words(verdict) or "The verifier did not find this answer right."
        decision = read_decision(
            interrupt(
                {
                    "action_requests": [{"name": "answer", "args": answer, "description": about}],
                    "review_configs": [{"action_name": "answer", "allowed_decisions": ["approve", "reject"]}],
                }
            )
        )
        if decision.decision == "approve":
            return {"verdict": verdict.model_copy(update={"signal": "stop"}).model_dump()}
        reason = decision.reason or "it is not right"
        note = _note(f"A person refused this answer: {reason}. Go on, and answer again.")
        return {"messages": [note], "jump_to": "model"}

    async def _check(self, question: str, turns: list[Turn]) -> Verdict:
        *before, answer = turns
        fitting = before[-self.context.max_turns :]  # of which each has its share of the memory's tokens
        told = [verifier.describe_turn(turn.turn, turn.plan, turn.action, call=True) for turn in fitting]
        said = "\n\n".join([f"Question: {question}", *told, f"Answer: {answer.action.result.output}"])
        prompt = self.context.prompts.get("verifier", ANSWER)
        return await verifier.verdict_on([SystemMessage(prompt), HumanMessage(said)], self.context)


class PlannerVerifierMiddleware(VerifierMiddleware):
    """The planner and the verifier around an agent's model: before each of its calls, the verifier judges what the
    last one brought, and the planner names the next step, or the model is told to answer. Answers are checked too.

    The agent's model takes the part of the executor and of the generator. `Context.max_turns` limits the plans.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the agent's model with the next step, as `awrap_model_call` does."""
        note = in_background(self._next(request.messages, request.tools))
        return _with(note, handler(request.override(messages=[*request.messages, *note])))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the agent's model with the next step, which stays in the conversation."""
        note = await self._next(request.messages, request.tools)
        return _with(note, await handler(request.override(messages=[*request.messages, *note])))

    async def _next(
        self, messages: Sequence[AnyMessage], tools: Sequence[BaseTool | dict[str, Any]]
    ) -> list[AnyMessage]:
        """Return the verdict on the last turn and the plan of the next as one message; none once plans are used up."""
        question, turns = remembered(messages, self.context)
        cards = {tool.name: ToolCard.of(tool) for tool in tools if isinstance(tool, BaseTool)}
        if not question or not cards or len(turns) >= self.context.max_turns:
            return []
        with quiet():
            verdict = None
            if turns and not _is_note(messages[-1]):
                judged = State(question=question, memory=turns[:-1])
                conversation = verifier.conversation_of(judged, self.context, turns[-1].plan, turns[-1].action)
                verdict = await verifier.verdict_on(conversation, self.context)
                turns[-1] = turns[-1].model_copy(update={"verdict": verdict})
                if verdict.signal == "stop":
                    return [_note(DONE, verdict=verdict)]
            conversation = planner.conversation_of(State(question=question, memory=turns), self.context, cards)
            reply = await ask(self.context, "planner", conversation, planner.reply_form(cards))
            plan = planner.parse(without_loop(reply), cards)
        step = "" if plan.error else f"Next step: {plan.sub_goal}\nTool: {plan.tool}\nContext: {plan.context}"
        said = [f"Checked: {verdict.analysis}"] if verdict and verdict.analysis else []
        return [_note("\n".join([*said, step]).strip(), verdict, plan)] if said or step else []


def remembered(messages: Sequence[BaseMessage], context: Context) -> tuple[str, list[Turn]]:
    """Return the last question of a conversation, and a turn for each reply of the agent's model to it."""
    asked = [n for n, one in enumerate(messages) if isinstance(one, HumanMessage) and not _is_note(one)]
    if not asked:
        return "", []
    turns: list[Turn] = []
    plan: Plan | None = None
    for message in messages[asked[-1] + 1 :]:
        if _is_note(message):
            mark = message.additional_kwargs[MARK]
            if mark["verdict"] and turns:
                turns[-1].verdict = Verdict.model_validate(mark["verdict"])
            plan = Plan.model_validate(mark["plan"]) if mark["plan"] else None
        elif isinstance(message, AIMessage):
            turns.append(_turn(len(turns) + 1, message, plan))
            plan = None
        elif isinstance(message, ToolMessage) and turns:
            _add(turns[-1].action, message, context)
    return messages[asked[-1]].text, turns


def _turn(number: int, said: AIMessage, plan: Plan | None) -> Turn:
    calls = said.tool_calls
    own = Plan(
        sub_goal=bounded_line(said.text, 300) if calls and said.text.strip() else "Take the next step",
        tool=", ".join(dict.fromkeys(call["name"] for call in calls)) or "answer",
    )
    arguments = (
        calls[0]["args"]
        if len(calls) == 1
        else {f"{call['name']} {n}": call["args"] for n, call in enumerate(calls, 1)}
    )
    result = ToolResult(status="ok", output="" if calls else said.text)
    action = Action(arguments=arguments, result=result)
    return Turn(turn=number, plan=plan or own, action=action, verdict=Verdict(analysis="", signal="continue"))


def _add(action: Action, message: ToolMessage, context: Context) -> None:
    output = "\n".join(filter(None, [action.result.output, message.text]))
    failed = message.status == "error" and action.result.error is None and not action.result.output
    result = ToolResult.failed(ErrorClass.TOOL_ERROR, output) if failed else ToolResult(status="ok", output=output)
    action.result = result.shortened(context.result_tokens)


def _is_note(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and MARK in message.additional_kwargs


def _note(text: str, verdict: Verdict | None = None, plan: Plan | None = None) -> HumanMessage:
    mark = {"verdict": verdict and verdict.model_dump(), "plan": plan and plan.model_dump(mode="json")}
    return HumanMessage(text, additional_kwargs={MARK: mark})


def _with(note: list[AnyMessage], response: ModelResponse[Any]) -> ModelResponse[Any]:
    return replace(response, result=[*note, *response.result])
