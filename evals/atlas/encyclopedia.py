"""The Atlas encyclopedia as a local index for `wikipedia_search`, built in the user's cache on first use."""

import hashlib
from functools import lru_cache
from pathlib import Path

import platformdirs

from agentflow.evals.atlas.world import Split, pages
from agentflow.tools.encyclopedia.corpus import FORMAT, Passage
from agentflow.tools.encyclopedia.corpus_build import build


@lru_cache(maxsize=1)
def index_path() -> Path:
    """Return the index of both splits, which share no name. Build it if missing, which takes a second.

    The file name contains a hash of the content.
    """
    splits: tuple[Split, ...] = ("test", "train")
    passages = [Passage(title=page.title, text=page.text) for split in splits for page in pages(split)]
    digest = hashlib.sha256("\n".join(f"{p.title}\t{p.text}" for p in passages).encode()).hexdigest()[:12]
    path = Path(platformdirs.user_cache_dir("agentflow")) / f"atlas-{digest}-{FORMAT}.sqlite"
    if not path.exists():
        build(path, passages)
    return path
