"""`python -m benchmarks.expressions` attacks every regular expression of the product, and every reader of foreign text.

The texts repeat an expression's beginnings and fall short of its ends. It prints the CPU seconds that the worst of them
takes at a million characters, of which less than 0.2 is the goal; what takes LIMIT is interrupted. Ends with 1 where
the goal is missed.
"""

import sys

from benchmarks.expressions.attack import GOAL, SIZE, worst
from benchmarks.expressions.found import expressions
from benchmarks.expressions.readers import READERS, common
from benchmarks.expressions.texts import attacks


def main() -> int:
    """Prints a line per expression and per reader, the slowest first."""
    rows = [(*worst(found.run, attacks(found.pattern)), found.where) for found in expressions()]
    rows += [(*worst(read, common()), f"{name}()") for name, read in READERS.items()]
    for taken, text, name in sorted(rows, reverse=True):
        print(f"{taken:7.3f} s  {name:<60} {text!r}")
    missed = [name for taken, _, name in rows if taken > GOAL]
    print(f"{len(rows)} attacked with {SIZE:,} characters, {len(missed)} over {GOAL} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
