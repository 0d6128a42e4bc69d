"""Conversion of a source of traces to training data.

    tasks.jsonl        questions with an answer, for `agentflow train --tasks` and `try --tasks`
    questions.jsonl    questions without one, which need a reward of their own (`--reward`)
    sft.jsonl          accepted runs as conversations, {"messages": [...], "node": path, "reward": r}
    preferences.jsonl  {"prompt", "chosen", "rejected"}: two answers to one question that earned different rewards
    tokens.jsonl       accepted rollouts of a training as token ids, where it recorded them as they were sampled
    dropped.json       what was dropped and struck out, with reasons and places

Episodes are grouped by question on disk, so that a source may be larger than memory. The files have the order in which
the questions first occur.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from agentflow.evals.run_folder import SETTINGS, kind_of
from agentflow.rl.traces import chat, langsmith, otel, own
from agentflow.rl.traces.episode import Conversation, Episode, joined
from agentflow.rl.traces.errors import TracesError
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.lines import first_rows
from agentflow.rl.traces.scores import scored
from agentflow.rl.traces.spool import Spool
from agentflow.rl.traces.strike import struck

TraceFormat = Literal["evaluation", "training", "otel", "langsmith", "chat"]

READERS: dict[TraceFormat, Callable[[Path, Ledger], Iterator[Episode]]] = {
    "evaluation": own.read_evaluation,
    "training": own.read_training,
    "otel": otel.read,
    "langsmith": langsmith.read,
    "chat": chat.read,
}

TASKS, QUESTIONS, SFT, PREFERENCES, TOKENS = FILES = (
    "tasks.jsonl",
    "questions.jsonl",
    "sft.jsonl",
    "preferences.jsonl",
    "tokens.jsonl",
)
DROPPED = "dropped.json"


def format_of(source: Path) -> TraceFormat:
    """Recognise the format of a source. Raises TracesError."""
    if not source.exists():
        raise TracesError(f"there is no {source}; name a file or a run folder", code="missing")
    if source.is_dir():
        settings = source / SETTINGS
        kind = kind_of(settings.read_bytes()) if settings.is_file() else ""
        if kind in ("evaluation", "training"):
            return "evaluation" if kind == "evaluation" else "training"
        if (source / langsmith.RUNS).is_file():
            return "langsmith"
        raise TracesError(
            f"{source} holds neither a run of this version nor {langsmith.RUNS}; name a file or a run folder",
            code="unknown_folder",
        )
    for row in first_rows(source):
        for name, field in (("otel", otel.REQUEST), ("langsmith", "run_type"), ("chat", "messages")):
            if field in row:
                return name  # type: ignore[return-value]
    if otel.is_document(source):
        return "otel"
    raise TracesError(
        f"the first lines of {source} are of no known format; name it with --format ({', '.join(READERS)})",
        code="unknown_format",
    )


def convert(
    source: Path,
    out: Path,
    *,
    format: TraceFormat | None = None,
    min_reward: float = 1.0,
    limit: int | None = None,
    exact: bool = False,
) -> Ledger:
    """Write the training data of `source` into the folder `out`.

    Args:
        source: A file or a folder.
        out: Folder of the files; those of an earlier conversion are replaced.
        format: Format of the source; recognised by default.
        min_reward: Lowest reward of an accepted run.
        limit: Most questions.
        exact: Refuse a source whose token ids nobody recorded.

    Raises:
        TracesError: The source cannot be read, or has no token ids though `exact` asks for them.
        OSError: The files cannot be written.
    """
    format = format or format_of(source)
    if exact and format != "training":
        raise TracesError(
            f"{source} has text, not the token ids that were sampled, and ids made from text may be others; name the "
            "folder of a training, or leave out --exact",
            code="no_ids",
        )
    ledger = Ledger()
    with Spool() as spool:
        for episode in READERS[format](source, ledger):
            if not episode.question.strip():
                ledger.drop(Reason.NO_QUESTION, episode.place)
                continue
            found = struck(episode, ledger)
            spool.add(found.key, {**vars(found), "calls": [vars(call) for call in found.calls]})
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            opened = {name: stack.enter_context((out / f"{name}.new").open("w", encoding="ascii")) for name in FILES}
            for number, group in enumerate(spool.groups()):
                for name, row in _rows(group, number, ledger, min_reward=min_reward, limit=limit):
                    opened[name].write(json.dumps(row) + "\n")
                    ledger.written[name] += 1
    if exact and not ledger.written[TOKENS]:
        for name in FILES:
            (out / f"{name}.new").unlink()
        raise TracesError(
            f"{source} has no accepted rollout with its token ids; train with replay_logs=true, or lower --min-reward",
            code="no_ids",
        )
    for name in FILES:
        (out / f"{name}.new").replace(out / name)
        if not ledger.written[name]:
            (out / name).unlink()
    (out / DROPPED).write_text(json.dumps(ledger.as_data(), indent=2) + "\n", encoding="ascii")
    return ledger


def _rows(
    group: Sequence[Any], number: int, ledger: Ledger, *, min_reward: float, limit: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of one question, each with its file."""
    episodes = [Episode(**{**one, "calls": [Conversation(**call) for call in one["calls"]]}) for one in group]
    # A later record of the same run replaces an earlier one.
    episodes = list({one.run or str(at): one for at, one in enumerate(episodes)}.values())
    if limit is not None and number >= limit:
        for episode in episodes:
            ledger.drop(Reason.BEYOND_LIMIT, episode.place)
        return
    for episode in episodes[1:]:
        ledger.drop(Reason.REPEATED, episode.place)
    edit = next((one.edit for one in reversed(episodes) if one.edit.strip()), "")
    gold = next((one.gold for one in episodes if one.gold.strip()), "")
    episodes = [scored(one, edit or gold) for one in episodes]
    task = _task(episodes, edit, gold, min_reward)
    yield (TASKS if task.get("answer") else QUESTIONS), task
    seen: list[list[Any]] = []
    for episode in episodes:
        yield from _accepted(episode, seen, ledger, min_reward)
    for chosen, rejected in _pairs(episodes):
        yield PREFERENCES, {**_prompt(episodes[0]), **chosen, **rejected}


def _task(episodes: Sequence[Episode], edit: str, gold: str, min_reward: float) -> dict[str, Any]:
    """Return the task of a question: its answer is a person's, else the source's, else the best accepted one."""
    first = episodes[0]
    rewards = [one.reward for one in episodes if one.reward is not None]
    accepted = [one for one in episodes if (one.reward or 0.0) >= min_reward and one.answer.strip()]
    answers = (
        ("edit", edit),
        ("source", gold),
        ("accepted", max(accepted, key=lambda one: one.reward or 0.0).answer if accepted else ""),
    )
    answer_from, answer = next((found for found in answers if found[1]), ("", ""))
    known = {"answer": answer, "answer_from": answer_from} if answer else {}
    return {
        **first.data,
        "question": first.question,
        **known,
        **({"inputs": first.inputs} if first.inputs else {}),
        "id": first.id or first.key,
        **({"family": first.family} if first.family else {}),
        "reward": round(sum(rewards) / len(rewards), 6) if rewards else None,
        "runs": len(episodes),
    }


def _accepted(
    episode: Episode, seen: list[list[Any]], ledger: Ledger, min_reward: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an episode's conversations and token ids if it is accepted, or its conversation as a person edited it."""
    conversations, reward = joined(episode.calls), episode.reward
    if episode.edit.strip() and len(conversations) == 1 and "tool_calls" not in conversations[0].messages[-1]:
        [one] = conversations
        edited = [*one.messages[:-1], {"role": "assistant", "content": episode.edit}]
        conversations, reward = [Conversation(one.node, edited, one.tools)], 1.0
    if reward is None:
        ledger.drop(Reason.NO_REWARD, episode.place)
        return
    if reward < min_reward:
        ledger.drop(Reason.REJECTED, episode.place)
        return
    if not conversations:
        ledger.drop(Reason.NO_CONVERSATION, episode.place)
    for one in conversations:
        if one.messages in seen:
            ledger.drop(Reason.SAME_CONVERSATION, episode.place)
            continue
        seen.append(one.messages)
        tools = {"tools": one.tools} if one.tools else {}
        yield SFT, {"messages": one.messages, **tools, "node": one.node, "reward": reward}
    for row in episode.exact:
        yield TOKENS, {"task": episode.id, "run": episode.run, "reward": reward, **row}


def _pairs(episodes: Sequence[Episode]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the answers with the highest and the lowest reward, then the next ones, while their rewards differ."""
    answers: dict[str, float] = {}
    for one in episodes:
        if one.reward is not None and one.answer.strip():
            answers.setdefault(one.answer, one.reward)
        if one.edit.strip():
            answers[one.edit] = 1.0
    ranked = sorted(answers.items(), key=lambda found: -found[1])
    for (chosen, high), (rejected, low) in zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False):
        if high > low:
            better = {"chosen": [{"role": "assistant", "content": chosen}], "chosen_reward": high}
            yield better, {"rejected": [{"role": "assistant", "content": rejected}], "rejected_reward": low}


def _prompt(episode: Episode) -> dict[str, Any]:
    said = (episode.inputs or {}).get("messages")
    return {"prompt": said if isinstance(said, list) else [{"role": "user", "content": episode.question}]}
