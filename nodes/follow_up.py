"""A follow-up: the analyst reads the conversation and states a question that stands by itself.

It does so only if something was said before the question, so a first question costs no further call. Memory is reset
with each question: what the conversation established reaches the other modules in the question's words.
"""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from agentflow.graph.context import Context
from agentflow.graph.conversation import asked, exchanged
from agentflow.graph.models.loading import ask
from agentflow.graph.models.providers import corpus_of
from agentflow.nodes.attachments import with_attachments
from agentflow.nodes.reply_parsing import read_labels, without_loop
from agentflow.tools.redaction import cut

PROMPT = """\
You rewrite the last message of a conversation so that it can be understood without the rest. Replace what refers to \
the conversation, such as "it", "there" or "the same for", by the names, numbers and texts that are meant. Keep \
everything else, such as the wanted form of the answer. If the message is complete in itself, repeat it unchanged. Do \
not answer it. End with:
Standalone question: the rewritten message"""

MAX_MESSAGE, MAX_CONVERSATION = 4_000, 24_000
"""Characters of the conversation that are read: of one message, and of the last messages together."""

LABELS = {"question": ("standalone question",)}


def messages(question: str, before: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the conversation that asks for the standalone question; `before` is what was said before it."""
    return [SystemMessage(PROMPT), HumanMessage(f"{_transcript(before)}\n\nLast message: {question}")]


def _transcript(before: Sequence[BaseMessage]) -> str:
    lines: list[str] = []
    left = MAX_CONVERSATION
    for message in reversed(before):
        speaker = "Assistant" if isinstance(message, AIMessage) else "User"
        lines.append(f"{speaker}: {cut(message.text.strip(), MAX_MESSAGE)}")
        left -= len(lines[-1])
        if left < 0:
            break
    return "\n\n".join(reversed(lines))


def parse(text: str, question: str) -> str:
    """Return the standalone question, or `question` if the reply has none. Never raises."""
    return read_labels(without_loop(text), LABELS).get("question", question)


async def standing_alone(question: str, conversation: Sequence[BaseMessage], context: Context) -> str:
    """Return the question of a conversation as one that stands by itself. Raises ModelError as `ask` does."""
    last = asked(conversation)
    before = [message for message in exchanged(conversation) if message is not last]
    # A model that knows one encyclopedia alone was never trained on conversations.
    if not before or corpus_of(context.model_name_of("analyst").partition(":")[0]):
        return question
    prompt = with_attachments(messages(question, before), conversation)
    return parse(await ask(context, "analyst", prompt), question)
