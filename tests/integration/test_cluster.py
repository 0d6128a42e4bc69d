"""Training on two machines: network namespaces, joined by one cable, with their own /dev/shm and folder of Ray.

`make test-cluster`, as root on Linux. Both machines see the folder of the run, as Ray's page asks.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.integration.training import SMALL, ended, lines, rollouts, trains
from tests.waiting import until

pytest.importorskip("verl")

pytestmark = trains

NETWORK = "10.77.0"
CABLE = {f"{NETWORK}.1": "af-one", f"{NETWORK}.2": "af-two"}
HEAD = f"{NETWORK}.1:6379"
LOADED = "agentflow.rl.trainer.micro_rollout,agentflow.rl.trainer.shared_prefix,tests.integration.failing_sync"
"""The modules of the preset, and ours."""
TWO_NODES = (
    *(f"ray_address={HEAD}", "trainer.nnodes=2", "actor_rollout_ref.rollout.agent.num_workers=2"),
    *("ray_seconds=300", f"actor_rollout_ref.model.external_lib=[{LOADED}]"),
)
TWO_RANKS = ("trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2")


class Machine:
    """A machine of its own network and memory; its Ray ends with it."""

    def __init__(self, number: int, ray_folder: Path) -> None:
        self.address, self._ray_folder = f"{NETWORK}.{number}", ray_folder
        own = f"mount -t tmpfs none /dev/shm && mount -t tmpfs none {ray_folder} && exec sleep infinity"
        # A process namespace, too: whatever runs in the machine ends when its first process does.
        self.power = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),  # no machine outlives the tests
                *("unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", own),
            ],
            stdin=subprocess.DEVNULL,
        )
        until(lambda: self._first() and f"none {ray_folder} " in Path(f"/proc/{self._first()}/mounts").read_text())
        self.run("ip", "link", "set", "lo", "up")
        # A cable disappears with the machine at its other end, and takes its address along; this one stays.
        self.run("ip", "addr", "add", f"{self.address}/32", "dev", "lo")

    def _first(self) -> str:
        """The process id of the machine's first process, empty before it runs."""
        return Path(f"/proc/{self.power.pid}/task/{self.power.pid}/children").read_text().strip()

    def command(self, *words: str) -> list[str]:
        """The command that runs `words` in the machine."""
        return ["nsenter", "--target", self._first(), "--net", "--mount", "--pid", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def plug(self) -> None:
        cable = CABLE[self.address]
        subprocess.run(["ip", "link", "set", cable, "netns", self._first()], check=True)
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", cable)
        self.run("ip", "link", "set", cable, "up")

    def start_ray(self, *where: str) -> None:
        places = ("--num-cpus=12", "--num-gpus=1", "--object-store-memory=200000000", "--disable-usage-stats")
        ray = (sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={self.address}")
        # Ray's daemons keep a pipe open for as long as they live.
        command = self.command("env", f"GLOO_SOCKET_IFNAME={CABLE[self.address]}", *ray, *places, *where)
        with (self._ray_folder / self.address).open("w") as output:
            subprocess.run(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=True)

    def actors(self) -> set[str]:
        """Names of the classes of actors that have run here."""
        logs = f"cat {self._ray_folder}/session_*/logs/worker-*.out"
        return set(re.findall(r"^:actor_name:(\w+)", self.run("sh", "-c", logs), re.MULTILINE))

    def train(self, out: Path, *settings: str) -> "subprocess.Popen[str]":
        command = self.command(sys.executable, "-m", "agentflow", "train", f"out={out}", *SMALL, *settings)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def off(self) -> None:
        self.power.kill()
        self.power.wait()


class Cluster:
    """Two machines, the first of which is the head of a Ray cluster."""

    def __init__(self, folder: Path) -> None:
        self.ray_folder = folder
        self.first, self.second = Machine(1, folder), Machine(2, folder)
        self.connect()
        self.first.start_ray("--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={folder}")
        self.second.start_ray(f"--address={HEAD}")

    def connect(self) -> None:
        one, two = CABLE.values()
        # After a fault, the first machine may still hold its end of the old cable.
        subprocess.run(self.first.command("ip", "link", "delete", one), capture_output=True, check=False)
        subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", two], check=True)
        self.first.plug()
        self.second.plug()

    def replace_second(self) -> None:
        """Another machine in place of the second one."""
        self.second.off()
        self.second = Machine(2, self.ray_folder)
        self.connect()
        self.second.start_ray(f"--address={HEAD}")

    def off(self) -> None:
        for machine in (self.first, self.second):
            machine.off()


@pytest.fixture(scope="module")
def stalling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that makes a weight sync stall, which removes it: see `failing_sync`."""
    return tmp_path_factory.mktemp("sync") / "stalls"


@pytest.fixture(scope="module")
def cluster(stalling: Path) -> Iterator[Cluster]:
    if not all(map(shutil.which, ("unshare", "nsenter", "setpriv", "ip"))):
        pytest.skip("util-linux or iproute2 is not installed")
    attempt = ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "af-one", "type", "veth"]
    if subprocess.run(attempt, capture_output=True, check=False).returncode:
        pytest.skip("no right to make network namespaces here")
    with TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex())
        patch.setenv("RAY_raylet_start_wait_time_s", "300")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("FAILING_SYNC", str(stalling))
        made = Cluster(Path(folder))
        yield made
        made.off()


def finished(process: "subprocess.Popen[str]") -> None:
    out, said = process.communicate()
    assert process.returncode == 0, out + said


def digests(out: Path) -> Sequence[str]:
    return [line["batch"] for line in lines(out, "train")]


def test_two_machines_train_what_two_ranks_of_one_do(cluster: Cluster, tmp_path: Path) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    finished(cluster.first.train(two, *TWO_NODES, "steps=2"))
    for machine in (cluster.first, cluster.second):
        assert {"WorkerDict", "FlowLoopWorker", "MicroServer"} <= machine.actors()
    finished(cluster.first.train(one, *TWO_RANKS, "steps=2"))
    assert len(digests(two)) == 2
    assert digests(two) == digests(one)


@pytest.mark.skipif("EVERY_FAULT" not in os.environ, reason="a quarter of an hour: make test-cluster")
@pytest.mark.parametrize("fault", ["the cable is cut", "the machine dies"])
@pytest.mark.parametrize(
    "begins",
    ["replay/000002-train.jsonl", "rollouts/000002-train.jsonl", "checkpoints/global_step_2", None],
    ids=["rollouts", "update", "checkpoint", "weight sync"],
)
def test_a_training_without_its_second_machine_ends_in_one_line_and_resumes(
    begins: str | None, fault: str, cluster: Cluster, stalling: Path, tmp_path: Path
) -> None:
    out, settings = tmp_path / "run", (*TWO_NODES, "steps=3")
    if not begins:
        stalling.write_text(str(out / "rollouts/000002-train.jsonl"))
    process = cluster.first.train(out, *settings)
    until(lambda: process.poll() is not None or ((out / begins).exists() if begins else not stalling.exists()))
    assert process.poll() is None
    if fault == "the machine dies":
        cluster.second.off()
    else:
        cluster.second.run("ip", "link", "set", CABLE[cluster.second.address], "down")
    said = ended(process)
    assert cluster.second.address in said
    assert "continue from step" in said
    cluster.replace_second()
    again = shlex.split(said.partition(" with: agentflow train ")[2])
    finished(cluster.first.train(out, *[word for word in again if not word.startswith("out=")]))
    found = lines(out, "train")
    assert [line["step"] for line in found] == [1, 2, 3]
    assert all(len(rollouts(out, line["step"], "train")) == line["rollouts"] for line in found)
