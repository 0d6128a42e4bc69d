"""Lines that imitate a prompt or a transcript: they begin with a label such as "Verdict:".

A label has up to nine words. One of them names a part of this package's prompts or a speaker, and the others are words
used next to such a name ("new", "note", "2"). Marks, bullets and numbers may precede it, brackets may surround it, and
a colon or a dash ends it. "System note 2:" is a label, "System requirements:" is not.
"""

import re

from agentflow.tools.folding import folded

_SUBJECTS = r"""
    question | analysis | result | observation | verifier | verdict | sub[ _-]{0,4}goal | tool
  | context | planner | executor | generator | analyst | system | assistant | user | human | developer | ai
  | système | sistema | asistente | assistente | assistent | utilisateur | usuario | utente | benutzer | nutzer
  | система | ассистент | пользователь | 系统 | 系統 | 助手 | 用户 | 用戶 | システム | アシスタント | ユーザー
"""
_NUMBER = r"\#?\d{1,4}(?:\.\d{1,3})?[.)]?"
_QUALIFIERS = (
    rf"{_NUMBER} | "
    + r"""
    query | queries | questions | results | observations | sub[ _-]{0,4}goals | tools | notes? | notices? | messages?
  | prompts? | outputs? | reply | replies | responses? | instructions? | directives? | commands? | calls? | requests?
  | decisions? | conclusions? | says? | overrides? | reminders? | turns? | steps? | goals? | tasks? | rules? | signals?
  | new | next | updated | final | revised | corrected | actual | real | current | important | urgent | official
  | previous | last | your | the | this | to | from | for | by | of | no\. | number | 's
"""
)
_SYNONYMS = r"sub[ _-]{0,4}task | goal | objective | instruction | command | assessment"
"""Names that other agents use for parts of our prompts. Prose uses them before a dash, so only a colon ends them."""
_LETTERS = r"[ivx]{1,5} | [a-z]"
_MORE = rf"(?:(?:[ _-]{{0,8}}(?:{_SUBJECTS}|{_QUALIFIERS})|[ _-]{{1,8}}(?:{_LETTERS}))(?![^\W\d_]))"
_SEVERAL = rf"""
    (?:(?:{_QUALIFIERS})[ _-]{{1,8}}){{1,4}}(?:{_SUBJECTS}){_MORE}{{0,4}}
  | (?:{_SUBJECTS}){_MORE}{{1,4}}
"""
_ASIDE = r"[ \t*_]*+(?:\([^)\n]{0,40}\))?[ \t*_\])>»]*+"

_LINE = re.compile(
    folded(
        rf"""^(?:_|[^\w\n$@:.{{])*+(?:\(?(?:\d{{1,3}}|[a-z])[.):][^\w\n]{{0,8}})?
    (?: turn[ \t]+\d+[ \t*_:]*$ | (?=\w[\w .#-][^\n:>→-]{{0,160}}[:>→-])
    (?:
        (?:{_SEVERAL} | {_SUBJECTS}){_ASIDE}:
      | (?:{_SEVERAL} | (?P<bare>{_SUBJECTS})){_ASIDE}(?<=[ \t])(?:-{{1,3}}>?|=>|→)[ \t]
      | (?:turns[ ]left|failed){_ASIDE}:
      | (?:(?:{_QUALIFIERS})[ _-]{{1,8}}){{0,2}}(?:{_SYNONYMS})s?(?:[ _-]{{0,8}}{_NUMBER})?{_ASIDE}:
      | (?:task[ _-]{{0,8}}{_NUMBER}|next[ _-]{{1,8}}steps?){_ASIDE}:
      | (?:decision|conclusion|signal){_ASIDE}:[^\w\n]{{0,8}}(?:stop|continue)\b
    ))"""
    ),
    re.MULTILINE | re.VERBOSE,
)
"""Matches folded text in lower case, which is faster than a case-insensitive search."""


def imitates(text: str) -> bool:
    """Return whether a line of `text` begins with a label."""
    seen = folded(text)
    # "result - 1" may be code, so a label of one word before a dash has to begin with a capital.
    return any(match["bare"] is None or seen[match.start("bare")].isupper() for match in _LINE.finditer(seen.lower()))
