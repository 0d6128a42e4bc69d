"""The micro model's rollout backend with a weight sync that fails or stalls once: imported as `model.external_lib`.

The environment's `FAILING_SYNC` is the path of a file. If the file is empty, the next sync removes it and fails. If it
holds a path, the first sync after that path exists removes it and never returns.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from agentflow.rl.trainer.micro_rollout import MicroRollout

_update_weights = MicroRollout.update_weights


def _stalls() -> bool:
    """Return whether this sync stalls. Raises RuntimeError if it fails."""
    flag = Path(os.environ["FAILING_SYNC"])
    try:
        after = flag.read_text()
    except FileNotFoundError:
        return False
    if not Path(after).exists():
        return False
    flag.unlink(missing_ok=True)  # two workers may sync at once
    if after:
        return True
    raise RuntimeError("this weight has no loader")


async def _update(self: MicroRollout, *args: Any, **kwargs: Any) -> None:
    if _stalls():
        await asyncio.Event().wait()
    await _update_weights(self, *args, **kwargs)


MicroRollout.update_weights = _update
