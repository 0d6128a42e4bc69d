"""Settings of every test: strict checkpoints, and property tests that a busy machine cannot make flaky."""

import os

from hypothesis import settings

os.environ["LANGGRAPH_STRICT_MSGPACK"] = (
    "true"  # read when langgraph is first imported: only the state's types come back
)

settings.register_profile("agentflow", deadline=None)
settings.load_profile("agentflow")
