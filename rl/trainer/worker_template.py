"""The template: a process that has imported verl, of which Ray's workers on a CPU are forks.

A training has seven processes that need verl, and they start one after another. Its import takes about six seconds of
a core; a fork takes none and shares the memory. Until the first rollout of `atlas-cpu`, a training takes 28 s of
processor time with the template and 72 s without (medians of three starts). On two cores, 72 s are 36 s at the very
least, with both always busy, and the starts in turn leave one idle.

Ray starts a worker by `launch_worker`, which passes the worker's command line, environment, folder and standard streams
to the template, and ends.

A GPU cannot be used in a fork of a process that has looked for it, and vLLM starts processes of its own, so the
template is for the micro model on a CPU; and it forks only workers of the Ray that the training itself starts.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MODULES = (
    "agentflow.rl.trainer.flow_trainer",
    "agentflow.rl.trainer.agent_loop",
    "agentflow.rl.trainer.micro_rollout",
    "verl.experimental.reward_loop",
    "verl.workers.engine_workers",
)

JOB = "01000000"
"""Ray's id of the first job of a new cluster."""


class ActorClassIDs:
    """Source of the ids of actor classes that leaves Ray's own generator of random ids unseeded.

    That generator is seeded when the first id is drawn, for example by `@ray.remote` on a class of verl, and a fork
    goes on with the seed. Workers would then give their calls the same ids, and an actor that got two such calls at
    once would abort (`Check failed: erased == 1`).
    """

    @staticmethod
    def from_random() -> object:
        """Draw an id from the system's generator."""
        from ray._raylet import ActorClassID

        return ActorClassID(os.urandom(ActorClassID.size()))


LAUNCHER = Path(__file__).with_name("launch_worker.py")


class Request(NamedTuple):
    """A worker to fork."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]
    """Descriptors of standard input, output and error."""


@contextmanager
def worker_template(environment: Mapping[str, str], modules: Sequence[str] = MODULES) -> Iterator[str]:
    """Start the template with these variables added; yield the `py_executable` that has Ray's workers forked from it.

    Workers that start while the template still imports wait for it. The template ends with this process.
    """
    # Ray reads these two when it is imported, and the workers share what it read. A worker ends with the process that
    # the second one names: Ray's daemon, or, as here, the driver, with which that daemon ends.
    fixed = {"RAY_JOB_ID": JOB, "RAY_RAYLET_PID": str(os.getpid())}
    with tempfile.TemporaryDirectory(prefix="agentflow-", dir="/tmp") as folder:
        path = f"{folder}/template"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(64)
            template = subprocess.Popen(  # noqa: S603 (this interpreter, this module)
                [sys.executable, "-W", "ignore", "-m", __name__, str(listener.fileno()), *modules],
                env={**os.environ, **environment, **fixed},
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        try:
            yield f"{sys.executable} -I -S {LAUNCHER} {path} {JOB}"
        finally:
            template.kill()
            template.communicate()


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Import the modules, then fork workers until the driver ends. Returns in a fork, when its worker ends."""
    listener = socket.socket(fileno=descriptor)
    import ray._raylet
    import ray.actor

    ray.actor.ActorClassID = ActorClassIDs
    for name in modules:
        importlib.import_module(name)

    # Finds the command line through the environment, so it must be called before a fork changes that.
    ray._raylet.setproctitle("agentflow: template of workers")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended workers
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page that it visits
    _become(_serve(listener))


def _serve(listener: socket.socket) -> Request:
    """Fork a worker for each request; returns its request in each fork."""
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            os._exit(0)  # the driver has ended
        connection, _ = listener.accept()
        with connection:
            request = _received(connection)
            if os.fork() == 0:
                listener.close()
                return request
            for stream in request.streams:
                os.close(stream)
            connection.send(b"1")


def _received(connection: socket.socket) -> Request:
    length, streams, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as file:
        argv, environment, folder = json.loads(file.read(int.from_bytes(length, "big")))
    return Request(argv, environment, folder, streams)


def _become(request: Request) -> None:
    """Run a worker in this fork."""
    import numpy as np
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    Config.initialize("")  # what Ray read from the template's environment, for example how to authenticate
    AuthenticationTokenLoader.instance().reset_cache()
    np.random.seed()  # unlike the standard library's generator, it is not reseeded after a fork
    sys.argv[:] = request.argv
    sys.path[0] = str(Path(request.argv[0]).parent)
    runpy.run_path(request.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
