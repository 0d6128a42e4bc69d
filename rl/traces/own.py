"""Run folders of AgentFlow: the records of an evaluation, and the rollouts of a training with their token ids.

A trace has the planner's replies and what came back, not its prompts. These are rendered again by the planner's own
function, from the settings of the run. Token ids are read from the replay logs of a training, as they were sampled.
They are not made from text.
"""

import inspect
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import RunFolderError, RunSettings, read_settings
from agentflow.evals.scorers.score import Decision
from agentflow.graph.context import Context
from agentflow.graph.run.trace import Trace, TraceTurn
from agentflow.graph.state import Action, Plan, Turn
from agentflow.nodes import planner
from agentflow.rl.benchmark import benchmark
from agentflow.rl.calls import Call, ids_array, logprobs_array
from agentflow.rl.chat import template_message
from agentflow.rl.packing import pack
from agentflow.rl.planner import atlas
from agentflow.rl.replay_log import Entry, as_reply
from agentflow.rl.rollout import RolloutRecord, RolloutStatus
from agentflow.rl.traces.episode import Conversation, Episode
from agentflow.rl.traces.errors import TracesError
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.lines import rows
from agentflow.rl.trainable import Trainable
from agentflow.rl.training_log import TrainingLog
from agentflow.tools.catalogue import STANDARD_TOOLS, standard_cards
from agentflow.tools.redaction import MARK, redacted_data

APPS: dict[str, Callable[..., Trainable]] = {
    "agentflow.rl.planner:atlas": atlas,
    "agentflow.rl.benchmark:benchmark": benchmark,
}
"""Apps whose planner's prompts can be rendered again."""

Model = TypeVar("Model", bound=BaseModel)


PACKED = ("prompt_ids", "token_ids", "logprobs")
"""Fields of a recorded reply that hold numbers."""


class TrainingRun(RunSettings):
    """The part of a training's settings that says what was trained."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["training"] = "training"
    app: str = ""
    options: dict[str, Any] = Field(default_factory=dict)


def read_evaluation(folder: Path, ledger: Ledger) -> Iterator[Episode]:
    """Yield an episode for each record. Raises TracesError."""
    try:
        settings = read_settings(folder, EvaluationSettings)
    except RunFolderError as error:
        raise TracesError(str(error), code=error.code) from error
    if not (folder / TRACES).is_file():
        return
    context = settings.context if settings.agent == "agentflow" else None
    for place, record in _models(folder / TRACES, Record, ledger):
        ledger.read["runs"] += 1
        decided = record.decision != Decision.UNDECIDED and not record.failed
        reward = float(record.correct) if decided else None
        yield _episode(place, "/".join(map(str, record.key)), record, reward, _planned(record, context))


def read_training(folder: Path, ledger: Ledger) -> Iterator[Episode]:
    """Yield an episode for each rollout of a training step, with its token ids. Raises TracesError."""
    try:
        settings = read_settings(folder, TrainingRun)
    except RunFolderError as error:
        raise TracesError(str(error), code=error.code) from error
    context, log = _context(settings), TrainingLog(folder)
    for path in sorted(log.rollouts.glob("*-train.jsonl")):
        step = int(path.name.partition("-")[0])
        logs = _by_rollout(log.replay_log_of(step, "train"), ledger)
        for place, record in _models(path, RolloutRecord, ledger):
            ledger.read["runs"] += 1
            reward = record.reward if record.outcome == RolloutStatus.OK else None
            found = _episode(place, f"{step}/{record.id}", record, reward, _planned(record, context))
            found.exact = _exact(record, logs.get(record.id, []), place, ledger)
            yield found


def _context(settings: TrainingRun) -> Context | None:
    """Return the settings that the planner's prompt depends on; None for an app without a planner of ours."""
    if settings.app not in APPS:
        return None
    parameters = inspect.signature(APPS[settings.app]).parameters.values()
    given = {one.name: one.default for one in parameters} | settings.options
    if given["agent"] != "agentflow":
        return None
    try:
        return Context.model_validate({"tools": list(given["tools"]), "max_turns": given["max_turns"]})
    except (ValidationError, TypeError):
        return None


def _episode(place: str, run: str, trace: Trace, reward: float | None, calls: list[Conversation]) -> Episode:
    task = trace.task
    return Episode(
        place,
        task.question,
        answer=trace.answer,
        id=task.id,
        run=run,
        inputs=given if isinstance(given := task.data.get("inputs"), dict) else None,
        gold=task.gold,
        reward=reward,
        family=task.family,
        data=task.data,
        calls=calls,
    )


def _planned(trace: Trace, context: Context | None) -> list[Conversation]:
    """Return the planner's conversation, which all its calls continue; [] if its prompt cannot be rendered again."""
    if context is None or not trace.turns or not all(turn.plan for turn in trace.turns):
        return []
    if not set(context.tools) <= set(STANDARD_TOOLS):  # the cards of other tools are not in the run folder
        return []
    tools = planner.describe_tools(standard_cards(context.tools).values())
    prompt = context.prompts.get("planner", planner.PROMPT)
    *memory, last = map(_turn, trace.turns)
    said = planner.messages(trace.task.question, trace.analysis, memory, tools, context.max_turns, prompt)
    reply = {"role": "assistant", "content": last.plan.text}
    return [Conversation("planner", [*map(template_message, said), reply])]


def _turn(turn: TraceTurn) -> Turn:
    plan = Plan(text=turn.plan, sub_goal=turn.sub_goal, tool=turn.tool, context=turn.context)
    return Turn(
        turn=turn.turn, plan=plan, action=Action(arguments=turn.arguments, result=turn.result), verdict=turn.verdict
    )


def _models(path: Path, model: type[Model], ledger: Ledger) -> Iterator[tuple[str, Model]]:
    """Yield the lines of a file that may be missing; lines of another form are dropped. Raises TracesError."""
    for place, row in rows(path, ledger) if path.exists() else ():
        try:
            yield place, model.model_validate(row)
        except ValidationError:
            ledger.drop(Reason.OTHER_FORMAT, place)


def _by_rollout(path: Path, ledger: Ledger) -> dict[str, list[Entry]]:
    found = defaultdict[str, list[Entry]](list)
    for _, entry in _models(path, Entry, ledger):
        found[entry.rollout].append(entry)
    return found


def _exact(record: RolloutRecord, entries: Sequence[Entry], place: str, ledger: Ledger) -> list[dict[str, Any]]:
    """Return the training rows of a rollout: token ids, mask and log-probabilities as sampled, packed by prefix.

    [] if an entry has a struck-out text, since the ids would still hold it, or if calls and replies do not fit.
    """
    if not entries:
        return []
    if any(_holds_secret(entry.answer) for entry in entries):
        ledger.drop(Reason.STRUCK_IDS, place)
        return []
    calls = _calls(record, entries)
    if not calls:
        ledger.drop(Reason.UNPLACED_IDS, place)
        return []
    longest = sum(len(call.prompt_ids) + len(call.response_ids) for call in calls)
    return [
        {
            "nodes": list(dict.fromkeys(call.node for call in row.calls)),
            "prompt_ids": row.prompt_ids.tolist(),
            "response_ids": row.response_ids.tolist(),
            "mask": row.mask.tolist(),
            "logprobs": [round(logprob, 6) for logprob in row.logprobs],
            "weights_version": row.calls[0].weights_version,
        }
        for row in pack(calls, limit=longest)
    ]


def _calls(record: RolloutRecord, entries: Sequence[Entry]) -> list[Call]:
    """Return the calls of a record with their tokens; [] if a reply could belong to several nodes, or is missing.

    A record has the node and the number of tokens of each call. A log has the replies in the order in which they ended,
    those of attempts that were given up included.
    """
    try:
        replies = [as_reply(entry.answer) for entry in entries if entry.kind == "policy"]
    except (KeyError, TypeError, ValueError, zlib.error):
        return []
    found: list[Call] = []
    for turn, call in enumerate(record.calls):
        size = call.prompt_tokens, call.sampled_tokens
        fitting = [one for one in replies if (len(one.prompt_ids), len(one.token_ids)) == size]
        alike = [one for one in record.calls if (one.prompt_tokens, one.sampled_tokens) == size]
        if len(fitting) != len(alike) or len({one.node for one in alike}) > 1:
            return []
        reply = fitting[
            sum(one.prompt_tokens == size[0] and one.sampled_tokens == size[1] for one in record.calls[:turn])
        ]
        found.append(
            Call(
                rollout=record.id,
                node=call.node,
                turn=turn,
                prompt_ids=ids_array(reply.prompt_ids),
                response_ids=ids_array(reply.token_ids),
                logprobs=logprobs_array(reply.logprobs),
                finish_reason=call.finish_reason,
                weights_version=reply.weights_version,
                policy=call.policy,
            )
        )
    return found


def _holds_secret(answer: Mapping[str, Any]) -> bool:
    texts = {name: value for name, value in answer.items() if name not in PACKED}
    return MARK in str(texts) or redacted_data(texts) != texts
