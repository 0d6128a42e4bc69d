"""Delimiters of chat messages, as chat templates write them: `<|im_start|>`, `</s>`, `[INST]`.

A server that tokenizes a conversation as one string also recognises such a delimiter inside a message's text, and
treats what follows it as another message. This module breaks delimiters in a text by inserting a space after their
first character. They are recognised by their form, and by a tokenizer's own list where available (`tokens`). `folding`
looks through invisible characters, full-width characters and the like.
"""

import re
from functools import lru_cache
from itertools import pairwise

from agentflow.tools.folding import folded, origins

_NAMES = r"""
    s | [be]o[smptd] | pad | unk | mask | cls | sep | sop | think(?:ing)? | escape | repo_name | file_sep
  | tools | (?:tool|function)s?[_-]?(?:call|response|result|output|declaration|code)s?
  | (?:start|begin|end)_(?:of|function)_\w{1,30} | image_soft_token | fim_\w{1,20} | arg_(?:key|value)
  | (?:unused|reserved|extra_id|special)_?\d{1,5}
  | (?:system|assistant|developer)(?:[_-](?:prompt|message|note|reminder|instruction)s?)?
"""
_BRACKETED = r"""
    INST | SYSTEM_PROMPT | MODEL_SETTINGS | AVAILABLE_TOOLS | TOOL_\w{1,20} | CALL_ID | IMG_\w{1,10} | BEGIN_AUDIO
  | [gs]MASK | e~
"""
_WORDS = "MASK|CLS|SEP|PAD|UNK|BOS|EOS|ARGS|THINK|IMG|AUDIO|PREFIX|SUFFIX|MIDDLE"
"""Ordinary words in brackets, which are delimiters only in capitals."""

_BORDER = re.compile(
    rf"""
    <(?=</?SYS>>)
    | <(?=[/|\w"-])(?=
        /?\|[^|<>\n]{{1,60}}\|[^|<>\s]{{0,60}}>       # <|im_start|>, and what looks like it
      | (?:function|parameter)=[\w.:-]{{1,60}}>
      | /?\|[\w/"-]{{1,40}}> | [\w/"-]{{1,40}}\|>     # <|turn>, <turn|>
      | (?=/?[\w:-]{{1,60}}>)/?(?:[a-z]{{1,20}}:)?(?:{_NAMES})(?:_token)?>
    )
    | (?<![\w(])\[(?=[/\w])(?=/?(?:{_BRACKETED})\])
    | \[(?=[/\w])(?=/?(?-i:{_BRACKETED}|{_WORDS})[\[\]](?!\.\.\.))
    | \](?=~!?b[\[\]])
    """,
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
"""The first character of a delimiter in a folded text. Each alternative looks ahead over a bounded distance."""


def unbordered(text: str, tokens: frozenset[str] = frozenset()) -> str:
    """Return `text` with its delimiters broken, including those in `tokens`.

    Text without delimiters stays unchanged.
    """
    seen = folded(text)
    starts = {match.start() for match in _BORDER.finditer(seen)}
    if tokens:
        starts.update(match.start() for match in _own(tokens).finditer(seen))
    if not starts:
        return text
    if seen is text:
        places = sorted(starts)
    else:
        index = origins(text)
        places = sorted({index[start] for start in starts})
    ends = [0, *(place + 1 for place in places), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(ends))


@lru_cache(maxsize=16)
def _own(tokens: frozenset[str]) -> re.Pattern[str]:
    words = sorted(filter(lambda word: len(word) > 1, map(folded, tokens)), key=len, reverse=True)
    return re.compile("|".join(f"{re.escape(word[0])}(?={re.escape(word[1:])})" for word in words) or r"(?!)")
