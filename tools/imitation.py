"""Lines that could be taken for one of our prompts, or of a transcript: they begin with a label such as "Verdict:".

A label is up to nine words, of which one names a part of our prompts or a speaker and the others are words that stand
beside such a name ("new", "note", "2"); marks, bullets and numbers may stand before it, brackets around it, and a colon
or a dash ends it. "System note 2:" is one, "System requirements:" is none.
"""

import re

from agentflow.tools.folding import folded

_SUBJECTS = r"""
    question | analysis | result | observation | verifier | verdict | sub[ _-]{0,4}goal | tool
  | context | planner | executor | generator | analyst | system | assistant | user | human | developer | ai
  | système | sistema | asistente | assistente | assistent | utilisateur | usuario | utente | benutzer | nutzer
  | система | ассистент | пользователь | 系统 | 系統 | 助手 | 用户 | 用戶 | システム | アシスタント | ユーザー
"""
_QUALIFIERS = r"""
    query | queries | questions | results | observations | sub[ _-]{0,4}goals | tools | notes? | notices? | messages?
  | prompts? | outputs? | reply | replies | responses? | instructions? | directives? | commands? | calls? | requests?
  | decisions? | conclusions? | says? | overrides? | reminders? | turns? | steps? | goals? | tasks? | rules? | signals?
  | new | next | updated | final | revised | corrected | actual | real | current | important | urgent | official
  | previous | last | your | the | this | to | from | for | by | of | no\. | number | 's
  | \#?\d{1,4}(?:\.\d{1,3})?[.)]?
"""
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
    ))"""
    ),
    re.MULTILINE | re.VERBOSE,
)
"""In folded text in lower case, in which words are told apart faster than in any case."""


def imitates(text: str) -> bool:
    """Whether a line of `text` begins with a label."""
    seen = folded(text)
    # "result - 1" may be code; before a dash, a label of one word begins with a capital.
    return any(match["bare"] is None or seen[match.start("bare")].isupper() for match in _LINE.finditer(seen.lower()))
