"""Questions of everyday arithmetic to train and measure a planner on: sums, shares and units in one line.

python -m benchmarks.everyday_set FOLDER

Writes train.jsonl (2,000 questions), dev.jsonl (60) and test.jsonl (200), which share no question. They are generated,
the same ones each time (`recipes.micro.everyday`).
"""

import json
import random
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from recipes.micro.everyday import question

SIZES = {"train": 2000, "dev": 60, "test": 200}
SEED = 0


def build(folder: Path) -> None:
    """Write a file of each of SIZES into `folder`. Raises OSError."""
    rng, answers = random.Random(SEED), dict[str, str]()
    while len(answers) < sum(SIZES.values()):
        problem = question(rng)
        answers[problem.question] = problem.answer
    rows = iter(answers.items())
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES.items():
        lines = [json.dumps({"question": asked, "answer": answer}) + "\n" for asked, answer in islice(rows, size)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def main(folder: Annotated[Path, typer.Argument(help="Folder of the three files.")]) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl with questions of everyday arithmetic."""
    try:
        build(folder)
    except OSError as error:
        typer.echo(f"error: {folder} cannot be written ({error})", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"{', '.join(f'{name}.jsonl ({size:,})' for name, size in SIZES.items())} are in {folder}")


if __name__ == "__main__":
    typer.run(main)
