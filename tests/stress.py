"""Run tests beside busy processes, again and again: `python -m tests.stress [--rounds N] [pytest's arguments]`.

Ends with pytest's exit code at the first round that is not green.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Computes until the process that started it has ended, however that was."""


@contextmanager
def busy() -> Iterator[None]:
    """A process that takes all the processor time it can get."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> int:
    """Run the rounds; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often the tests run")
    parser.add_argument("--busy", type=int, default=30, help="busy processes beside it")
    options, arguments = parser.parse_known_args()
    with ExitStack() as stack:
        for _ in range(options.busy):
            stack.enter_context(busy())
        for number in range(1, options.rounds + 1):
            print(f"round {number} of {options.rounds}, beside {options.busy} busy processes", flush=True)
            code = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
            if code:
                return code
    print(f"{options.rounds} of {options.rounds} rounds were green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
