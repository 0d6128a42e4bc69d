"""The forms in which rows come."""

import csv
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.readers import choice, gpqa, number, text
from agentflow.evals.benchmarks.rows import read_rows
from tests.cases import table

ROWS = [{"question": "Where,\nand when?", "answer": "Rome"}, {"question": "Ünder \u2028 what?", "answer": "the sea"}]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n\n" for row in ROWS))
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["question", "answer"])
        writer.writeheader()
        writer.writerows(ROWS)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.json", "rows.csv", "rows.parquet"):
        assert [row for _, row in read_rows(tmp_path / name)] == ROWS, name


@pytest.mark.parametrize(("row", "accepted"), table(__file__, "accepted.txt"))
def test_accepted_answers_unless_columns_contradict_each_other(row: dict[str, Any], accepted: list[str] | None) -> None:
    if accepted:
        found = text({"question": "Where?", **row})
        assert [found.gold, *found.data["aliases"]] == accepted
    else:
        with pytest.raises(ValueError, match="different answers"):
            text({"question": "Where?", **row})


@pytest.mark.parametrize("row", [{"answer": "", "result": "failed"}, {"answer": None, "gold": "x"}, {"answer": b"x"}])
def test_an_answer_that_is_empty_or_bytes_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the column 'answer'"):
        text({"question": "Where?", **row})


def test_types_of_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    answers = {
        "0.1": pyarrow.array([0.1], pyarrow.float32()),
        "2023-02-01": pyarrow.array([datetime(2023, 2, 1)], pyarrow.timestamp("us")),
        "1.50": pyarrow.array([Decimal("1.50")]),
    }
    for gold, column in answers.items():
        parquet.write_table(pyarrow.table({"question": ["a"], "answer": column}), tmp_path / "rows.PARQUET")
        [(_, row)] = read_rows(tmp_path / "rows.PARQUET")
        assert text(row).gold == gold


@pytest.mark.parametrize(("answer", "gold"), [(27.0, "27"), ("027", "27"), (0, "0"), ("3/4", "3/4")])
def test_numbers(answer: Any, gold: str) -> None:
    assert number({"problem": "How many?", "answer": answer}).gold == gold


@pytest.mark.parametrize("row", table(__file__, "options.txt"))
def test_options(row: dict[str, Any]) -> None:
    found = choice({"question": "Which?", **row})
    assert found.question == "Which?\n\nA. liver\nB. heart\n\nAnswer with the letter of one option."
    assert (found.gold, found.stem) == ("B. heart", "Which?")
    assert found.data == {"stem": "Which?", "options": {"A": "liver", "B": "heart"}, "letter": "B"}


@pytest.mark.parametrize(("row", "letter"), table(__file__, "letters.txt"))
def test_the_right_option_is_the_one_that_all_columns_mean(row: dict[str, Any], letter: str | None) -> None:
    if letter:
        assert choice({"question": "Which?", **row}).data["letter"] == letter
    else:
        with pytest.raises(ValueError, match="option"):
            choice({"question": "Which?", **row})


WRONG = {f"Incorrect Answer {n}": f"wrong {n}" for n in (1, 2, 3)}


def test_gpqas_right_option_is_anywhere_and_always_at_the_same_place() -> None:
    rows = [{"Question": f"Q{n}", "Correct Answer": "right ", "file": "gpqa_diamond", **WRONG} for n in range(60)]
    found = [gpqa(row) for row in rows]
    assert found == [gpqa(row) for row in rows]
    assert {one.data["letter"] for one in found} == set("ABCD")
    assert all(one.data["options"][one.data["letter"]] == "right" for one in found)


GPQA = {"Question": "Q", "Correct Answer": "right", **WRONG}
GAIA = {"Question": "Where?", "Final answer": "Rome", "Level": "2", "file_name": ""}


@pytest.mark.parametrize(
    ("name", "subset", "file", "rows", "families"),
    [
        ("gpqa", "", "gpqa_extended.json", [GPQA, {**GPQA, "Question": "R"}], ["extended"] * 2),
        ("gpqa", "diamond", "gpqa_diamond.json", [GPQA], ["diamond"]),
        ("gaia", "", "rows.json", [GAIA, {**GAIA, "Question": "In it?", "file_name": "a.xlsx"}], ["level 2"]),
        ("bamboogle", "", "rows.json", [*ROWS, ROWS[0]], ["", ""]),
    ],
)
def test_families_and_what_is_left_out(
    name: str, subset: str, file: str, rows: list[dict[str, Any]], families: list[str], tmp_path: Path
) -> None:
    """Tasks of GAIA with files, and a repeated row."""
    (tmp_path / file).write_text(json.dumps(rows))
    assert [one.family for one in benchmark(name).tasks(subset, tmp_path / file)] == families
