"""The gate of `make mutants` closes."""

import json
from pathlib import Path

from tests.processes import python

SIGNAL = "tests/unit/rl/algorithms/test_signal.py"
KILLED = ["min(one) < max(one)", "min(one) <= max(one)", SIGNAL]
EQUIVALENT = ["list[float]](list)", "list[float]](lambda: [])", SIGNAL]
OUTDATED = ["what stands nowhere", "", SIGNAL]


def test_what_survives_and_what_is_out_of_date_fail_the_gate(tmp_path: Path) -> None:
    table = tmp_path / "mutants.txt"
    for mutants, problems in (([KILLED], []), ([KILLED, EQUIVALENT, OUTDATED], [OUTDATED, EQUIVALENT])):
        table.write_text("\n".join(["# agentflow.rl.algorithms.signal", *map(json.dumps, mutants)]))
        done = python("-m", "tests.mutants", table)
        assert done.returncode == bool(problems), done.stdout + done.stderr
        said = [line for line in done.stdout.splitlines() if "Mutant(" in line]
        assert [repr(old) in line for line, (old, *_) in zip(said, problems, strict=True)] == [True] * len(problems)
