"""Files that `langgraph build` must not put into an image."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_git_ignores_stays_out_of_images() -> None:
    """Keys above all: `.env` lies beside `langgraph.json`, and the whole folder is added."""

    def names(file: str) -> set[str]:
        lines = (ROOT / file).read_text().split()
        return {line.strip("/").removeprefix("**/") for line in lines if not line.startswith("#")}

    assert names(".gitignore") <= names(".dockerignore")
    assert {".env", ".git"} <= names(".dockerignore")
