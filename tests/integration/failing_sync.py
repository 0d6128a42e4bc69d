"""The micro model's rollout backend with a weight sync that fails once: imported as `model.external_lib`.

The environment's `FAILING_SYNC` is the path of a file. The sync that finds it removes it and fails.
"""

import os
from pathlib import Path
from typing import Any

from agentflow.rl.trainer.micro_rollout import MicroRollout

_update_weights = MicroRollout.update_weights


def _fail_once() -> None:
    flag = Path(os.environ["FAILING_SYNC"])
    if flag.is_file():
        flag.unlink()
        raise RuntimeError("this weight has no loader")


async def _update(self: MicroRollout, *args: Any, **kwargs: Any) -> None:
    _fail_once()
    await _update_weights(self, *args, **kwargs)


MicroRollout.update_weights = _update
