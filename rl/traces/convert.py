"""Conversion of a source of traces to tasks.

    tasks.jsonl      questions with an answer, for `agentflow train --tasks` and `try --tasks`
    questions.jsonl  questions without one, which need a reward of their own (`--reward`)

The files have the order in which the questions first occur.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from agentflow.evals.run_folder import SETTINGS, kind_of, write_whole
from agentflow.rl.traces import chat_rows as chat
from agentflow.rl.traces import langsmith, otel, own
from agentflow.rl.traces.episode import Dropped, DropReason, Episode, TracesError
from agentflow.rl.traces.lines import objects
from agentflow.rl.traces.personal import clean
from agentflow.rl.traces.scores import scored

READERS: dict[str, Callable[[Path, Dropped], Iterator[Episode]]] = {
    "evaluation": own.read,
    "otel": otel.read,
    "langsmith": langsmith.read,
    "chat": chat.read,
}

TASKS, QUESTIONS = FILES = ("tasks.jsonl", "questions.jsonl")


def format_of(source: Path) -> str:
    """Return the name of a source's reader. Raises TracesError."""
    if not source.exists():
        raise TracesError(f"there is no {source}; name a file or a run folder", code="missing")
    if source.is_dir():
        settings = source / SETTINGS
        kind = kind_of(settings.read_bytes()) if settings.is_file() else ""
        exported = "langsmith" if (source / langsmith.RUNS).is_file() else ""
        known = kind if kind in READERS else exported
    else:
        fields = {otel.REQUEST: "otel", "run_type": "langsmith", "messages": "chat"}
        rows = (row for _, row in islice(objects(source, Dropped(list)), 20))
        known = next((fields[field] for row in rows for field in fields if field in row), "")
    if known:
        return known
    names = ", ".join(READERS)
    raise TracesError(f"{source} is of no known format; name it with --format ({names})", code="unknown_format")


def convert(
    source: Path, out: Path, *, format: str = "", min_reward: float = 1.0, limit: int | None = None
) -> tuple[dict[str, int], Dropped]:
    """Write the tasks of `source` to the folder `out`; return the lines of each file, and what was dropped.

    `min_reward` is the lowest of an accepted run, `limit` the most questions. Raises TracesError and RunFolderError.
    """
    dropped, groups = Dropped(list), defaultdict[str, list[Episode]](list)
    for episode in map(clean, READERS[format or format_of(source)](source, dropped)):
        if episode.question.strip():
            groups[episode.key].append(episode)
        else:
            dropped[DropReason.NO_QUESTION].append(episode.place)
    written = defaultdict[str, list[str]](list)
    for group in islice(groups.values(), limit):
        task = _task(group, min_reward)
        written[TASKS if task.get("answer") else QUESTIONS].append(json.dumps(task) + "\n")
    out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if name in written:
            write_whole(out / name, "".join(written[name]).encode())
        else:
            (out / name).unlink(missing_ok=True)
    return {name: len(lines) for name, lines in written.items()}, dropped


def _task(episodes: Sequence[Episode], min_reward: float) -> dict[str, Any]:
    """Return the task of a question: its answer is a person's, else the source's, else the best accepted one.

    A later record of the same run replaces an earlier one.
    """
    episodes = list({one.run or str(at): one for at, one in enumerate(episodes)}.values())
    edit = next((one.edit for one in reversed(episodes) if one.edit.strip()), "")
    gold = next((one.gold for one in episodes if one.gold.strip()), "")
    episodes = [scored(one, edit or gold) for one in episodes]
    first = episodes[0]
    rewards = [one.reward for one in episodes if one.reward is not None]
    accepted = [one for one in episodes if (one.reward or 0.0) >= min_reward and one.answer.strip()]
    best = max(accepted, key=lambda one: one.reward or 0.0).answer if accepted else ""
    answers = {"edit": edit, "source": gold, "accepted": best}
    known = next(({"answer": text, "answer_from": source} for source, text in answers.items() if text), {})
    named = {"inputs": first.inputs, "id": first.id or first.key, "family": first.family}
    task = {**first.data, "question": first.question, **known, **{name: one for name, one in named.items() if one}}
    return {**task, "reward": round(sum(rewards) / len(rewards), 6) if rewards else None, "runs": len(episodes)}
