"""The model card of an exported policy: what it was trained from and by, with its figures; and its upload to a hub."""

import json
from pathlib import Path
from typing import Any

from agentflow.evals.hub import TROUBLE
from agentflow.rl.micro.chat_model import SHIPPED
from agentflow.rl.run.training_log import TrainingLog
from agentflow.tools.coded_error import CodedError
from agentflow.tools.redaction import redacted
from agentflow.tools.untrusted_text import bounded_line
from agentflow.version import __version__

OF_THE_MACHINE = ("kind", "out", "start", "ray_address", "replay_from", "tracing")
"""Settings that say nothing of the model."""

PAPER = "[In-the-Flow Agentic System Optimization](https://arxiv.org/abs/2510.05592)"


class PushError(CodedError):
    """A model cannot be uploaded; `str()` is one line that explains why."""

    configuration = False


def write_card(folder: Path, name: str, run: Path, step: int) -> None:
    """Write README.md for the policy of a run's step."""
    from huggingface_hub import ModelCardData

    path = run / "settings.json"
    settings: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    start = str(settings.get("start") or "")
    local = start in SHIPPED or Path(start).expanduser().is_dir()
    licence = _licence(start)
    data = ModelCardData(
        base_model=start if start and not local else None,
        library_name="transformers",
        license=licence or None,
        tags=["agentflow", "reinforcement-learning"],
    )
    base = f"`{Path(start).name if local else start}`" if start else "a model that the run does not name"
    method = settings.get("flow", {}).get("algorithm", {}).get("name", "flow-grpo")
    shown = {key: value for key, value in settings.items() if key not in OF_THE_MACHINE and value not in (None, "", {})}
    parts = [
        f"---\n{data.to_yaml()}\n---\n\n# {name}",
        f"Step {step} of a training in the flow by AgentFlow {__version__}, from {base}.",
        f"## Method\n\n{method} ({PAPER}): the reward of a run is credited to each call of the policy in it.",
        f"## Data\n\n{_data(settings)}",
        f"## Figures\n\n{_figures(run, step)}",
        f"## Settings\n\n```json\n{json.dumps(shown, indent=1, ensure_ascii=False)}\n```",
        f"## Licence\n\n{f'{licence}, as the base model.' if licence else 'That of the base model; look it up there.'}",
    ]
    card = redacted("\n\n".join(parts)).replace(str(Path.cwd()), ".").replace(str(Path.home()), "~")
    (folder / "README.md").write_text(card + "\n", encoding="utf-8")


def _licence(start: str) -> str:
    """Return the licence of the base model, where its own card is on this machine, else ""."""
    from huggingface_hub import metadata_load, try_to_load_from_cache

    if start and start in SHIPPED:
        return "mit"
    card: Any = Path(start).expanduser() / "README.md"
    if start.count("/") == 1 and not card.is_file():
        card = try_to_load_from_cache(start, "README.md")
    if not start or not isinstance(card, str | Path) or not Path(card).is_file():
        return ""
    try:
        found = (metadata_load(card) or {}).get("license")
    except Exception:  # a card is anybody's file
        return ""
    return bounded_line(found, 60) if isinstance(found, str) else ""


def _data(settings: dict[str, Any]) -> str:
    options = settings.get("options")
    return (
        f"The tasks of `{settings.get('app')}`{f', with `{json.dumps(options)}`' if options else ''}: "
        f"{settings.get('train_tasks')} tasks to train on and {settings.get('test_tasks')} held out; "
        f"{settings.get('rollouts')} rollouts of each."
    )


def _figures(run: Path, step: int) -> str:
    found = TrainingLog(run).held_out(step)
    if found is None:
        return "The run has no sound validation of its start and of this step."
    change = found.after - found.before
    return (
        f"| {found.tasks} held-out tasks | mean reward |\n| --- | --- |\n| before training | {found.before:.3f} |\n"
        f"| step {step} | {found.after:.3f} |\n| difference (95 % interval) | {change:+.3f} "
        f"({found.low:+.3f} to {found.high:+.3f}) |\n\nIt is one run, and the same tasks before and after."
    )


def push(folder: Path, repository: str) -> str:
    """Upload an exported model to a new, private repository of a hub, or to one that there is, and return its address.

    Raises PushError if the hub refuses it or cannot be reached, or there is no token.
    """
    from huggingface_hub import HfApi

    try:
        hub = HfApi(library_name="agentflow", library_version=__version__)
        address = hub.create_repo(repository, private=True, exist_ok=True)
        hub.upload_folder(repo_id=address.repo_id, folder_path=folder)
    except TROUBLE as error:
        reason = bounded_line(str(error), 200)
        raise PushError(
            f"{repository} cannot be uploaded ({reason}); it is in {folder}. hf auth login, or HF_TOKEN, gives a token",
            code="not_pushed",
        ) from error
    return str(address)
