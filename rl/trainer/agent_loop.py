"""verl's agent loop: one rollout of a trainable graph, as rows for the trainer.

The graph runs in verl's agent-loop worker; its policy calls go to verl's rollout servers as ids and come back as ids.
Each row says in `extra_fields` what the trainer needs to weigh it: where its calls are, whether it counts, its reward.
"""

import random
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from agentflow.evals.task import Task
from agentflow.evals.trace import append
from agentflow.graph.context import Sampling
from agentflow.graph.tracing.setup import tracing_from_environment
from agentflow.rl.batch import counts, facts_of, rows_of
from agentflow.rl.borders import chat
from agentflow.rl.calls import ids_array, logprobs_array
from agentflow.rl.packing import TrainingSample
from agentflow.rl.policy import PromptTooLong, TokenReply
from agentflow.rl.replay_log import ReplayLog, ReplayLogs, digest, policy_request
from agentflow.rl.rollout import RolloutRecord, Trajectory, run_recorded
from agentflow.rl.trainable import Graph, Split, Trainable, load_app
from agentflow.rl.training_log import TrainingLog

_graphs: dict[str, tuple[Trainable, Graph]] = {}
"""Apps of this process by name: verl makes a new agent loop for every rollout."""

_replay_logs: dict[Path, ReplayLogs] = {}
"""Of the step under way, by their file."""


class FlowOutput(AgentLoopOutput):  # type: ignore[misc]
    """verl's output, of arrays: of a list, pydantic checks and torch copies every token by itself."""

    prompt_ids: Any
    response_ids: Any
    response_mask: Any
    response_logprobs: Any


class FlowAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Runs an app's graph."""

    def __init__(
        self,
        *args: Any,
        app: str,
        options: dict[str, Any],
        out: str,
        seconds: float,
        tries: int,
        keep_replay_logs: bool,
        mask_cut_off: bool,
        pack_turns: bool,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            app: The trainable, as `module:attribute`.
            options: What the attribute is called with, if it is a function.
            out: Folder of the run.
            seconds: Time for one rollout.
            tries: How often a rollout may be run whose model or judge did not answer.
            keep_replay_logs: Whether what rollouts were told is kept in the run's folder.
            mask_cut_off: Whether rollouts with a reply that reached its length limit are left out of training.
            pack_turns: Whether turns that share their tokens become one row.
            *args: For the base class.
            **kwargs: For the base class.
        """
        super().__init__(*args, **kwargs)
        if app not in _graphs:
            tracing_from_environment()  # the setting `tracing`, as the driver has handed it on
            loaded = load_app(app, **options)
            _graphs[app] = loaded, loaded.built()
        self.app, self.graph = _graphs[app]
        self.log, self.seconds, self.tries, self.keep_replay_logs = TrainingLog(out), seconds, tries, keep_replay_logs
        self.mask_cut_off, self.pack_turns = mask_cut_off, pack_turns

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """One rollout of the task in the dataset's `row`: its outputs, the last of which holds the reward."""
        return self.outputs(await self._trajectory(sampling_params, row), row)

    async def _trajectory(self, sampling_params: dict[str, Any], row: dict[str, Any]) -> Trajectory:
        """Runs the task and records how it went; what a killed process was told before is not asked again."""
        task = Task.model_validate_json(row["extra_info"]["task"])
        step, split = int(row["global_steps"]), row["extra_info"]["split"]
        replay_log = self._replay_log(step, split, _name(row))
        policy = partial(VerlPolicy, self, sampling_params, f"{step} {replay_log.rollout}")
        trajectory = await run_recorded(
            self.app, self.graph, task, policy, replay_log, seconds=self.seconds, tries=self.tries
        )
        if replay_log.end is None:
            append(self.log.path_of(step, split), RolloutRecord.of(trajectory, step, split))
            replay_log.ended(trajectory.status, trajectory.reward)
        return trajectory

    def _replay_log(self, step: int, split: Split, name: str) -> ReplayLog:
        path = self.log.replay_log_of(step, split)
        if not self.keep_replay_logs:
            return ReplayLog(name, keep=lambda told: None)
        if path not in _replay_logs:
            _replay_logs.clear()
            _replay_logs[path] = ReplayLogs(path)
        return _replay_logs[path].of(name)

    def outputs(self, trajectory: Trajectory, row: dict[str, Any]) -> list[AgentLoopOutput]:
        """The rows of a trajectory; one that sampled nothing still has a row, without a token to train on."""
        name, step = _name(row), int(row["global_steps"])
        counted = counts(trajectory, mask_cut_off=self.mask_cut_off)
        limit = self.rollout_config.response_length
        rows = rows_of(trajectory, pack_turns=self.pack_turns, limit=limit) or [self._empty()]
        return [self._output(row, trajectory, name, counted, step) for row in rows]

    def _empty(self) -> TrainingSample:
        end = ids_array([self.tokenizer.eos_token_id])
        return TrainingSample(end, end, array("b", [0]), logprobs_array([0.0]))

    def _output(
        self, row: TrainingSample, trajectory: Trajectory, name: str, counted: bool, step: int
    ) -> AgentLoopOutput:
        most = self.rollout_config.response_length
        versions = [call.weights_version for call in row.calls] or [step]
        turns = trajectory.trace.turns
        return FlowOutput(
            prompt_ids=np.asarray(row.prompt_ids),
            response_ids=np.asarray(row.response_ids)[:most],
            response_mask=np.asarray(row.mask)[:most] * counted,
            response_logprobs=np.asarray(row.logprobs)[:most],
            reward_score=trajectory.reward,
            num_turns=len(trajectory.calls),
            metrics=AgentLoopMetrics(generate_sequences=trajectory.trace.seconds),
            extra_fields={
                "min_global_steps": min(versions),
                "max_global_steps": max(versions),
                **facts_of(row, trajectory, name, counted=counted),
                "status": str(trajectory.status),
                "task": trajectory.trace.task.id,
                "rollout": trajectory.id,
                "names": [(call.node, call.turn) for call in row.calls],
                "mismatch": {**asdict(row.mismatch), "reason": str(row.mismatch.reason)} if row.mismatch else None,
                "forward_tokens": len(row.prompt_ids) + len(row.response_ids),
                "unpacked_tokens": sum(len(call.prompt_ids) + len(call.response_ids) for call in row.calls),
                "turns": len(turns) or len(trajectory.calls),
                "tool_calls": len(turns),
                "tool_errors": sum(turn.result.error is not None for turn in turns),
                "reward_extra_info": {"acc": trajectory.reward},
            },
        )


def _name(row: dict[str, Any]) -> str:
    """Of a rollout, the same whenever the run is repeated."""
    return f"{Task.model_validate_json(row['extra_info']['task']).id}/{row['session_id']}"


class VerlPolicy:
    """The policy of one rollout, served by verl (an `agentflow.rl.policy.Generate`)."""

    def __init__(self, loop: FlowAgentLoop, sampling_params: dict[str, Any], name: str) -> None:
        """`name` tells the rollout from all others of the run, and is the same whenever the run is repeated."""
        self.loop, self.sampling_params = loop, sampling_params
        self.id = uuid4().hex
        """One for all calls, so that they reach the server that has the rollout's prefix in its cache."""
        self._name = f"{loop.config.seed} {name}"
        self._asked: Counter[str] = Counter()

    async def __call__(self, messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
        """Raises PromptTooLong."""
        key = digest(policy_request(messages, sampling))
        self._asked[key] += 1
        # Of what is asked, and not of its place among the calls: so it is the same whichever node comes first.
        seed = random.Random(f"{self._name} {key} {self._asked[key]}").getrandbits(31)

        loop = self.loop
        config, tokenizer = loop.rollout_config, loop.tokenizer
        prompt_ids = tokenizer.apply_chat_template(
            chat(tokenizer, messages), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        if len(prompt_ids) > config.prompt_length:
            raise PromptTooLong(
                f"a prompt of {len(prompt_ids)} tokens is more than prompt_tokens={config.prompt_length}"
            )
        most = min(sampling.max_tokens or config.response_length, config.response_length)
        params = {**self.sampling_params, "max_tokens": most, "logprobs": True, "seed": seed}
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        output = await loop.server_manager.generate(
            request_id=self.id, prompt_ids=list(prompt_ids), sampling_params=params
        )
        ids = list(output.token_ids)
        ended = bool(ids) and ids[-1] == tokenizer.eos_token_id
        text = tokenizer.decode(ids, skip_special_tokens=True)
        cuts = [cut for cut in map(text.find, sampling.stop or ()) if cut >= 0]
        return TokenReply(
            text=text[: min(cuts, default=len(text))],
            prompt_ids=list(prompt_ids),
            token_ids=ids,
            logprobs=list(output.log_probs or ()),
            finish_reason="stop" if ended or cuts else "length",
            weights_version=int(output.extra_fields.get("global_steps") or 0),
        )
