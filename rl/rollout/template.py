"""Check of a model's chat template for training, on a CPU and before a GPU is needed.

The planner's prompt is append-only (see `agentflow.nodes.planner`), so that training can pack a trajectory into one
row. A chat template can prevent that: it may drop the thinking of earlier turns, trim messages, or end a reply with
another token than the model samples. This check renders a planner conversation turn by turn and packs it as the trainer
does (`agentflow.rl.rollout.packing`); turns that do not pack are computed again in training.
"""

import os
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentflow.graph.models.reply import THOUGHTS
from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.nodes.planner import describe_tools, messages
from agentflow.rl.policy.borders import Tokenizer
from agentflow.rl.policy.chat import ChatError, ChatRequest, TemplateMessage, template_message
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.calls import Call
from agentflow.rl.rollout.packing import TrainingSample, pack
from agentflow.rl.rollout.tool_calls import THOUGHT as THOUGHT_OF_CALL
from agentflow.rl.rollout.tool_calls import ToolCertificate, certify_calls
from agentflow.tools.card import ToolCard
from agentflow.tools.coded_error import CodedError
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import one_line

QUESTION = "Is the tower of the old harbour taller than the lighthouse on the cape?"
STEPS = (
    ("Find the height of the tower", "The tower of the old harbour", "The tower is 41 metres tall."),
    ("Find the height of the lighthouse", "The lighthouse on the cape", "The lighthouse is 38 metres tall."),
    ("Compare 41 metres with 38 metres", "Tower: 41 m; lighthouse: 38 m", "The tower is 3 metres taller."),
)
THOUGHT_TEXT = "One height is missing, and a search can tell it."
THOUGHT = f"<think>\n{THOUGHT_TEXT}\n</think>\n\n"
OPENED = re.compile(rf"(?:{'|'.join(opens for opens, _ in THOUGHTS)})\Z", re.IGNORECASE)
SHOWN = 40
"""Characters of the sampled and of the rendered text that are shown at a break."""


class TemplateError(CodedError, ValueError):
    """A tokenizer cannot be used, or has no chat template; `str()` is one line that explains why."""


@dataclass(frozen=True)
class Packed:
    """Training cost of a trajectory of len(STEPS) turns."""

    rows: int
    """Number of rows; 1 if every turn extends the previous one."""
    tokens: int
    """Tokens of all rows."""
    least: int
    """Tokens of the last turn, prompt and reply: the length of a single row."""
    breaks: str
    """The first prefix break: the sampled text, and the text that the template renders instead. Empty without one."""

    @property
    def ratio(self) -> float:
        """Ratio of computed tokens to those of a single row."""
        return self.tokens / self.least


@dataclass(frozen=True)
class Certificate:
    """Result of the check of a chat template."""

    plain: Packed
    thinking: Packed
    """Cost with replies that begin with a <think> block."""
    as_tools: Packed | None
    """The same where results have the role of tools, and plans keep their thoughts (`Context.result_role`); None if the
    template refuses that."""
    ends_itself: bool
    """True if the template ends a reply with the tokenizer's EOS token."""
    opens_thinking: bool
    """True if the prompt itself opens a <think> block for the reply."""
    calls: Mapping[str, ToolCertificate]
    """What it does to tool calls, in replies that think and in those that do not; empty if it has no tools."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer in a folder without network access. Raises TemplateError."""
    if not folder.is_dir():
        raise TemplateError(
            f"{folder} is no folder; name one with tokenizer.json and tokenizer_config.json", code="no_folder"
        )
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(os.fspath(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TemplateError(
            f"{folder} holds no tokenizer that can be read ({one_line(error, 160)})", code="no_tokenizer"
        ) from error
    if not tokenizer.chat_template:
        raise TemplateError(
            f"the tokenizer of {folder} has no chat template; training needs an instruct model's", code="no_template"
        )
    return cast(Tokenizer, tokenizer)


def folder_on_disk(name: str) -> Path:
    """Return the folder of a model: itself, or the one where a hub's tokenizer of that name has been downloaded."""
    folder = Path(name).expanduser().absolute()
    if folder.is_dir() or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return folder
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, "tokenizer_config.json")
    except ValueError:  # no name that a hub has
        return folder
    return Path(found).parent if isinstance(found, str) else folder


def certify(tokenizer: Tokenizer) -> Certificate:
    """Check the tokenizer's chat template on a planner conversation. Raises ChatError if that is rejected."""
    known = ChatFormat(tokenizer)
    opens_thinking = _opens_thinking(known)
    closed = known.render([*_conversation([]), {"role": "assistant", "content": "x"}], ChatRequest([]), prompt=False)
    ending = tokenizer.encode(closed, add_special_tokens=False)
    tools = "tools" in str(tokenizer.chat_template)
    kinds = {"tool calls": "", "calls after a thought": THOUGHT_OF_CALL} if tools else {}
    return Certificate(
        plain=_packed(known, ""),
        thinking=_packed(known, THOUGHT),
        as_tools=_packed_as_tools(known),
        ends_itself=tokenizer.eos_token_id in ending[-3:],
        opens_thinking=opens_thinking,
        calls={name: certify_calls(known, thought) for name, thought in kinds.items()},
    )


def _opens_thinking(known: ChatFormat) -> bool:
    return OPENED.search(known.render(_conversation([]), ChatRequest([])).rstrip()) is not None


def _packed_as_tools(known: ChatFormat) -> Packed | None:
    try:
        return _packed(known, THOUGHT, "tool")
    except ChatError:
        return None


def _packed(known: ChatFormat, thought: str, result_role: str = "user") -> Packed:
    """Pack the trajectory whose replies begin with `thought`, as the trainer would."""
    tokenizer = known.tokenizer
    calls: list[Call] = []
    turns: list[Turn] = []
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    for number, (goal, context, found) in enumerate(STEPS, start=1):
        said = f"Sub-Goal: {goal}\nTool: wikipedia_search\nContext: {context}"
        prompt = array("i", _prompt(known, turns, [call.response_ids for call in calls], result_role))
        opened = result_role == "tool" and _opens_thinking(known)
        begun = thought.removeprefix("<think>\n") if opened else thought  # what the prompt opens is not sampled
        sampled = array("i", [*tokenizer.encode(begun + said, add_special_tokens=False), *end])
        calls.append(Call("", "planner", number - 1, prompt, sampled, array("f", [0.0] * len(sampled)), "stop", 0))
        apart = THOUGHT_TEXT if result_role == "tool" else ""
        turns.append(_turn(number, said if apart else thought + said, apart, goal, context, found))
    rows = pack(calls, limit=max(len(call.prompt_ids) + len(call.response_ids) for call in calls))
    return Packed(
        rows=len(rows),
        tokens=sum(len(row.prompt_ids) + len(row.response_ids) for row in rows),
        least=len(calls[-1].prompt_ids) + len(calls[-1].response_ids),
        breaks=_first_break(tokenizer, rows),
    )


def _turn(number: int, reply: str, thought: str, goal: str, context: str, found: str) -> Turn:
    plan = Plan(text=reply, thought=thought, sub_goal=goal, tool="wikipedia_search", context=context)
    verdict = Verdict(analysis="One height is still missing.", signal="continue")
    return Turn(turn=number, plan=plan, action=Action(result=ToolResult(status="ok", output=found)), verdict=verdict)


def _conversation(turns: list[Turn], result_role: str = "user") -> list[TemplateMessage]:
    card = ToolCard(name="wikipedia_search", description="Finds an article and what it says.")
    analysis, tools = "Two heights are to be compared.", describe_tools([card])
    return [*map(template_message, messages(QUESTION, analysis, turns, tools, 10, result_role=result_role))]


def _prompt(
    known: ChatFormat, turns: list[Turn], replies: Sequence[Sequence[int]], result_role: str = "user"
) -> list[int]:
    """Return the ids of a turn's prompt, with earlier replies as they were sampled, as the trainer writes it."""
    conversation = _conversation(turns, result_role)
    places = (place for place, message in enumerate(conversation) if message["role"] == "assistant")
    return known.prompt_ids(ChatRequest(conversation, sampled=dict(zip(places, replies, strict=True))))


def _first_break(tokenizer: Tokenizer, rows: Sequence[TrainingSample]) -> str:
    """Describe the first difference between sampled tokens and the next prompt; "" if there is none."""
    known = rows[0].prompt_ids + rows[0].response_ids
    for row in rows:
        if row.mismatch:
            shown = slice(row.mismatch.position, row.mismatch.position + SHOWN)
            sampled, written = (tokenizer.decode(ids[shown].tolist())[:SHOWN] for ids in (known, row.prompt_ids))
            return f"sampled {sampled!r}, and the next prompt has {written!r}"
    return ""
