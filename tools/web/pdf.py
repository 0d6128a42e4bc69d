"""The text of a PDF, read by pypdf in a process of its own.

A PDF from the web may be made to take all time and memory, and what parses it is pure Python in one process with the
agent: so it is another process, with limits on both, without the environment, and killed when the caller gives up.
`python -m agentflow.tools.web.pdf` is that process: a PDF on standard input, its text on standard output.
"""

import asyncio
import contextlib
import io
import os
import sys

from agentflow.tools.result import ErrorClass, ToolFailure

SECONDS = 20
MAX_MEMORY = 1 << 30
MAX_PAGES = 200
MAX_CHARACTERS = 1_000_000


async def text_of_pdf(body: bytes) -> str:
    """The text of the first pages; raises ToolFailure if there is none to be had."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentflow.tools.web.pdf"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8:replace"},
    )
    try:
        async with asyncio.timeout(SECONDS):
            text, _ = await process.communicate(body)
    except TimeoutError as error:
        raise ToolFailure(ErrorClass.TIMEOUT, f"the PDF could not be read in {SECONDS} seconds") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise ToolFailure(ErrorClass.TOOL_ERROR, "the PDF could not be read: it is damaged, encrypted or too complex")
    return text.decode("utf-8", "replace")


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with contextlib.suppress(ValueError, OSError):  # macOS knows it and refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def main() -> None:
    """Reads a PDF and prints its text. Whatever a damaged one makes pypdf raise ends the process with a status."""
    _limit()
    from pypdf import PdfReader

    left = MAX_CHARACTERS
    for page in PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages[:MAX_PAGES]:
        text = page.extract_text()[:left]
        print(text, end="\n\n")
        left -= len(text)


if __name__ == "__main__":
    main()
