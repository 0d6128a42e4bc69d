"""`agentflow serve --learn` as its clients meet it: answers, a training beside them, and a restart."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

pytest.importorskip("verl", reason="the extra train is not installed")

from agentflow.rl.apps.planner import tasks
from agentflow.rl.run.checkpoints import BEST, FOLDER
from tests.integration.test_serve import is_up
from tests.integration.training import trains
from tests.waiting import LAST_RESORT, until

pytestmark = trains

LEARNING = [
    *("--batch", "2", "--set", "steps=1", "--set", "rollouts=4"),
    # The weights change by more than the export's rounding, and answers do not.
    *("--set", "lr=1e-4", "--set", "rehearsal=false"),
]
LOOK_UPS = [one for one in tasks("train", 200) if one.family == "look-up"]


@contextmanager
def serving(folder: Path) -> Iterator[httpx.Client]:
    held_out = folder / "held_out.jsonl"
    held_out.write_text(
        "".join(json.dumps({"question": one.question, "answer": one.gold}) + "\n" for one in LOOK_UPS[:3])
    )
    command = [sys.executable, "-m", "agentflow", "serve", "embedded:seed", "--port", "0", *LEARNING]
    command += ["--learn", str(folder / "live"), "--held-out", str(held_out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            found = re.search(r"version (\d+) of its planner at (\S+)", server.stdout.readline())
            assert found
            until(lambda: is_up(found[2]))
            server.stdout.readline()
            suggested = shlex.split(server.stdout.readline().removeprefix("try: "))
            if shutil.which("curl"):
                replied = subprocess.run(suggested, capture_output=True, check=True)
                assert json.loads(replied.stdout)["choices"][0]["message"]["content"] == "9"
            with httpx.Client(base_url=found[2], timeout=LAST_RESORT) as client:
                yield client
        finally:
            server.terminate()
        server.wait(timeout=LAST_RESORT)


def state(client: httpx.Client) -> dict[str, Any]:
    return dict(client.get("learning").json())


def ask_until(client: httpx.Client, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Ask questions, and score every answer as right, until the learner's state is as wanted.

    None is asked while it trains or evaluates, which would get no processor beside answers without a pause.
    """
    asking = openai.OpenAI(base_url=str(client.base_url), api_key="none")
    for one in cycle(LOOK_UPS[3:]):
        until(lambda: not state(client)["doing"].startswith(("training", "evaluating")))
        reply = asking.chat.completions.create(model="agent", messages=[{"role": "user", "content": one.question}])
        assert reply.choices[0].message.content
        client.post("feedback", json={"id": reply.id, "score": 1}).raise_for_status()
        if holds(found := state(client)):
            return found
    raise AssertionError("there are no questions")


def test_a_version_is_trained_beside_the_answers_promoted_and_kept(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        found = ask_until(client, lambda found: found["decisions"])
        assert [(one["version"], one["outcome"]) for one in found["decisions"]] == [(1, "promoted")], found
    answers = [json.loads(line) for line in (tmp_path / "live/answers.jsonl").read_text().splitlines()]
    assert all(one["status"] == "answered" for one in answers)
    weights = [tmp_path / "live/versions/1" / name for name in ("model.safetensors", "tokenizer.json")]
    assert all(path.is_file() for path in weights)
    assert not any((tmp_path / "live/batches/1/run" / name).exists() for name in (FOLDER, BEST))
    assert len((tmp_path / "live/batches/1/tasks/tasks.jsonl").read_text().splitlines()) >= 2

    with serving(tmp_path) as client:
        assert state(client)["current"] == 1
        body = {"model": "agent", "messages": [{"role": "user", "content": LOOK_UPS[3].question}]}
        assert client.post("chat/completions", json=body).json()["system_fingerprint"] == "version-1"
