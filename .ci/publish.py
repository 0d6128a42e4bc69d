"""Make README.md and pyproject.toml ready for an index, where links within the repository lead nowhere.

    python .ci/publish.py https://github.com/OWNER/REPOSITORY v0.2.0

They are changed in place: links and pictures become absolute, of that tag, and the project gets its addresses.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = r"(?!\w+:|#)([^)\s\"]+)"


def absolute(text: str, repository: str, tag: str) -> str:
    """Return a page of the top folder with absolute links and pictures."""
    text = re.sub(rf"(!\[[^\]]*\]\(|\bsrc(?:set)?=\"){OURS}", rf"\g<1>{repository}/raw/{tag}/\g<2>", text)
    return re.sub(rf"(\]\(){OURS}", rf"\g<1>{repository}/blob/{tag}/\g<2>", text)


def main(repository: str, tag: str) -> None:
    """Change both files."""
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(absolute(readme.read_text(), repository, tag))
    urls = {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    project.write_text(project.read_text().replace("[project.urls]\n", f"[project.urls]\n{lines}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
