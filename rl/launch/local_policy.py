"""A policy from a folder on this machine, sampled by transformers, to try an app without an engine."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentflow.rl.apps.trainable import AppError
from agentflow.rl.micro.chat_model import SHIPPED
from agentflow.rl.policy.chat import ChatError, ChatRequest, TokenReply
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.policy import PromptTooLong
from agentflow.rl.rollout.template import folder_on_disk, load_tokenizer
from agentflow.rl.settings import TrainingSettings


class LocalPolicy:
    """Policy of one process, which samples one reply at a time; an `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, name: str, settings: TrainingSettings, *, forms: bool = True) -> None:
        """Load a folder of a Hugging Face model, or `embedded[:NAME]`. Raises AppError, TemplateError.

        Without `forms`, it refuses to reply as JSON, as a model without tools refuses those.
        """
        folder = folder_of(name)
        tokenizer = load_tokenizer(folder)
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            self._model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise AppError(
                f"{folder} holds no model that transformers can load ({error})", code="unreadable_model"
            ) from error
        self.format = ChatFormat(tokenizer, settings.tool_parser, settings.template_options)
        self._temperature, self._max_tokens = settings.temperature, settings.response_tokens
        self._forms, self._turn = forms, asyncio.Lock()
        self._replies = 0

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Sample a reply. Raises PromptTooLong, ChatError."""
        if request.form and not self._forms:
            raise ChatError("a node asks for JSON, which this model does not write", code="no_tools")
        prompt_ids = self.format.prompt_ids(request)
        room = int(self._model.config.max_position_embeddings) - len(prompt_ids)
        if room < 1:
            raise PromptTooLong(f"a prompt of {len(prompt_ids)} tokens is more than the model reads")
        most = min(request.sampling.max_tokens or self._max_tokens, self._max_tokens, room)
        async with self._turn:
            ids, logprobs = await asyncio.to_thread(self._sample, prompt_ids, most, request.sampling.stop)
            self._replies += 1
            name = f"reply {self._replies}"
        return self.format.reply(request, name, prompt_ids, ids, logprobs)

    def _sample(self, prompt_ids: list[int], most: int, stop: Sequence[str] | None) -> tuple[list[int], list[float]]:
        import torch

        prompt = torch.tensor([prompt_ids])
        sampling = {"do_sample": True, "temperature": self._temperature, "top_p": 1.0, "top_k": 0}
        with torch.inference_mode():
            found = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=most,
                stop_strings=stop and list(stop),
                tokenizer=self.format.tokenizer,
                eos_token_id=self.format.tokenizer.eos_token_id,
                pad_token_id=self.format.tokenizer.eos_token_id,
                return_dict_in_generate=True,
                output_scores=True,
                **sampling,
            )
        ids = found.sequences[0, len(prompt_ids) :]
        scores = torch.cat(found.scores).float().log_softmax(dim=-1)
        return ids.tolist(), scores.gather(1, ids[:, None])[:, 0].tolist()


def start_folder(start: str) -> Path:
    """Return the folder of the model that a training starts from; for one that is not on this machine, no folder."""
    return SHIPPED.get(start) or (folder_of(start) if start.startswith("embedded") else folder_on_disk(start))


def folder_of(spec: str) -> Path:
    """Return the folder of a model: FOLDER, `embedded:FOLDER`, `embedded:NAME`, or `embedded`, the seed."""
    provider, _, name = spec.partition(":")
    if provider != "embedded":
        return Path(spec).expanduser().absolute()
    return SHIPPED.get(name) or Path(name).expanduser().absolute()
