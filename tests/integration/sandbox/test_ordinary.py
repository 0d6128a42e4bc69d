"""Programs as models write them: in every tier they do what they do outside."""

import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentflow.tools.sandbox.limits import Limits
from tests.cases import programs
from tests.sandboxes import TIERS, run, server

PROGRAMS = programs(Path(__file__).parent / "cases/ordinary.txt")
"""Programs with their expected output, in the lines that begin with `#>`."""


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_it_should(tier: str, name: str) -> None:
    code, _, printed = PROGRAMS[name].partition("\n#> ")
    if name in ("sympy", "scipy", "pandas") and find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    outcome = run(server(tier), code)
    assert (outcome.stdout, outcome.status) == (printed.replace("\n#> ", "\n"), 0), outcome.stderr
    assert (outcome.stopped, outcome.tier) == ("", tier)


@pytest.mark.parametrize("tier", TIERS)
def test_a_program_opens_its_files_alone(tier: str) -> None:
    code = "import os\nprint(open('a.csv', encoding='utf-8').read(), sorted(os.listdir('.')))"
    files = {"a.csv": "x,\u00e9\ud800", "program.py": "no", "b.txt": "1" * 1_000_000}
    outcome = server(tier).run(code, Limits(), threading.Event(), files)
    assert outcome.stdout == "x,\u00e9? ['__program__.py', 'a.csv', 'b.txt', 'program.py']", outcome.stderr
    assert "FileNotFoundError" in run(server(tier), code).stderr


@pytest.mark.parametrize("tier", TIERS)
def test_state_does_not_leak_into_the_next_run(tier: str) -> None:
    change = (
        "import builtins, json, math, os, random, sys, numpy\nbuiltins.leak = json.leak = math.pi = 3\n"
        "random.seed(1)\nnumpy.random.seed(1)\nos.environ['LEAK'] = '1'\nsys.path.append('/leak')\n"
        "open('left', 'w').write('x')\nos.chdir('/tmp') if os.path.isdir('/tmp') else None"
    )
    look = (
        "import builtins, json, math, os, sys\n"
        "print(hasattr(builtins, 'leak'), hasattr(json, 'leak'), math.pi, 'LEAK' in os.environ, '/leak' in sys.path,"
        " os.listdir('.'), [name for name in sys.modules if name.startswith('agentflow')])"
    )
    assert run(server(tier), change).status == 0
    assert run(server(tier), look).stdout == "False False 3.141592653589793 False False ['__program__.py'] []"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "draw", ["import random\nprint(random.random())", "import numpy\nprint(numpy.random.random())"]
)
def test_random_numbers_differ_between_runs(tier: str, draw: str) -> None:
    assert len({run(server(tier), draw).stdout for _ in range(3)}) == 3
