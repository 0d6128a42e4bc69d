"""The tests of the trainer need verl. Its imports warn, so they are done here, once."""

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

WITHOUT_VERL = ("test_step_metrics.py", "test_vllm_cpu.py")

if find_spec("verl"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import verl.workers.config
        import verl.workers.utils.padding  # noqa: F401

        from agentflow.rl.trainer import flow_trainer, loops, merge, shared_prefix, teacher  # noqa: F401
else:
    collect_ignore = [file.name for file in Path(__file__).parent.glob("test_*.py") if file.name not in WITHOUT_VERL]


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    from torch import distributed

    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()
