import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.speed.drive import WrongAnswer, several
from benchmarks.speed.measures import AGENTS, MEASURES, Contender, NotMeasured, pack
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import running
from benchmarks.speed.work import ANSWER, Work

OURS, PEER, FLOOR = AGENTS[:3]


async def test_so_many_rollouts_run_so_many_at_once_and_each_answers() -> None:
    now, most = 0, 0

    async def one() -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return ANSWER

    async def gives_up() -> str:
        return "I do not know"

    assert len(await several(one, 10, 4)) == 10
    assert most == 4
    with pytest.raises(WrongAnswer, match="I do not know"):
        await several(gives_up, 3, 2)


@pytest.mark.process
@pytest.mark.parametrize("contender", [one for one in AGENTS if one.role != "peer"], ids=lambda one: one.name)
async def test_ours_and_the_floor_reach_the_answer(contender: Contender) -> None:
    module, _, function = contender.name.partition(":")
    found = import_module(f"benchmarks.speed.contenders.{module}")
    with running() as server:
        async with getattr(found, function)(Work(server)) as rollout:
            assert len(await several(rollout, 2, 2)) == 2


def results(folder: Path) -> SpeedResults:
    return SpeedResults(folder / "results.jsonl", show=lambda _: None)


def broken() -> dict:
    raise NotMeasured("it is not here")


def test_what_is_there_is_not_measured_again_and_what_failed_is(tmp_path: Path) -> None:
    first = results(tmp_path)
    for repeat, cost in enumerate((5.0, 1.0, 2.0)):
        first.once("call", OURS, repeat, lambda cost=cost: {"values": {"call": cost}})
    first.once("call", PEER, 0, broken)
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"measure": "torn')
    again = results(tmp_path)
    again.once("call", OURS, 0, broken)
    again.once("call", PEER, 0, lambda: {"values": {"call": 3.0}})
    assert (again.median("call", OURS.label, "call"), again.median("call", PEER.label, "call")) == (2.0, 3.0)


def test_ours_and_the_floor_pack_the_same_tokens() -> None:
    ours, floor = (pack(contender, True)["values"]["forward"] for contender in MEASURES["pack"].contenders)
    assert ours == floor < 5
