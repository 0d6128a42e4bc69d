"""The readable text of a page or a PDF, extracted by trafilatura or pypdf in the sandbox of python_coder.

A document may be crafted to exhaust time and memory, or to attack a parser written in C. So it is parsed where a
model's programs run: in a forked process with limits on time and memory, without network, files and environment, which
is killed when the caller is cancelled. Where no sandbox works, a separate interpreter with the same limits is used.
That contains an excessive document, but not an exploited parser.
"""

import asyncio
import codecs
import threading
from base64 import b64encode

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.sandbox import plain_subprocess
from agentflow.tools.sandbox.execute import execute, unavailable
from agentflow.tools.sandbox.limits import Limits, Outcome

READERS = ("protego", "pypdf", "trafilatura")
"""Packages of the extra `web`, which read rules for robots, PDFs and pages."""

MAX_CHARACTERS = 1_000_000
MAX_PAGES = 200
"""Maximum number of pages of a PDF."""

LIMITS = Limits(seconds=20.0, memory_bytes=1 << 30, file_bytes=32 << 20, output_bytes=4 * MAX_CHARACTERS + 1)

_ENCODINGS = frozenset(
    codecs.lookup(name).name
    for name in (
        *("utf-8", "utf-16-le", "utf-16-be", "ibm866", "macroman", "mac-cyrillic", "koi8-r", "koi8-u", "cp874"),
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in range(1, 17) if number != 12),
        *("gbk", "gb2312", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "ascii"),
    )
)
"""The encodings of the web (WHATWG, Encoding). Python supports others too, some of which take quadratic time."""
_WESTERN = {codecs.lookup(name).name for name in ("ascii", "latin-1")}
"""Labels that the web treats as Windows-1252."""

_DECODED = "import base64, io\nbody = base64.b64decode({body!r})\n"
_SHOWN = "print(text[:{most}].encode('utf-8', 'replace').decode())\n"
_OF_HTML = """\
import trafilatura
page = body.decode({encoding!r}, 'replace') if {encoding!r} else body
text = trafilatura.extract(page, output_format='markdown', include_comments=False, favor_recall=True) or ''
"""
_OF_PDF = """\
import pypdf
text, pages = '', iter(pypdf.PdfReader(io.BytesIO(body)).pages[:{pages}])
while len(text) < {most} and (page := next(pages, None)):
    text += page.extract_text() + '\\n\\n'
"""


def decode(body: bytes, charset: str) -> str:
    """Return the text in the server's encoding if it is one of the web's, else in UTF-8. Invalid bytes are marked."""
    return body.decode(web_encoding(charset) or "utf-8", "replace")


def web_encoding(charset: str) -> str:
    """Return Python's name of an encoding, or "" for one that browsers do not support."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):  # ValueError: it contains NUL
        return ""
    if name in _WESTERN:
        return "cp1252"
    return name if name in _ENCODINGS else ""


async def text_of_html(body: bytes, charset: str) -> str:
    """Return the page's content without navigation, as Markdown, or "" if there is none.

    `charset` is what the server declares. If it is empty, the page itself often declares one. Raises ToolFailure.
    """
    return await _extracted("page", body, _OF_HTML.format(encoding=web_encoding(charset)))


async def text_of_pdf(body: bytes) -> str:
    """Return the text of the first pages. Raises ToolFailure if it cannot be extracted."""
    return await _extracted("PDF", body, _OF_PDF.format(pages=MAX_PAGES, most=MAX_CHARACTERS))


async def _extracted(what: str, body: bytes, program: str) -> str:
    code = _DECODED.format(body=b64encode(body)) + program + _SHOWN.format(most=MAX_CHARACTERS)
    outcome = await _run(code)
    if outcome.stopped == "timeout":
        raise ToolFailure(ErrorClass.TIMEOUT, f"the {what} could not be read in {LIMITS.seconds:g} seconds")
    if outcome.status or outcome.stopped:
        raise ToolFailure(
            ErrorClass.TOOL_ERROR, f"the {what} could not be read: it is damaged, encrypted or too complex"
        )
    return outcome.stdout


async def _run(code: str) -> Outcome:
    if not await asyncio.to_thread(unavailable):
        return await execute(code, LIMITS)
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(plain_subprocess.run, code, LIMITS, cancelled)
    finally:
        cancelled.set()
