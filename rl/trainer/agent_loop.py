"""Agent loop for verl: runs one rollout of a trainable graph and returns it as rows for the trainer.

The graph runs in verl's agent-loop worker. Its policy calls exchange token ids with verl's rollout servers. The
`extra_fields` of each row hold what the trainer needs to assign credit: the position of its calls, whether it is
trained on, and its reward.
"""

import asyncio
import json
import os
import random
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from agentflow.evals.run_folder import read_settings
from agentflow.graph.context import Sampling
from agentflow.graph.models.connections import ROLLOUT_ADDRESS
from agentflow.graph.models.loading import aload_model
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import append
from agentflow.graph.tracing.setup import tracing_from_environment
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import Made, Trainable
from agentflow.rl.policy.borders import Tokenizer
from agentflow.rl.policy.chat import ChatRequest, Generate, TokenReply, digest
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.policy import PromptTooLong
from agentflow.rl.rollout.batch import counts, facts_of, parts_of
from agentflow.rl.rollout.packing import TrainingSample, longest_prompt, pack
from agentflow.rl.rollout.replay_log import ReplayLog, ReplayLogs
from agentflow.rl.rollout.rollout import Rollout, RolloutTrace, rewarded, run_recorded
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.settings import TrainingSettings
from agentflow.rl.trainer.teacher import Teacher
from agentflow.tools.proxies import without_proxy

_graphs: dict[str, tuple[Trainable, Made]] = {}
"""Loaded apps of this process by name; cached because verl creates a new agent loop for every rollout."""


@lru_cache(maxsize=1)
def _run_settings(out: Path) -> TrainingSettings:
    """Return the settings of this process's run."""
    return read_settings(out, TrainingSettings)


@lru_cache(maxsize=1)
def _chat_format(tokenizer: Tokenizer, parser: str, options: str) -> ChatFormat:
    """Return the chat format of this process; `options` are the template's further arguments as JSON."""
    return ChatFormat(tokenizer, parser, json.loads(options))


_replay_logs = lru_cache(maxsize=8)(ReplayLogs)
"""Replay logs of the last steps, by path."""

_places = lru_cache(maxsize=1)(asyncio.Semaphore)
"""Places of the rollouts of this process, by their number; a rollout that waits for its place has no clock yet."""


class FlowOutput(AgentLoopOutput):  # type: ignore[misc]
    """verl's output with arrays instead of lists, which pydantic validates and torch copies token by token."""

    prompt_ids: Any
    response_ids: Any
    response_mask: Any
    response_logprobs: Any


class FlowAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Agent loop that runs the graph of an app."""

    def __init__(self, *args: Any, out: str, concurrency: int, **kwargs: Any) -> None:
        """Run rollouts with the settings of the run folder `out`, at most `concurrency` at once; others wait."""
        super().__init__(*args, **kwargs)
        if addresses := self.config.get("rollout_addresses"):
            os.environ[ROLLOUT_ADDRESS] = address = addresses[os.getpid() % len(addresses)]
            without_proxy(address.rpartition(":")[0].strip("[]"))
        self.log, self.settings, self.concurrency = TrainingLog(out), _run_settings(Path(out)), concurrency
        app = self.settings.app
        if app not in _graphs:
            tracing_from_environment()  # the driver passes the setting `tracing` in the environment
            loaded = load_app(app, **self.settings.options)
            _graphs[app] = loaded, loaded.built()
        self.app, self.graph = _graphs[app]
        options = json.dumps(dict(self.apply_chat_template_kwargs))
        self.format = _chat_format(self.tokenizer, self.settings.tool_parser, options)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """Run one rollout of the task in the dataset's `row`. Return its outputs; the last one holds the reward."""
        async with _places(self.concurrency):
            rollout = await self._rollout(sampling_params, row)
        return self.outputs(rollout, row)

    async def _rollout(self, sampling_params: dict[str, Any], row: dict[str, Any]) -> Rollout:
        """Run the task and record the rollout. Responses that a killed process recorded are not requested again."""
        task = Task.model_validate_json(row["extra_info"]["task"])
        step, split, name = int(row["global_steps"]), row["extra_info"]["split"], rollout_name(row)
        known = _replay_logs(self.log.replay_log_of(step, split)).of(name) if self.settings.replay_logs else None
        replay_log = known or ReplayLog(name, keep=lambda told: None)
        policy: Callable[[], Generate] = partial(VerlPolicy, self, sampling_params, f"{step} {replay_log.rollout}")
        if self.settings.teacher and split == "train":
            sampling = Sampling(
                temperature=sampling_params["temperature"], max_tokens=self.rollout_config.response_length
            )
            model = await aload_model(self.settings.teacher, sampling)
            policy = partial(Teacher, model, self.format, self.fitted)
        seconds, tries = self.settings.rollout_seconds, self.settings.rollout_tries
        rollout = await run_recorded(self.app, self.graph, task, policy, replay_log, seconds=seconds, tries=tries)
        if replay_log.end is None:
            append(self.log.path_of(step, split), RolloutTrace.of(rollout, step, split))
            replay_log.ended(rollout.status, rollout.reward)
        return rollout

    def fitted(self, request: ChatRequest) -> tuple[list[int], int]:
        """Return the ids of a request's prompt, and the most tokens of its reply. Raises PromptTooLong, ChatError."""
        config, prompt_ids = self.rollout_config, self.format.prompt_ids(request)
        most = min(request.sampling.max_tokens or config.response_length, config.response_length)
        longest = longest_prompt(
            config.prompt_length, config.response_length, most, packed=self.settings.flow.pack_turns
        )
        if len(prompt_ids) > longest:
            raise PromptTooLong(
                f"a prompt of {len(prompt_ids)} tokens is more than the {longest} that prompt_tokens="
                f"{config.prompt_length} and response_tokens={config.response_length} leave beside a reply of {most}"
            )
        return prompt_ids, most

    def outputs(self, rollout: Rollout, row: dict[str, Any]) -> list[AgentLoopOutput]:
        """Return the rows of a rollout; one without sampled tokens gets a single, fully masked row."""
        name, step, flow = rollout_name(row), int(row["global_steps"]), self.settings.flow
        limit = self.rollout_config.response_length if flow.pack_turns else 0
        end = array("i", [self.tokenizer.eos_token_id])
        empty = TrainingSample(end, end, array("b", [0]), array("f", [0.0]))
        return [
            self._output(row, part, of, counted, step)
            for part, of in parts_of(rollout, name)
            for counted in [counts(part, mask_cut_off=flow.mask_cut_off, count_as_zero=flow.count_as_zero)]
            for row in pack(part.calls, limit=limit) or [empty]
        ]

    def _output(self, row: TrainingSample, rollout: Rollout, name: str, counted: bool, step: int) -> AgentLoopOutput:
        most = self.rollout_config.response_length
        versions = [call.weights_version for call in row.calls] or [step]
        turns = rollout.trace.turns
        return FlowOutput(
            prompt_ids=np.asarray(row.prompt_ids),
            response_ids=np.asarray(row.response_ids)[:most],
            response_mask=np.asarray(row.mask)[:most] * counted,
            response_logprobs=np.asarray(row.logprobs)[:most],
            reward_score=rollout.reward,
            num_turns=len(rollout.calls),
            metrics=AgentLoopMetrics(generate_sequences=rollout.trace.seconds),
            extra_fields={
                "min_global_steps": min(versions),
                "max_global_steps": max(versions),
                **facts_of(row, rollout, name, counted=counted),
                "status": str(rollout.status),
                "rewarded": rewarded(rollout.status, self.settings.flow.count_as_zero),
                "task": rollout.trace.task.id,
                "rollout": rollout.id,
                "names": [(call.node, call.turn) for call in row.calls],
                "mismatch": {**asdict(row.mismatch), "reason": str(row.mismatch.reason)} if row.mismatch else None,
                "forward_tokens": len(row.prompt_ids) + len(row.response_ids),
                "unpacked_tokens": sum(len(call.prompt_ids) + len(call.response_ids) for call in row.calls),
                "turns": len(turns) or len(rollout.calls),
                "tool_calls": len(turns),
                "tool_errors": sum(turn.result.error is not None for turn in turns),
                "reward_extra_info": {"acc": rollout.reward},
            },
        )


def rollout_name(row: dict[str, Any]) -> str:
    """Return the rollout's name, which is the same in every repetition of the run."""
    return f"{Task.model_validate_json(row['extra_info']['task']).id}/{row['session_id']}"


class VerlPolicy:
    """Policy of one rollout, served by verl; implements `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, loop: FlowAgentLoop, sampling_params: dict[str, Any], name: str) -> None:
        """`name` identifies the rollout within the run and is the same in every repetition of the run."""
        self.loop, self.sampling_params = loop, sampling_params
        self.id = uuid4().hex
        """Shared by all calls, so that verl routes them to the server that has the rollout's prefix in its cache."""
        self._name = f"{loop.config.seed} {name}"
        self._asked: Counter[str] = Counter()

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Sample a reply. Raises PromptTooLong, ChatError."""
        key = digest(request.identity)
        self._asked[key] += 1
        # Derived from the content of the request, not from its position, so that the order of nodes does not matter.
        name = f"{self._name} {key} {self._asked[key]}"
        loop, sampling = self.loop, request.sampling
        prompt_ids, most = loop.fitted(request)
        params = {**self.sampling_params, "max_tokens": most, "logprobs": True}
        if loop.settings.seed_requests:
            params["seed"] = random.Random(name).getrandbits(31)
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        output = await loop.server_manager.generate(request_id=self.id, prompt_ids=prompt_ids, sampling_params=params)
        ids, logprobs = list(output.token_ids), list(output.log_probs or ())
        reply = loop.format.reply(request, name, prompt_ids, ids, logprobs)
        return replace(reply, weights_version=int(output.extra_fields.get("global_steps") or 0))
