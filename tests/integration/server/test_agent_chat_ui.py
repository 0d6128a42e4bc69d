"""LangChain's Agent Chat UI as people use it: its own build, in a headless Chromium, against the real server."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.integration.server.conftest import ROOT, Server

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

BUILT = ROOT / ".venvs" / "chat-ui" / "dist"
WAIT = 60_000
"""Milliseconds, as a last resort."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="make test-chat-ui builds it (needs npm)"),
]


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def ui() -> Iterator[str]:
    """The address of the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=BUILT)) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{files.server_port}"
        files.shutdown()


class Talk:
    """The page, talking to an assistant of the server with these settings."""

    def __init__(self, browser: Any, ui: str, server: Server, **settings: Any) -> None:
        asked = {"graph_id": "agentflow", "context": {"model": "embedded", **settings}}
        made = httpx.post(f"{server.url}/assistants", json=asked, timeout=None).raise_for_status().json()
        self.context = browser.new_context()
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{ui}/?apiUrl={server.url}&assistantId={made['assistant_id']}")

    def ask(self, question: str) -> None:
        self.page.get_by_placeholder("Type your message...").fill(question)
        self.page.keyboard.press("Enter")

    def shows(self, text: str) -> None:
        expect(self.page.get_by_text(text, exact=True).first).to_be_visible(timeout=WAIT)

    def close(self) -> None:
        assert self.errors == []
        self.context.close()


def test_a_conversation_with_its_tool_calls(browser: Any, ui: str, server: Server) -> None:
    talk = Talk(browser, ui, server)
    for question, call, answer in (
        ("How many feet are 3 yards?", "print(3 * 3)", "9"),
        ("How many feet are 5 yards?", "print(5 * 3)", "15"),
    ):
        talk.ask(question)
        talk.shows(call)
        talk.shows(answer)
    talk.page.reload()
    talk.shows("15")
    talk.shows("9")
    talk.close()


@pytest.mark.parametrize(
    ("button", "call", "shown"), [("Accept", "print(3 * 3)", "9"), ("Submit", "print(3 * 30)", "90")]
)
def test_a_call_is_approved_as_it_is_or_changed(
    browser: Any, ui: str, server: Server, button: str, call: str, shown: str
) -> None:
    talk = Talk(browser, ui, server, approve_tools=["python_coder"])
    talk.ask("How many feet are 3 yards?")
    talk.page.get_by_text("Edit/Accept").wait_for()
    if button == "Submit":
        talk.page.locator("textarea").first.fill(call)
    talk.page.get_by_role("button", name=button).click()
    talk.shows(call)
    talk.shows(shown)
    talk.close()


def test_a_call_is_declined_with_a_reason(browser: Any, ui: str, server: Server) -> None:
    talk = Talk(browser, ui, server, approve_tools=["python_coder"], max_turns=1)
    talk.ask("How many feet are 3 yards?")
    talk.page.get_by_placeholder("Your response here...").fill("not now")
    talk.page.get_by_role("button", name="Send Response").click()
    expect(talk.page.get_by_text('"not now"')).to_be_visible(timeout=WAIT)  # in the call's result
    talk.close()
