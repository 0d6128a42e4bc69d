"""Two policies with weights of their own through the whole of verl's trainer, on the micro model."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.export import ExportError, export
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.tokens import unpacked
from tests.failing import fails
from tests.integration.training import lines, rollouts, train
from tests.integration.two_policies import LEARNS, SETTLED

pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APP = ("app=tests.integration.two_policies:app", "kl=0", "train_tasks=8", "test_tasks=2", "lr=0.001")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "two"
    train(out, *APP, "steps=2")
    return out


def weights(run: Path, step: int, policy: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(run / f"checkpoints/global_step_{step}/actor/{policy}/huggingface/model.safetensors")


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name].to(one[name].dtype)) for name in one)


def test_each_policy_is_updated_by_its_own_rows_alone(run: Path) -> None:
    """The rows of one have no advantage, and there is no KL: not a bit of it changes, while the other learns."""
    from safetensors.torch import load_file

    start = load_file(SEED / "model.safetensors")
    first, second = (weights(run, 2, policy) for policy in (LEARNS, SETTLED))
    shared = start.keys() & second.keys()
    assert shared
    assert all(second[name].equal(start[name].to(second[name].dtype)) for name in shared)
    assert not all(first[name].equal(start[name].to(first[name].dtype)) for name in shared)
    assert not equal(weights(run, 1, LEARNS), first)
    for line in lines(run, "train"):
        learns, settled = line["policies"][LEARNS], line["policies"][SETTLED]
        assert learns["gradient"] > 0
        assert "gradient" not in settled
        assert settled["reward"] == 0.5
        assert learns["calls"] + settled["calls"] == line["rollouts"]
        assert learns["sampled_tokens"] + settled["sampled_tokens"] == line["sampled_tokens"]


def test_every_record_names_the_policy(run: Path) -> None:
    for step in (1, 2):
        for record in rollouts(run, step, "train"):
            assert [call.policy for call in record.calls] == [call.node for call in record.calls]
        found = unpacked((run / "tokens" / f"{step:06d}.jsonl.gz").read_bytes())
        assert found is not None
        for call in (call for row in found.rows for call in row.calls):
            assert call.policy == call.node
            if call.trainer is not None:
                assert call.trainer == pytest.approx(call.rollout, abs=0.01), (
                    "the policy that sampled is the one trained"
                )


def test_a_resumed_run_equals_one_that_was_not_stopped(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "resumed"
    train(out, *APP, "steps=1")
    train(out, *APP, "steps=2")
    assert [line["batch"] for line in lines(out, "train")] == [line["batch"] for line in lines(run, "train")]
    for policy in (LEARNS, SETTLED):
        assert equal(weights(out, 2, policy), weights(run, 2, policy))


def test_each_is_exported_by_its_name(run: Path, tmp_path: Path) -> None:
    from agentflow.graph.models.loading import load_model

    with fails(ExportError, "which_policy"):
        export(run, tmp_path / "none")
    for policy in (LEARNS, SETTLED):
        checked: list[Any] = []
        assert export(run, tmp_path / policy, policy=policy, on_checked=checked.append) == 2
        assert checked[0] is not None
        assert checked[0].after < 0.01
        assert load_model(f"embedded:{tmp_path / policy}").invoke("How many? 3").text is not None
