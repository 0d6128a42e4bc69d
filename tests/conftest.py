"""Settings of every test: strict checkpoints, Ctrl-C, and property tests that a busy machine cannot make flaky."""

import os
import signal

from hypothesis import settings

os.environ["LANGGRAPH_STRICT_MSGPACK"] = (
    "true"  # read when langgraph is first imported: only the state's types come back
)

# A shell ignores Ctrl-C for what it starts in the background, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("agentflow", deadline=None)
settings.load_profile("agentflow")
