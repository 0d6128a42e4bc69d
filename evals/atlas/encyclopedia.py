"""The Atlas encyclopedia as a local index for `wikipedia_search`: built on first use into the user's cache."""

import hashlib
from functools import lru_cache
from pathlib import Path

import platformdirs

from agentflow.evals.atlas.world import Split, pages
from agentflow.tools.encyclopedia.corpus import FORMAT, Passage
from agentflow.tools.encyclopedia.corpus_build import build


@lru_cache(maxsize=1)
def index_path() -> Path:
    """The index of both splits, which share no name. Built in a second; its name holds a hash of its content."""
    splits: tuple[Split, ...] = ("test", "train")
    passages = [Passage(title=page.title, text=page.text) for split in splits for page in pages(split)]
    digest = hashlib.sha256("\n".join(f"{p.title}\t{p.text}" for p in passages).encode()).hexdigest()[:12]
    path = Path(platformdirs.user_cache_dir("agentflow")) / f"atlas-{digest}-{FORMAT}.sqlite"
    if not path.exists():
        build(path, passages)
    return path
