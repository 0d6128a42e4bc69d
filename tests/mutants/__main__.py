"""Faults that are put into the training on purpose: each must make a fast test fail.

    python -m tests.mutants [TABLE]

A line of the table (cases/) is a text of the module in the heading above, what takes its place, and a file of tests, of
which one must fail; without a file, a step through the trainer must. The tests run once without a mutant, which loads
all that is slow. Each mutant is a fork of this process, in which the functions of the module get the changed code.
"""

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
import torch

from tests.cases import sections

STEP = "tests/unit/rl/trainer/test_step.py"
FIRST_STEP = f"{STEP}::test_a_step_is_that_of_the_equations[0]"


@dataclass(frozen=True)
class Mutant:
    module: str
    old: str
    new: str
    test: str = STEP

    @property
    def path(self) -> Path:
        return Path(*self.module.split(".")).with_suffix(".py")

    @property
    def stands(self) -> bool:
        """Whether its text stands in the module, once."""
        return self.path.read_text(encoding="utf-8").count(self.old) == 1

    def apply(self) -> None:
        """Give the functions of the loaded module their code in the changed text."""
        text = self.path.read_text(encoding="utf-8").replace(self.old, self.new)
        changed = dict(codes(compile(text, self.path, "exec")))
        for function in functions(importlib.import_module(self.module)):
            function.__code__ = changed[function.__qualname__]


def codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The code of all functions by their qualified names."""
    for found in code.co_consts:
        if isinstance(found, CodeType):
            yield found.co_qualname, found
            yield from codes(found)


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module, and the methods of its classes."""
    own = [found for found in vars(module).values() if getattr(found, "__module__", None) == module.__name__]
    for found in [*own, *(each for one in own if isinstance(one, type) for each in vars(one).values())]:
        function = getattr(found, "fget", None) or getattr(found, "__func__", found)
        if isinstance(function, FunctionType) and function.__code__.co_filename == module.__file__:
            yield function


def run(tests: list[str]) -> int:
    """Run tests until one fails. Return pytest's exit code."""
    again = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *again, *tests]))


def forked(mutants: list[Mutant]) -> Iterator[tuple[Mutant, int]]:
    """Yield each mutant with the exit code of its test, as many at a time as there are cores."""
    running: dict[int, Mutant] = {}
    todo = mutants.copy()
    while todo or running:
        while todo and len(running) < len(os.sched_getaffinity(0)):
            mutant = todo.pop(0)
            if not (child := os.fork()):
                with tempfile.TemporaryFile() as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                    mutant.apply()
                    os._exit(run([mutant.test]))
            running[child] = mutant
        child, status = os.wait()
        yield running.pop(child), os.waitstatus_to_exitcode(status)


def main(table: str = "mutants.txt") -> int:
    """Say which mutants survive and which are out of date. Return the exit code."""
    found = [Mutant(module, *line) for module, lines in sections(__file__, table).items() for line in lines]
    problems = [f"no such text, or twice: {mutant}" for mutant in found if not mutant.stands]
    known = [mutant for mutant in found if mutant.stands]
    torch.set_num_threads(1)  # a fork cannot use the threads of its parent
    if code := run([test.replace(STEP, FIRST_STEP) for test in sorted({mutant.test for mutant in known})]):
        return code
    for number, (mutant, code) in enumerate(forked(known), 1):
        if code != pytest.ExitCode.TESTS_FAILED:
            problems.append(f"{'survives' if code == 0 else f'pytest ends with {code}'}: {mutant}")
        if sys.stderr.isatty():
            print(f"{number} of {len(known)}", end="\r", file=sys.stderr)
    print("\n".join([*problems, f"{len(found)} mutants, {len(problems)} problems"]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
