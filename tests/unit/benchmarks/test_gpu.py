"""The GPU kit, up to the device: `python -m benchmarks.gpu --out FOLDER --device cpu` rehearses it whole."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

from agentflow.rl.launch.estimate import SHAPES
from agentflow.rl.settings import TrainingSettings, compose_settings
from benchmarks import gpu


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_it_has_presets_and_settings_that_exist(device: str) -> None:
    for preset, override in gpu.A.values():
        config = compose_settings(preset, [f"trainer.device={device}", *filter(None, [override])])
        rows = [*gpu.LONG[device], *gpu.LONGEST[device]]
        assert all(sum(row) <= config.prompt_tokens + config.response_tokens for row in rows)
        assert config.start in SHAPES
    assert gpu.SMALL in SHAPES
    TrainingSettings.of(compose_settings(gpu.ATLAS[1], [*gpu.ATLAS[2:], f"trainer.device={device}", "out=x"]))


def test_what_was_found_is_written_after_each_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of one which is stopped, or fails half-way."""
    seen = []

    def started(command: list[str], **options: object) -> SimpleNamespace:
        name = command[command.index("--measure") + 1]
        seen.append(json.loads((tmp_path / "gpu.json").read_text()) if seen else {})
        if name != "full":
            (tmp_path / f"{name}.json").write_text(json.dumps({"told": name}))

        def wait(seconds: float) -> int:
            if name == "logits":
                raise gpu.subprocess.TimeoutExpired(command, seconds)
            return int(name == "full")

        return SimpleNamespace(pid=-1, wait=wait)

    killed = list[int]()
    monkeypatch.setattr(gpu.subprocess, "Popen", started)
    monkeypatch.setattr(gpu.os, "killpg", lambda group, signal: killed.append(group))
    found = gpu.run(tmp_path, "cuda")
    assert [list(one)[2:] for one in seen] == [[], ["lora"], ["lora", "full"], [*gpu.A], [*gpu.A, "atlas"]]
    assert found["full"]["ended"] == 1
    assert found["logits"] == {"told": "logits", "ended": "stopped after 70 s", "seconds": found["logits"]["seconds"]}
    assert (killed, found["sampled"]["told"]) == ([-1], "sampled")
