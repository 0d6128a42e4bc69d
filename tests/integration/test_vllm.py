"""Training of the micro model's planner with vLLM as the engine of rollouts, on a CPU: what GPUs run but the device."""

import signal
from pathlib import Path

import pytest

from agentflow.rl.launch import engine_config as engine
from agentflow.rl.launch.checks import check_verl
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.rollout.replay_log import ReplayLogs, as_reply
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.rl.run.checkpoints import latest_step
from agentflow.rl.run.training_log import TrainingLog, token_file
from agentflow.rl.settings import compose_settings
from agentflow.rl.trainer import vllm_cpu
from tests.integration.training import differences, ended, lines, replayed, rollouts, sent, started, train, trains

pytestmark = [
    trains,
    pytest.mark.skipif(not vllm_cpu.installed(), reason="needs the extra vllm-cpu: make test-vllm"),
]

SETTINGS = [
    *("--preset", "atlas-cpu-vllm", "validation_temperature=0", "questions=4", "test_tasks=12"),
    "temperature=0.7",  # of which the log-probabilities are, on both sides
    "token_groups=4",  # all groups of a step
    "actor_rollout_ref.rollout.max_num_batched_tokens=256",  # every prompt is prefilled in chunks
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "vllm"
    train(out, *SETTINGS, "steps=2")
    return out


def test_scheduler_and_model_are_one_process() -> None:
    """vLLM's scheduler took a core while it waited for the process of the model."""
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    rollout = compose_settings("atlas-cpu-vllm", []).actor_rollout_ref.rollout
    assert resolve_obj_by_qualname(rollout.engine_kwargs.vllm.distributed_executor_backend) is UniProcExecutor


@pytest.mark.filterwarnings("ignore")  # of verl's imports
def test_settings_of_an_adapter_are_accepted() -> None:
    """verl asks for the version of `vllm`, which has another name on a CPU."""
    device = ["trainer.device=cpu", "trainer.n_gpus_per_node=1"]
    config = compose_settings("qwen2.5-7b-lora", ["start=any", *device])
    engine.complete(config)
    check_verl(config)


@pytest.mark.filterwarnings("ignore")  # of vLLM's imports
def test_an_adapter_changes_its_own_requests_only() -> None:
    """vLLM's own function for CPUs also changes those of the frozen modules, which have none."""
    import torch
    from vllm.lora.layers import LoRAMapping
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    adapters = (7, 7, 0, 7, 0)  # of five tokens; 0 is none
    wrapper = PunicaWrapperCPU(16, 8, device="cpu")
    wrapper.update_metadata(LoRAMapping(adapters, adapters, is_prefill=True), [7], 1, 100)
    x, a, b = torch.randn(5, 6), torch.randn(2, 1, 1, 3, 6), torch.randn(2, 1, 1, 4, 3)
    y = torch.zeros(5, 8)  # two slices, such as keys and values
    vllm_cpu.apply_adapters_by_slot()
    wrapper.add_lora_linear(y, x, tuple(a), tuple(b), 2.0, (4, 4))
    expected = torch.cat([2 * x @ (b[i, 0, 0] @ a[i, 0, 0]).T for i in range(2)], dim=1)
    expected[[2, 4]] = 0
    torch.testing.assert_close(y, expected)


def assert_one_policy(run: Path, step: int) -> None:
    found = differences(run / "tokens" / token_file(step))
    assert len(found) > 100
    assert sum(found) / len(found) < 2e-6
    assert max(found) < 1e-3  # float32 through four layers: one token in a thousand is beyond 1e-5, few beyond 1e-4


@pytest.mark.parametrize("step", [1, 2])
def test_the_trainer_gives_sampled_tokens_the_log_probabilities_of_vllm(run: Path, step: int) -> None:
    """Step 2 is sampled from weights that were synchronised after an update."""
    assert lines(run, "train")[step - 1]["gradient"] > 0
    assert_one_policy(run, step)


def test_no_rollout_is_lost(run: Path) -> None:
    for step in (1, 2):
        records = rollouts(run, step, "train")
        assert [record.outcome for record in records] == [RolloutStatus.OK] * 16
    assert [line["prefix_breaks"] for line in lines(run, "train")] == [0, 0]


def test_greedy_answers_are_those_of_the_embedded_engine(run: Path) -> None:
    logs = ReplayLogs(TrainingLog(run).replay_log_of(0, "test"), live=False)
    entries = [entry for name in logs.rollouts for entry in logs.of(name)._entries]
    replies = [as_reply(entry.answer) for entry in entries if entry.kind == "policy"]
    assert len(replies) > 12
    engine = Engine(MicroModel.load(SEED), MicroTokenizer.load(SEED), slots=16)
    futures = [engine.submit(reply.prompt_ids, temperature=0, max_tokens=len(reply.token_ids)) for reply in replies]
    assert [list(future.result().token_ids) for future in futures] == [reply.token_ids for reply in replies]


def test_a_step_is_replayed_without_seeds(run: Path) -> None:
    assert lines(run, "train")[1]["batch"] in replayed(run, 2)


def test_it_resumes_from_its_checkpoint_and_ends_with_its_engine(run: Path) -> None:
    """vLLM's engine is a process of its own, and no actor of Ray."""
    process = started(run, *SETTINGS, "steps=30", until="rollouts/000004-train.jsonl")
    assert sent(process, "VLLM::EngineCore", signal.SIGKILL)
    line = ended(process)
    assert "the server of the policy" in line
    step = latest_step(run)  # 3, or a later one where this process was slow to kill the engine
    assert step
    assert f"continue from step {step} with: agentflow train" in line
    assert [line["step"] for line in lines(run, "train")][:3] == [1, 2, 3]
    assert_one_policy(run, 3)
