"""Attack every regular expression of the product and every parser of untrusted text.

Command: `python -m benchmarks.expressions`.

Attack texts repeat an expression's prefixes and never complete a match. Prints the CPU seconds of the worst text of a
million characters for each; the goal is less than 0.2 s. A run is interrupted after LIMIT seconds. Scorers read
only the end of an answer, so they are measured as parsers, and not their expressions. Exits with 1 if a goal is missed.
"""

import sys

from benchmarks.expressions.attack import GOAL, SIZE, worst
from benchmarks.expressions.found import expressions
from benchmarks.expressions.readers import READERS, common
from benchmarks.expressions.texts import attacks

SCORERS = "agentflow.evals.scorers."


def main() -> int:
    """Print a line per expression and per parser, slowest first; return the exit status."""
    unbounded = (found for found in expressions() if not found.where.startswith(SCORERS))
    rows = [(*worst(found.run, attacks(found.pattern)), found.where) for found in unbounded]
    rows += [(*worst(read, common()), f"{name}()") for name, read in READERS.items()]
    for taken, text, name in sorted(rows, reverse=True):
        print(f"{taken:7.3f} s  {name:<60} {text!r}")
    missed = [name for taken, _, name in rows if taken > GOAL]
    print(f"{len(rows)} attacked with {SIZE:,} characters, {len(missed)} over {GOAL} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
