"""Fitting confidence on the records of a run, and its reliability."""

import json
import random
from pathlib import Path

import pytest

from agentflow.evals.confidence import fit, reliability
from agentflow.evals.record import Dataset, EvaluationSettings, Record
from agentflow.graph.confidence import Calibration, HeldOut
from agentflow.graph.context import Context
from agentflow.tools.result import ErrorClass
from tests.command_line import succeeds
from tests.runs import record, turn, write_run

SETTINGS = EvaluationSettings(benchmarks={"quiz": Dataset(questions=400, digest="")}, context=Context(profile="lean"))


def answers(number: int, seed: int = 0) -> list[Record]:
    """Answers of which nine tenths are right where they stand in the result, and one tenth elsewhere."""
    rng, found = random.Random(seed), []
    for each in range(number):
        grounded = rng.random() < 0.7
        right = rng.random() < (0.9 if grounded else 0.1)
        turns = [turn(output="it is seven" if grounded else "it is unknown")]
        found.append(record(each, correct=right, answer="seven", turns=turns, benchmark="quiz"))
    return found


def test_confidence_is_that_of_the_answers_held_out() -> None:
    found = fit(answers(400), SETTINGS)
    assert len(found.held_out) == 200
    measured = reliability(found.held_out)
    assert measured.auc > 0.85
    assert measured.error < 0.08
    assert {round(one.confidence, 1) for one in found.held_out} == {0.1, 0.9}
    assert found.threshold(0.8) is not None
    assert found.threshold(0.99) is None


def test_the_tries_of_a_question_are_in_one_half() -> None:
    several = [one.model_copy(update={"sample": sample}) for sample in range(2) for one in answers(100)]
    held_out = fit(several, SETTINGS).held_out
    assert (len(held_out), held_out[:50]) == (100, held_out[50:])


def going_on(number: int, tool: str, share: float, seed: int = 0) -> list[Record]:
    """Answers after a turn with the tool and a failed one, of which a share is right."""
    rng, turns = random.Random(seed), [turn(tool=tool), turn(error=ErrorClass.TOOL_ERROR), turn(tool="base_generator")]
    return [record(seed + each, correct=rng.random() < share, turns=turns, benchmark="quiz") for each in range(number)]


def test_a_turn_may_be_the_last_one_unless_a_right_answer_came_later() -> None:
    found = fit([*going_on(200, "python_coder", 0.1), *going_on(200, "wikipedia_search", 0.6, seed=1000)], SETTINGS)
    assert found.stop is not None
    assert len(found.stop.held_out) == 400  # none of the turns with an error
    needed = found.stop.threshold(0.85)
    assert needed is not None
    shown = [one.right for one in found.stop.held_out if one.confidence >= needed]
    assert 250 < len(shown) < 350  # without those after a search
    assert sum(shown) / len(shown) > 0.9


def test_runs_that_need_or_skip_the_verifier_and_too_few_tell_nothing() -> None:
    records = going_on(200, "python_coder", 0.5)
    assert fit(records, SETTINGS).stop is not None
    for change in ({"skip_verifier": 0.9}, {"profile": "paper"}):
        context = SETTINGS.context.model_copy(update=change)
        assert fit(records, SETTINGS.model_copy(update={"context": context})).stop is None
    short = [one.model_copy(update={"turns": []}) for one in records[:-15]]
    assert fit([*short, *records[-15:]], SETTINGS).stop is None


def test_reliability_of_known_answers() -> None:
    found = reliability([HeldOut(0.9, True)] * 8 + [HeldOut(0.9, False)] + [HeldOut(0.2, False)], tokens=80)
    assert (found.auc, found.error) == (pytest.approx(0.75), pytest.approx(0.1 * 0.1 * 8 + 0.09 + 0.02))
    whole, *_, half = found.covered
    assert (whole.accuracy, whole.tokens) == (0.8, 10)
    assert (half.accuracy, half.tokens) == (1.0, 16)
    assert reliability([HeldOut(0.5, True)]).auc == 0.5


def test_the_command_writes_the_calibration(tmp_path: Path) -> None:
    write_run(tmp_path / "run", answers(400), profile="lean")
    shown = json.loads(succeeds("calibrate", tmp_path / "run", "--json").stdout)
    written = Calibration.model_validate_json((tmp_path / "run" / "calibration.json").read_text())
    assert shown["held_out"]["number"] == len(written.held_out)
    lines = succeeds("calibrate", tmp_path / "run").stdout.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines if "skip_verifier" in line] == [
        *["asks no verifier after 200 of 200 turns"] * 3,
        "not promised",
    ]
