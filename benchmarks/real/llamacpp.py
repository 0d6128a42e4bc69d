"""A real llama.cpp server with a real small model, as people run one at home.

`python -m benchmarks.real.llamacpp MODEL.gguf PORT` is the server; `serving` starts it. The model is fetched once, by a
script that stands beside the checkout, and kept outside it.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx

FETCH = Path(__file__).resolve().parents[3] / "shared" / "models" / "qwen.py"
KEPT = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agentflow" / "models"
PORTS = {"0.5b": 18105, "1.5b": 18115}
"""The port of each model in evaluations. The address is one of their settings: with another one, none is resumed."""
SLOTS, TOKENS = 8, 4096
"""More slots than questions at a time: each keeps the prompt of a module, which is then not read again."""


def lacking() -> str:
    """Why no model can be served, "" if one can."""
    if not FETCH.exists():
        return f"{FETCH.name}, which fetches the model, is not beside the checkout"
    return "" if find_spec("xllamacpp") else "xllamacpp, a prebuilt llama.cpp, is not installed"


def fetched(size: str) -> Path:
    """Return the file of Qwen2.5-Coder-Instruct of that size. Raises CalledProcessError if it cannot be fetched."""
    command = [sys.executable, str(FETCH), size, str(KEPT / size)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words
    return KEPT / size / "model.gguf"


@contextmanager
def serving(size: str, port: int = 0, spec: str = "") -> Iterator[str]:
    """Serve Qwen2.5-Coder-Instruct of that size, at any free port if none is given; yields its spec.

    With a `spec`, that model is used, and nothing is served: it runs already, behind a faster server perhaps.
    """
    if spec:
        yield spec
        return
    model, port = fetched(size), port or _free_port()
    # Threads that spin while they wait for each other stand still on a busy machine.
    quiet = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    command = [sys.executable, "-m", "benchmarks.real.llamacpp", str(model), str(port)]
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env={**os.environ, **quiet}, stdin=null, stdout=null, stderr=null) as server:  # noqa: S603
        try:
            while not _answers(port):
                if server.poll() is not None:
                    raise RuntimeError(f"the server ended with {server.returncode}")
                time.sleep(0.2)
            yield f"llamacpp:qwen@http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.HTTPError:
        return False


def main(model: str, port: str) -> None:
    """Serve until the process is ended."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path, params.port, params.n_parallel, params.n_ctx = model, int(port), SLOTS, SLOTS * TOKENS
    params.model_alias = {"qwen"}
    server = Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
