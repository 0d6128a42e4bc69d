"""The base of the errors that users see."""

import pickle

from agentflow.graph.models.spec import ModelError


def test_an_error_crosses_a_process_with_its_code() -> None:
    error = pickle.loads(pickle.dumps(ModelError("no such\nmodel", code="unknown_model", configuration=True)))
    assert (str(error), error.code, error.configuration) == ("no such model", "unknown_model", True)
    assert ModelError("down").code == ""
