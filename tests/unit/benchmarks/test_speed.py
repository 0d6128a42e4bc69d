import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.speed import measures
from benchmarks.speed.drive import WrongAnswer, several
from benchmarks.speed.measures import AGENTS, MEASURES, NotMeasured, interpreter, pack
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import PROMPT, REPLY, answer
from benchmarks.speed.work import ANSWER

OURS, PEER, FLOOR = AGENTS[:3]


def reply(path: str, **body: object) -> dict:
    seconds, response = answer(path, json.dumps({"model": "none", **body}).encode())
    head, _, text = response.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(text)}".encode() in head
    assert seconds == float(path.split("/")[1]) / 1000
    return json.loads(text)


def test_the_server_calls_a_tool_until_the_last_call() -> None:
    asked = [{"role": "user", "content": "q"}]
    messages = [reply("/5/tools/3/v1/x", messages=asked + [{"role": "assistant"}] * n) for n in range(3)]
    called = [found["choices"][0]["message"].get("tool_calls") for found in messages]
    assert [bool(calls) for calls in called] == [True, True, False]
    assert ANSWER in messages[-1]["choices"][0]["message"]["content"]
    found = reply("/100/text/1/v1/x", return_token_ids=True)
    [choice] = found["choices"]
    assert (len(found["prompt_token_ids"]), len(choice["token_ids"])) == (PROMPT, REPLY)
    assert "prompt_token_ids" not in reply("/100/text/1/v1/x")


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


def test_a_table_has_ratios_to_the_floor_and_who_was_not_measured(tmp_path: Path) -> None:
    one = results(tmp_path)
    for contender, cost in ((OURS, 0.003), (FLOOR, 0.001)):
        one.once("call", contender, 0, lambda cost=cost: {"values": {"call": cost}, "version": "v"})
    one.once("call", PEER, 0, broken)
    lines = next(one.tables()).splitlines()
    rows = {cells[1]: cells[4] for line in lines[4:] if (cells := [cell.strip() for cell in line.split("|")])}
    assert (rows[OURS.label], rows[FLOOR.label]) == ("3 (3.00 x)", "1")
    assert rows[PEER.label] == "not measured: it is not here"
    assert rows[AGENTS[3].label] == "-"
    assert len(list(one.tables())) == len(MEASURES)


def test_a_peer_that_pip_could_not_install_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "VENVS", tmp_path)
    with pytest.raises(NotMeasured, match="make bench installs it"):
        interpreter("autogen")
    (tmp_path / "autogen.log").write_text("…\nERROR: No matching distribution\n")
    with pytest.raises(NotMeasured, match="ERROR: No matching distribution"):
        interpreter("autogen")


def test_ours_and_the_floor_pack_the_same_tokens() -> None:
    ours, floor = (pack(contender, True)["values"]["forward"] for contender in MEASURES["pack"].contenders)
    assert ours == floor < 5
