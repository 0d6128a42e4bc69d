import json
import random
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from huggingface_hub import HfApi, ModelCard, RepoUrl  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from agentflow.graph.context import Sampling  # noqa: E402
from agentflow.graph.run.trace import append  # noqa: E402
from agentflow.rl.micro.chat_model import load  # noqa: E402
from agentflow.rl.policy.chat import TokenReply  # noqa: E402
from agentflow.rl.rollout.tokens import Sampled, TokenRow, TokenStep  # noqa: E402
from agentflow.rl.run.checkpoints import LATEST, keep_best  # noqa: E402
from agentflow.rl.run.export import TOKENIZER, Checked, ExportError, export  # noqa: E402
from agentflow.rl.run.model_card import PushError, push  # noqa: E402
from agentflow.rl.run.training_log import TrainingLog  # noqa: E402
from tests.cases import table  # noqa: E402
from tests.failing import fails  # noqa: E402
from tests.trainings import rollout  # noqa: E402
from tests.unit.rl.micro import checkpoint  # noqa: E402


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with two checkpoints, of which the first is the last whole one."""
    out = tmp_path / "run"
    for step in (3, 4):
        folder = checkpoint.write(out / f"checkpoints/global_step_{step}/actor/huggingface")
        tensors = {name: tensor.float() * step for name, tensor in load_file(folder / "model.safetensors").items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (out / "checkpoints" / LATEST).write_text("3")
    (out / TOKENIZER).mkdir()
    (out / TOKENIZER / "tokenizer.json").write_text("{}")
    return out


def test_the_last_whole_checkpoint_becomes_a_folder_that_the_embedded_model_reads(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "planner")[0] == 3
    weights = load_file(tmp_path / "planner" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert json.loads((tmp_path / "planner" / "config.json").read_text())["dtype"] == "float16"
    assert (tmp_path / "planner" / TOKENIZER / "tokenizer.json").is_file()
    assert load(str(tmp_path / "planner"), Sampling(max_tokens=3)).invoke("hello").response_metadata["token_ids"]


def validate(run: Path, **accuracies: float) -> None:
    """The lines of validations, by step as "step_3"."""
    lines = [
        {"step": int(name.removeprefix("step_")), "split": "test", "rollouts": 10, "accuracy": accuracy}
        for name, accuracy in accuracies.items()
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_best_step_can_be_asked_for_after_its_checkpoint_is_gone(run: Path, tmp_path: Path) -> None:
    validate(run, step_0=0.9, step_2=0.8, step_3=0.7, step_4=0.6)
    (run / "checkpoints" / LATEST).write_text("4")
    assert export(run, tmp_path / "last")[0] == 4
    keep_best(run, TrainingLog(run).accuracies())
    shutil.rmtree(run / "checkpoints/global_step_3")
    assert export(run, tmp_path / "best", best=True)[0] == 3
    for name, step in (("last", 4), ("best", 3)):
        weights = load_file(tmp_path / name / "model.safetensors")
        tensors = load_file(checkpoint.write(tmp_path / f"{name}-start") / "model.safetensors")
        assert all(torch.equal(weights[key], (tensors[key].float() * step).half()) for key in tensors)


@pytest.mark.parametrize(
    ("folder", "source", "step"),
    [(".", ".", 3), (".", "checkpoints", 3), ("checkpoints", ".", 3), ("checkpoints", "global_step_4", 4)],
)
def test_it_can_be_named_from_within_the_run(
    folder: str, source: str, step: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that was named by nothing but its own name had no run, which was a traceback."""
    monkeypatch.chdir(run / folder)
    assert export(Path(source), tmp_path / "planner")[0] == step
    assert (tmp_path / "planner" / TOKENIZER).is_dir()


@pytest.mark.parametrize(("source", "target", "options", "code"), table(__file__, "export.txt"))
def test_what_cannot_be_exported(
    source: str, target: str, options: dict[str, bool], code: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    validate(run, step_0=0.9, step_2=0.8)
    before = sorted(tmp_path.rglob("*"))
    with fails(ExportError, code):
        export(tmp_path / source, tmp_path / target, **options)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def replies(run: Path, tmp_path: Path) -> dict[int, TokenReply]:
    """Replies of the embedded engine by the weights of steps 3 and 4; the run's settings are written too."""
    (run / "settings.json").write_text('{"temperature": 1.0, "validation_temperature": 1.0}')
    found = {}
    for step in (3, 4):
        export(run / f"checkpoints/global_step_{step}", tmp_path / f"model{step}")
        model = load(str(tmp_path / f"model{step}"), Sampling(max_tokens=12, temperature=1.0, seed=5))
        said = model.invoke("hello").response_metadata
        found[step] = TokenReply("", said["prompt_token_ids"], said["token_ids"], said["logprobs"], "length", step)
    return found


def exported(run: Path, directory: Path) -> Checked | None:
    return export(run, directory)[1]


def token_step(reply: TokenReply, updated: list[float], trainer: list[float]) -> TokenStep:
    start, length = len(reply.prompt_ids), len(reply.token_ids)
    known = {"start": start, "node": "planner", "turn": 0, "mask": [1] * length, "advantage": 1.0, "weight": 1 / length}
    call = Sampled(**known, rollout=trainer, trainer=trainer, updated=updated)
    ids = [*reply.prompt_ids, *reply.token_ids]
    row = TokenRow(task="x", rollout="x", status="ok", reward=1.0, ids=ids, calls=[call])
    return TokenStep(step=3, old="rollout", clip=(0.2, 0.3), tasks=["x"], pieces={}, rows=[row])


def test_the_update_of_the_last_step_must_be_in_it(run: Path, replies: dict[int, TokenReply], tmp_path: Path) -> None:
    """An update of 0.02 nats in a token's log-probability is distinguished from none."""
    reply, log = replies[3], TrainingLog(run)
    assert exported(run, tmp_path / "unchecked") is None, "nothing has been recorded"
    other = [value + 0.02 * (-1) ** place for place, value in enumerate(reply.logprobs)]
    log.tokens(token_step(reply, updated=list(reply.logprobs), trainer=other))
    checked = exported(run, tmp_path / "planner")
    assert checked is not None
    assert checked.after < 1e-3 < checked.before == pytest.approx(0.02, abs=1e-3)
    log.tokens(token_step(reply, updated=other, trainer=list(reply.logprobs)))
    with fails(ExportError, "other_policy", 3):
        export(run, tmp_path / "stale")
    log.tokens(token_step(replies[4], updated=list(replies[4].logprobs), trainer=other))
    with fails(ExportError, "other_policy", 3):
        export(run, tmp_path / "stale")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "model3", "model4", "unchecked", "planner"}


def rounded(rng: random.Random) -> float:
    """Draw the error of a log-probability in bfloat16: one in forty is ten times as large as the others."""
    return rng.gauss(0, 0.05 if rng.random() < 0.025 else 0.005)


@pytest.mark.parametrize(
    ("update", "holds", "refused"),
    [
        (0.005, 1.0, 0),  # below the rounding
        (0.05, 1.0, 0),
        (0.05, 0.0, 200),  # the weights before the update
    ],
)
def test_only_weights_that_are_nearer_to_those_before_the_update_are_refused(
    update: float, holds: float, refused: int
) -> None:
    """At most 4 of 200 are judged wrongly. `holds` is 1 if an export has the last update, and 0 if it lacks it."""
    rng, found = random.Random(0), 0
    for _ in range(200):
        moves = [rng.gauss(0, update) for _ in range(300)]
        after, before = [move + rounded(rng) for move in moves], [rounded(rng) for _ in moves]
        found += not Checked.of([holds * move + rounded(rng) for move in moves], after, before).same
    assert abs(found - refused) <= 4


def test_another_policy_is_refused_and_records_that_do_not_differ_are_not() -> None:
    same = [-1.0, -2.0]
    assert Checked.of(same, same, same).same
    assert not Checked.of([-1.5, -1.0], same, same).same


# The model card


def settings(run: Path, **changed: object) -> None:
    shown = {
        "app": "my_agent:agent",
        "start": "Qwen/Qwen3-0.6B",
        "train_tasks": 48,
        "test_tasks": 2,
        "rollouts": 4,
        "lr": 1e-6,
    }
    whole = {**shown, "out": "/home/ada/runs", "flow": {"algorithm": {"name": "dr-grpo"}}, **changed}
    (run / "settings.json").write_text(json.dumps(whole))


def test_the_card_says_what_the_model_is(run: Path, tmp_path: Path) -> None:
    given = {"tasks": str(Path.home() / "tasks.jsonl"), "test": str(Path.cwd() / "held.jsonl")}
    given["judge"] = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    settings(run, temperature=1.0, validation_temperature=1.0, options=given)
    validate(run, step_0=0.5, step_3=1.0)
    for step, rewards in ((0, (0.0, 1.0)), (3, (1.0, 1.0))):
        (run / "rollouts").mkdir(exist_ok=True)
        for task, reward in enumerate(rewards):
            append(run / f"rollouts/{step:06d}-test.jsonl", rollout(step, "test", str(task), reward, id=f"{task}/0"))
    export(run, tmp_path / "planner")
    card = ModelCard.load(tmp_path / "planner" / "README.md")
    assert (card.data.base_model, card.data.library_name, card.data.license) == (
        "Qwen/Qwen3-0.6B",
        "transformers",
        None,
    )
    assert all(said in card.text for said in ("# planner", "dr-grpo", "`my_agent:agent`", "48 tasks", '"lr": 1e-06'))
    assert all(said in card.text for said in ("| before training | 0.500 |", "| step 3 | 1.000 |", "+0.500 ("))
    assert not any(hidden in card.text for hidden in ("/home/ada", str(Path.home()), str(Path.cwd()), "sk-proj"))


@pytest.mark.parametrize(
    ("start", "readme", "licence"),
    [
        ("base", "---\nlicense: apache-2.0\n---\n", "apache-2.0"),
        ("base", "---\nlicense: [\n---\n", None),
        ("base", "no card", None),
        ("base", None, None),
        ("seed", None, "mit"),  # the included models are under the licence of this project
        ("trained", None, "mit"),
    ],
)
def test_the_card_has_the_licence_of_the_base_where_it_is_known(
    start: str, readme: str | None, licence: str | None, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    if readme is not None:
        (tmp_path / "base" / "README.md").write_text(readme)
    named = str(tmp_path / start) if start == "base" else start
    settings(run, start=named, temperature=1.0, validation_temperature=1.0)
    export(run, tmp_path / "planner")
    card = ModelCard.load(tmp_path / "planner" / "README.md")
    assert (card.data.license, card.data.base_model) == (licence, None)
    assert str(tmp_path) not in card.text


def test_a_push_is_private_and_what_the_hub_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    address = RepoUrl("https://huggingface.co/ada/planner")
    monkeypatch.setattr(HfApi, "create_repo", lambda hub, name, **options: done.append((name, options)) or address)
    monkeypatch.setattr(HfApi, "upload_folder", lambda hub, **what: done.append(what))
    assert push(tmp_path, "ada/planner") == "https://huggingface.co/ada/planner"
    wanted = [("ada/planner", {"private": True, "exist_ok": True}), {"repo_id": "ada/planner", "folder_path": tmp_path}]
    assert done == wanted
    monkeypatch.undo()
    with fails(PushError, "not_pushed", configuration=False):
        push(tmp_path, "not a name")
