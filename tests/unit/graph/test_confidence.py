"""Signals of an answer and a turn, the calibration that a run uses, what it promises, answers that are withheld, and
verifiers that are skipped.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentflow.graph.agent import build_graph
from agentflow.graph.as_tool import answer_text
from agentflow.graph.confidence import ERROR_RATE, Calibration, Call, HeldOut, signals, stop_signals, unasked
from agentflow.graph.context import MODULES, Context
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import to_line
from agentflow.tools.result import ErrorClass, ToolResult
from tests.scripted import CONTINUE, STOP, Script, Scripted, echo

QUESTION = "Which of Sekek, Pedig and Robos has more than 400 people?"
SURE = tuple(HeldOut(0.9, True) for _ in range(60))


def call(text: str, output: str, error: ErrorClass | None = None) -> Call:
    result = ToolResult.failed(error, output) if error else ToolResult(status="ok", output=output)
    return Call("wikipedia_search", "", {"query": text}, result)


CALLS = [call("Sekek", "Sekek: city with population 377"), call("Pedig 400", "no Robos", ErrorClass.TOOL_ERROR)]


@pytest.mark.parametrize(
    ("answer", "calls", "expected"),
    [
        ("377", CALLS, {"grounded": 1, "asked": 0, "echoed": 0, "errors": 1, "turns": 2, "covered": 0.75}),
        ("37", CALLS, {"grounded": 0}),
        ("robos.", CALLS, {"grounded": 0, "echoed": 1}),
        ("sekek", CALLS, {"grounded": 1, "asked": 1, "echoed": 1}),
        ("", [], {"grounded": 0, "asked": 0, "echoed": 0, "covered": 0, "words": 0}),
    ],
)
def test_signals_tell_where_an_answer_stands(answer: str, calls: list[Call], expected: dict[str, float]) -> None:
    assert signals(QUESTION, answer, "answered", calls).items() >= expected.items()
    assert unasked(QUESTION, CALLS) == ["Robos"]


def test_signals_of_a_turn() -> None:
    expected = {"tool wikipedia_search": 1, "first": 1, "turns": 1, "covered": 0.25, "errors": 0}
    assert stop_signals(QUESTION, CALLS[:1]).items() >= expected.items()
    expected = {"first": 0, "turns": 3, "covered": 0.75, "errors": 1}
    assert stop_signals(QUESTION, [*CALLS, CALLS[0]]).items() >= expected.items()


def calibration(script: Scripted | None = None, held_out: Any = SURE, **fields: Any) -> Calibration:
    known = {
        "benchmarks": ["quiz"],
        "models": dict.fromkeys(MODULES, script.spec if script else "x"),
        "tools": ["base_generator", "python_coder", "wikipedia_search"],
        "profile": "lean" if script is None else Context(model=script.spec).profile_of("planner"),
        "weights": {"grounded": 4.0},
        "bias": -2.0,
        "words": ["which", "word"],
        "familiar": 0.9,
        "thresholds": [0.95, 0.5, 0.1],
        "held_out": held_out,
    }
    return Calibration.model_validate({**known, **fields})


def stop(weight: float = 4.0, turns: Any = SURE) -> dict[str, Any]:
    return {"weights": {"tool echo": weight}, "bias": -2.0, "thresholds": [0.8], "held_out": turns}


def stored(found: Calibration, folder: Path) -> str:
    (folder / "calibration.json").write_text(found.model_dump_json())
    return str(folder)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [30, 60, 200])
@pytest.mark.parametrize("precision", [0.7, 0.9])
def test_a_threshold_keeps_the_precision_that_it_promises(precision: float, number: int, seed: int) -> None:
    """Over many draws of the held-out answers, at most a share of ERROR_RATE keeps less."""
    rng, curve = random.Random(seed), [0.05 * step for step in range(20)]
    quality = [min(1.0, max(0.0, level + rng.uniform(-0.3, 0.2))) for level in curve]  # precision need not be monotone
    thresholds = tuple(reversed(curve[:15]))
    broken = 0
    for _ in range(300):
        drawn = [rng.randrange(20) for _ in range(number)]
        held_out = [HeldOut(curve[level], rng.random() < quality[level]) for level in drawn]
        kept = calibration(held_out=held_out, thresholds=thresholds).threshold(precision)
        if kept is not None:
            shown = [right for level, right in zip(curve, quality, strict=True) if level >= kept]
            broken += sum(shown) / len(shown) < precision
    assert broken / 300 <= ERROR_RATE + 0.05  # three standard deviations of 300 draws


def test_a_promise_needs_enough_answers() -> None:
    assert calibration(held_out=SURE[:10]).threshold(0.9) is None
    assert calibration(thresholds=[0.8, 0.5]).threshold(0.9) == 0.5
    assert calibration(held_out=[]).threshold(0.5) is None
    few = [HeldOut(0.99, True) for _ in range(10)]  # too few to tell, and no reason not to look further
    assert calibration(held_out=[*SURE, *few], thresholds=[0.95, 0.5]).threshold(0.9) == 0.5


async def trace(script: Scripted, **fields: Any) -> Any:
    return await run(build_graph([echo]), Task.from_question("Which word?"), Context(model=script.spec, **fields))


async def lean(script: Scripted, found: Calibration, folder: Path) -> Any:
    """A run that may skip the verifier."""
    path = stored(found.model_copy(update={"profile": "lean"}), folder)
    return await trace(script, calibration=path, skip_verifier=0.9, profile="lean")


async def test_an_answer_has_its_confidence_where_it_is_calibrated(scripted: Script, tmp_path: Path) -> None:
    script = scripted()
    assert (await trace(script)).confidence is None
    other = stored(calibration(script, checkpoints={script.spec: "of other weights"}), tmp_path)
    assert (await trace(script, calibration=other)).confidence is None
    found = await trace(script, calibration=stored(calibration(script), tmp_path))
    assert found.confidence == pytest.approx(0.8808, abs=1e-4)
    assert found.state["confidence"] == found.confidence
    assert '"confidence": 0.88' in to_line(found)
    assert "0.88" in answer_text(found)


async def test_an_answer_below_the_threshold_is_withheld(scripted: Script, tmp_path: Path) -> None:
    script = scripted(generator=["Answer: goodbye", "Answer: hello"], verifier=[CONTINUE, STOP])
    path = stored(calibration(script, thresholds=[0.5]), tmp_path)
    found = await trace(script, calibration=path, abstain=0.9, max_turns=1)
    assert (found.status, found.confidence) == ("abstained", pytest.approx(0.1192, abs=1e-4))
    assert "goodbye" not in found.answer
    assert "More is needed." in found.answer
    assert (await trace(script, calibration=path, abstain=0.9)).status == "answered"
    path = stored(calibration(script, words=[], thresholds=[0.5]), tmp_path)  # for another kind of question
    found = await trace(script, calibration=path, abstain=0.9)
    assert (found.status, found.confidence) == ("abstained", None)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"models": {"planner": "openai:other"}}, "the planner's model"),
        ({"tools": ["python_coder"]}, "the tools are not"),
        ({"held_out": []}, "cannot promise 0.9"),
    ],
)
def test_a_calibration_holds_for_what_it_was_fitted_on(
    fields: dict[str, Any], text: str, scripted: Script, tmp_path: Path
) -> None:
    script = scripted()
    path = stored(calibration(script, **fields), tmp_path)
    with pytest.raises(ValidationError, match=text):
        Context(model=script.spec, calibration=path, abstain=0.9)


@pytest.mark.parametrize("fields", [{}, {"stop": stop(turns=SURE[:9])}], ids=["no turns", "too few"])
def test_skipping_needs_enough_turns(fields: Any, scripted: Script, tmp_path: Path) -> None:
    script = scripted()
    path = stored(calibration(script, profile="lean", **fields), tmp_path)
    with pytest.raises(ValidationError, match=r"cannot promise 0\.9 with \d held-out turns"):
        Context(model=script.spec, profile="lean", calibration=path, skip_verifier=0.9)
    with pytest.raises(ValidationError, match="is for the profile lean"):
        Context(model=script.spec, skip_verifier=0.9)


async def test_the_verifier_is_not_asked_where_it_may_be_skipped(scripted: Script, tmp_path: Path) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    found = await lean(script, calibration(script, stop=stop()), tmp_path)
    assert (script.asked("verifier"), found.status, found.answer) == ([], "answered", "hello")
    [turn] = found.turns
    assert (turn.verdict.signal, turn.verdict.probability) == ("stop", pytest.approx(0.8808, abs=1e-4))
    await trace(script, calibration=str(tmp_path), profile="lean")
    assert script.asked("verifier")  # unless it is set


@pytest.mark.parametrize(("later", "asked"), [('{"text": "hello"}', 1), ('{"wrong": 1}', 2)], ids=["result", "error"])
async def test_it_may_be_skipped_after_a_later_turn_without_an_error(
    later: str, asked: int, scripted: Script, tmp_path: Path
) -> None:
    script = scripted(verifier=[CONTINUE, STOP], executor=['{"text": "hello"}', later])
    from_the_second_on = {**stop(), "weights": {"turns": 2.0}}
    found = await lean(script, calibration(script, stop=from_the_second_on), tmp_path)
    assert (len(script.asked("verifier")), len(found.turns)) == (asked, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": stop(weight=3.0)},
        {"stop": stop(), "words": []},
        {"stop": stop(), "checkpoints": True},
    ],
    ids=["less likely", "another kind of question", "other weights"],
)
async def test_the_verifier_is_asked_otherwise(fields: dict[str, Any], scripted: Script, tmp_path: Path) -> None:
    script = scripted()
    if "checkpoints" in fields:
        fields = {**fields, "checkpoints": {script.spec: "of other weights"}}
    await lean(script, calibration(script, **fields), tmp_path)
    assert len(script.asked("verifier")) == 1
