from agentflow.evals.atlas.world import split_of
from agentflow.rl.planner import reward
from benchmarks.everyday import everyday


def test_questions_of_the_splits_differ_and_are_scored_by_their_value() -> None:
    app = everyday()
    train, test = app.tasks("train", 40), app.tasks("test", 40)
    assert app.tasks("train", 10) == train[:10]
    assert {split_of(task.question) for task in train} == {"train"}
    assert {split_of(task.question) for task in test} == {"test"}
    assert len({task.question for task in train + test}) == 80
    assert [reward(task, {"answer": task.gold}) for task in test] == [1.0] * 40
    assert reward(test[0], {"answer": f"{test[0].gold}1"}) == 0.0
