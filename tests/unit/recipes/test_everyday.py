"""Everyday sums of the micro model's training data."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.micro import everyday, outside

HELD_OUT = Path(__file__).parents[3] / "benchmarks" / "questions"


@pytest.mark.process
def test_programs_print_the_answers():
    # In another process: the programs are Python, and only a sandbox runs what comes from a model.
    problems = [everyday.question(random.Random(seed)) for seed in range(600)]
    program = "\n".join(problem.steps[0].arguments["code"] for problem in problems)
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == [problem.answer for problem in problems]


@given(seed=st.integers(0))
def test_a_program_computes_what_its_plan_says(seed):
    problem = everyday.question(random.Random(seed))
    (step,) = problem.steps
    assert step.value == problem.answer
    assert step.context in step.arguments["code"] or step.context.startswith("1 ")


def test_no_question_of_the_benchmark_is_in_the_training_data():
    held_out = {
        line.partition("\t")[0]
        for name in ("elementary", "off_topic")
        for line in (HELD_OUT / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    }
    assert len(held_out) == 220
    rng = random.Random("held out")
    made = {everyday.question(rng).question for _ in range(20_000)} | {outside.question(rng) for _ in range(20_000)}
    assert not held_out & made
