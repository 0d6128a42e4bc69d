import pytest

from agentflow.rl.chat import TokenReply
from agentflow.rl.replay_log import Entry, Kind, as_answer


def entry(kind: Kind, *logprobs: float) -> Entry:
    reply = TokenReply(
        text="", prompt_ids=[1], token_ids=[2] * len(logprobs), logprobs=list(logprobs), finish_reason="stop"
    )
    return Entry(rollout="t/0", kind=kind, request=f"{kind} {logprobs}", answer=as_answer(reply))


@pytest.mark.filterwarnings("ignore")
def test_a_fork_begins_where_its_trunk_was_least_sure() -> None:
    pytest.importorskip("verl")
    from benchmarks.forks import before_least_sure, trunk_of

    # The last reply is less probable as a whole than the second, and more probable by token.
    told = [
        *(entry("policy", -0.1), entry("model"), entry("tool")),
        *(entry("policy", -0.9, -0.5), entry("tool"), entry("policy", -0.6, -0.6, -0.6), entry("reward")),
    ]
    assert before_least_sure(told) == told[:3]
    assert before_least_sure(told[:3]) == []
    assert before_least_sure([]) == []
    assert [trunk_of(f"train-7/{number}") for number in range(4)] == [f"train-7/{number}" for number in (0, 0, 2, 2)]
