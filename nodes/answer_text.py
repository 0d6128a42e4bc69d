"""The answer as a chat shows it: the generator's reply without the label before the answer.

It is read from the whole reply (`shown`), or from the reply as it is written (`AnswerStream`).
"""

import re

from agentflow.nodes.reply_parsing import label_pattern, read_labels, spoken, unfence

LABELS = {"answer": ("final answer", "answer", "the answer")}

HELD = 40
"""Characters of a line that is not complete from which it is shown: a label is shorter."""

_LABEL = label_pattern(LABELS["answer"])
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)


def parse(text: str) -> str:
    """Return the answer alone if it is tagged or labelled, else the whole reply. Never raises."""
    reply = unfence(spoken(text))
    tagged: list[str] = [found.strip() for found in _TAGGED.findall(reply) if found.strip()]
    if tagged:
        return tagged[-1]
    answer = read_labels(reply, LABELS).get("answer", reply)
    match = re.fullmatch(r"(\*\*|__|`|\"|')(?P<inner>[^*_`\"']+)\1", answer)
    return str(match["inner"]).strip() if match else answer


def shown(text: str) -> str:
    """Return the whole reply for a chat: what explains the answer, then the answer. Never raises."""
    answer, reply = parse(text), unfence(spoken(text))
    if _TAGGED.search(reply):
        return _TAGGED.sub(lambda match: match[1].strip(), reply)
    labels = list(_LABEL.finditer(reply))
    ends = [match.start() for match in labels[1:]] + [len(reply)]
    filled = [match for match, end in zip(labels, ends, strict=False) if reply[match.end() : end].strip()]
    if not labels:
        return answer
    if not filled:  # a stream that has come to the label
        return _LABEL.sub("", reply).strip()
    before = _LABEL.sub("", reply[: filled[-1].start()]).strip()
    return f"{before}\n\n{answer}" if before else answer


class AnswerStream:
    """The text of `shown` for a reply that is being written.

    A line is shown when it can no longer begin with a label. If what follows changes text that was shown already, such
    as the second of two labels, nothing more is: the message at the end has the whole.
    """

    def __init__(self) -> None:
        self.reply = ""
        self._shown = ""
        self._read = 0

    def add(self, piece: str) -> str:
        """Take a piece of the reply, and return the text that can be shown after it."""
        self.reply += piece
        unread = len(self.reply) - self._read
        # Each look reads the whole reply, so the time between looks grows with it: the total stays linear.
        if unread < len(self.reply) // 64 or ("\n" not in piece and unread < HELD):
            return ""
        self._read = len(self.reply)
        line = self.reply.rpartition("\n")[2]
        return self._next(self.reply if len(line) > HELD else self.reply.removesuffix(line))

    def end(self) -> str:
        """Return the rest."""
        return self._next(self.reply)

    def _next(self, reply: str) -> str:
        text = shown(reply)
        if not text.startswith(self._shown):
            return ""
        new, self._shown = text.removeprefix(self._shown), text
        return new
