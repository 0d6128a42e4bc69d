"""Start of a prepared training: Ray, its workers' environment, and the watch over them until the last step."""

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from agentflow.rl.apps.trainable import Split
from agentflow.rl.launch import engine_config as engine
from agentflow.rl.launch.checks import check_room
from agentflow.rl.micro.engine import usable_cores
from agentflow.rl.run.training_log import Line, TrainingLog
from agentflow.rl.trainer.worker_template import worker_template
from agentflow.tools.coded_error import CodedError


class TrainingFailed(CodedError, RuntimeError):
    """A run failed; `str()` is one line with the reason and the remedy."""

    configuration = False


def worker_base(config: DictConfig) -> AbstractContextManager[str | None]:
    """Start what Ray's workers are forked from, which imports verl while the settings are checked.

    The result is Ray's `py_executable`, or None where workers cannot be forks, as on macOS.
    """
    here = sys.platform == "linux" and not config.ray_address
    if not here or config.trainer.device != "cpu" or config.actor_rollout_ref.rollout.name != "micro":
        return nullcontext()
    return worker_template(environment(config))


def launch(
    config: DictConfig,
    executable: str | None,
    on_line: Callable[[Line], None],
    on_rollouts: Callable[[int, Split, int], None],
) -> None:
    """Run a prepared configuration to its last step.

    `executable` is what Ray starts workers with, instead of Python; `on_line` gets each new line of metrics.jsonl.
    `on_rollouts` gets the step and the split that are under way, and the number of its rollouts that have ended.

    Raises:
        SettingsError: Ray has too few free CPUs.
        TrainingFailed: The run failed: a process died, a weight sync failed or stalled, or Ray does not answer.
    """
    variables = environment(config)
    os.environ.update(variables)
    if config.trainer.device == "cpu":
        # Imported explicitly: verl was already imported, to check the settings, before the environment was set.
        importlib.import_module("agentflow.rl.trainer.platform")
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    from agentflow.rl.trainer.task_runner import FlowRunner
    from agentflow.rl.trainer.watch import WorkerDied, cause, first_death

    options = engine.ray_options(config)
    runtime = {**get_ppo_ray_runtime_env(config), **(options.pop("runtime_env", None) or {})}
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **variables}
    if executable:
        runtime["py_executable"] = executable
    if config.ray_address:
        options = {"address": config.ray_address}
        _check_answers(config.ray_address, config.ray_seconds)
    _start_ray(runtime_env=runtime, log_to_driver=False, logging_level="ERROR", **options)
    try:
        check_room(engine.places(config), ray.available_resources().get("CPU", 0))
        running = FlowRunner.remote().run.remote(config)  # type: ignore[attr-defined]
        _follow(running, TrainingLog(config.out), on_line, on_rollouts)
    except (ray.exceptions.RayError, WorkerDied) as error:
        died = first_death(error)
        logs = _keep_logs(Path(config.out), died.process if died else None)
        raise TrainingFailed(f"{died or cause(error)}; {logs}") from error
    finally:
        ray.shutdown()


def _start_ray(**options: Any) -> None:
    """Start or join Ray. Raises TrainingFailed if it does not start."""
    import ray

    try:
        ray.init(**options)
    except Exception as error:  # no class of its own where Ray's daemon takes more than 30 s to start
        ray.shutdown()
        reason = str(error).strip().partition("\n")[0]
        raise TrainingFailed(f"Ray did not start: {reason}; the machine may be too busy: try again later") from error


def _check_answers(address: str, seconds: float) -> None:
    """Raise TrainingFailed if no Ray at `address` accepts a driver within `seconds`.

    A process of its own tries, since Ray itself waits longer and writes its log to the terminal.
    """
    attempt = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"
    remedy = "start it with `ray start`, or correct ray_address"
    try:
        done = subprocess.run(  # noqa: S603 (the address is one argument, and no shell reads it)
            [sys.executable, "-W", "ignore", "-c", attempt, address],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrainingFailed(f"no Ray answers at {address} within ray_seconds={seconds:g}; {remedy}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise TrainingFailed(f"no Ray answers at {address}: {reason}; {remedy}")


def _follow(
    running: Any, log: TrainingLog, on_line: Callable[[Line], None], on_rollouts: Callable[[int, Split, int], None]
) -> None:
    """Wait for the end of the run and pass on its new lines and its rollouts.

    Raises the run's exception, or WorkerDied if a process died that the trainer may wait for without end.
    """
    import ray

    from agentflow.rl.trainer.watch import WorkerDied, deaths

    seen: set[tuple[int, str]] = set()
    while True:
        ended, _ = ray.wait([running], timeout=0.5)
        for line in log.lines():
            if (key := (line["step"], line["split"])) not in seen:
                seen.add(key)
                on_line(line)
        with suppress(FileNotFoundError):  # a step that begins again deletes its file
            if (latest := log.latest_rollouts()) and latest[:2] not in seen:
                on_rollouts(*latest)
        if ended:
            ray.get(running)
            return
        if died := deaths():
            raise WorkerDied(str(died[0]))


def environment(config: DictConfig) -> dict[str, str]:
    """Return the environment variables that every process of the run needs."""
    variables = {
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HYDRA_FULL_ERROR": "1",
        "TENSORBOARD_DIR": str(Path(config.out) / "tensorboard"),
        "WANDB_DIR": os.environ.get("WANDB_DIR", config.out),
        "TRACKIO_DIR": os.environ.get("TRACKIO_DIR", str(Path(config.out) / "trackio")),
        "MLFLOW_TRACKING_URI": os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{Path(config.out) / 'mlflow.db'}"),
        "TRANSFER_QUEUE_ENABLE": "1",
        "VERL_LOGGING_LEVEL": os.environ.get("VERL_LOGGING_LEVEL", "WARNING"),
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    variables.update(engine.environment(config))
    if config.tracing:
        variables["AGENTFLOW_TRACING"] = config.tracing
    if config.trainer.device == "cpu":
        from agentflow.rl.trainer.cpu_environment import ENVIRONMENT

        variables.update(ENVIRONMENT, **_threads_and_kernels(config.trainer.n_gpus_per_node))
    return variables


def _threads_and_kernels(ranks: int) -> dict[str, str]:
    """Return settings of OpenMP and oneDNN for each of `ranks` workers; what the user has set takes precedence.

    Threads wait for each other at the end of every operation, by default by spinning for milliseconds. If other
    processes use the same cores, spinning threads block them and each other: an update took ten times as long, and four
    times the processor time. With a short spin, updates are as fast as with the default on an idle machine.

    oneDNN, and PyTorch's layer above it, each keep 1,024 kernels by default. Every new number of tokens makes some, of
    megabytes each: after 240 lengths, two bfloat16 layers kept 3.4 GB, and 0.5 GB of 64 kernels, in the same time.
    """
    threads = max(1, usable_cores() // max(1, ranks))
    kernels = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    chosen = {"OMP_NUM_THREADS": str(threads), **dict.fromkeys(kernels, "64")}
    if "OMP_WAIT_POLICY" not in os.environ:
        chosen["GOMP_SPINCOUNT"] = "1000"
    return {name: os.environ.get(name, value) for name, value in chosen.items()}


def _keep_logs(out: Path, process: int | None) -> str:
    """Copy the logs of Ray's workers to the run folder, where the next run does not delete them.

    Describe the place: the log of `process`, if it is given and was on this machine, or the folder.
    """
    import ray

    node = ray._private.worker.global_worker.node
    if node is None:
        return "logs are with the cluster"
    session = Path(node.get_session_dir_path()) / "logs"
    kept = out / "logs" / time.strftime("%Y%m%d-%H%M%S")
    kept.mkdir(parents=True, exist_ok=True)
    for path in session.glob("worker-*"):
        shutil.copy(path, kept)
    own = next(kept.glob(f"worker-*-{process}.err"), None)
    return f"its log is {own}" if own else f"logs are in {kept}"
