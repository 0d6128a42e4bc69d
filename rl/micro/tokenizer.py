"""The micro model's tokenizer: byte-level BPE (`recipes/micro/vocabulary.py`), and ChatML.

Text and control tokens are separate: `encode` never yields a special token, whatever the text, so that no tool result
or question can forge a message; only `encode_chat` adds them. It encodes each content separately, so the ids of a
conversation are an exact prefix of the ids of the same conversation with more messages.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

ROLES = ("system", "user", "assistant")

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (PAD, START, END)
"""Special tokens in the order of their ids: padding 0, start of message 1, end of message 2, which ends a reply."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML as in `encode_chat`, for programs that load the checkpoint with transformers or vLLM."""

TOOL_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\n' }}"
    "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + '\n\n' }}{% endif %}"
    "{{ 'Tools:' }}{% for tool in tools %}{{ '\n' + (tool['function'] | tojson) }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{% if not (tools and loop.first and message['role'] == 'system') %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% for call in message['tool_calls'] %}{{ '<tool_call>'"
    " + ({'name': call['function']['name'], 'arguments': call['function']['arguments']} | tojson)"
    " + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""CHAT_TEMPLATE with tools after the system prompt, calls in the Hermes format, and messages of the role `tool`."""


class MicroTokenizer:
    """Converter of text and conversations to ids, and of ids to text."""

    def __init__(self, tokenizer: Tokenizer, template: str = CHAT_TEMPLATE) -> None:
        """`template` is the chat template that `save` writes."""
        self._template = template
        tokenizer.encode_special_tokens = True  # "<|im_end|>" inside a text is text
        self._tokenizer = tokenizer
        self.pad_id, self.start_id, self.end_id = (_id(tokenizer, token) for token in SPECIAL_TOKENS)
        self.special_ids = frozenset((self.pad_id, self.start_id, self.end_id))
        self.longest_token = max(map(len, tokenizer.get_vocab(with_added_tokens=False)))
        """Maximum number of bytes of a token, and thus of characters."""
        self._newline = self.encode("\n")

    @classmethod
    def load(cls, directory: str | Path) -> "MicroTokenizer":
        """Read `tokenizer.json`, and the chat template of `tokenizer_config.json` where there is one.

        Raises FileNotFoundError if `tokenizer.json` is missing, ValueError if a file is invalid.
        """
        path, config = (Path(directory) / name for name in ("tokenizer.json", "tokenizer_config.json"))
        text = path.read_text(encoding="utf-8")
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the library raises no narrower class for a malformed file
            raise ValueError(f"{path} is not a tokenizer: {error}") from error
        known = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
        return cls(tokenizer, known.get("chat_template") or CHAT_TEMPLATE)

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.json`, and `tokenizer_config.json` for transformers' AutoTokenizer.

        The folder must not hold a config.json of Qwen2: transformers 5 would then split text as Qwen2 does.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._tokenizer.save(str(directory / "tokenizer.json"))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD,
            "eos_token": END,
            "clean_up_tokenization_spaces": False,
            "chat_template": self._template,
        }
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (directory / "tokenizer_config.json").write_text(text, encoding="utf-8")

    @property
    def vocab_size(self) -> int:
        """Number of tokens, the special ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text, without special tokens. Lone surrogates become '?'."""
        clean = text.encode("utf-8", errors="replace").decode("utf-8")
        return list(self._tokenizer.encode(clean, add_special_tokens=False).ids)

    def encode_chat(self, messages: Sequence[tuple[str, str]], generation_prompt: bool = True) -> list[int]:
        """Return the ids of (role, content) messages in ChatML; `generation_prompt` adds the opening of the reply.

        Raises ValueError for a role that is not in ROLES.
        """
        ids: list[int] = []
        for role, content in messages:
            ids += [*self._opening(role), *self.encode(content), self.end_id, *self._newline]
        return ids + self._opening("assistant") if generation_prompt else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without special tokens; invalid UTF-8 becomes U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def _opening(self, role: str) -> list[int]:
        if role not in ROLES:
            raise ValueError(f"there is no role {role!r}, only {', '.join(ROLES)}")
        return [self.start_id, *self.encode(f"{role}\n")]


def _id(tokenizer: Tokenizer, token: str) -> int:
    index = tokenizer.token_to_id(token)
    if index is None:
        raise ValueError(f"the tokenizer lacks the special token {token}")
    return int(index)
