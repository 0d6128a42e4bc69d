"""The calibration that holds for a run, and where it takes the verifier's place."""

from collections.abc import Sequence

from agentflow.graph.confidence import Calibration, Call, stop_signals
from agentflow.graph.context import Context
from agentflow.graph.models.loading import Fingerprinted, aload_model
from agentflow.graph.state import Action, Plan, State, Turn


async def applicable_calibration(question: str, context: Context) -> Calibration | None:
    """Return the run's calibration; None if there is none for the question or for the weights of the local models."""
    calibration = context.calibrated()
    if calibration is None or not calibration.covers(question):
        return None
    for spec, digest in calibration.checkpoints.items():
        model = await aload_model(spec)
        if not isinstance(model, Fingerprinted) or model.fingerprint != digest:
            return None
    return calibration


def calls_of(memory: Sequence[Turn]) -> list[Call]:
    """Return the turns as signals read them."""
    return [_call(turn.plan, turn.action) for turn in memory]


def _call(plan: Plan, action: Action) -> Call:
    return Call(plan.tool, plan.context, action.arguments, action.result)


async def stop_probability(state: State, plan: Plan, action: Action, context: Context) -> float | None:
    """Return the probability that the run may stop after this turn, if it is high enough for `Context.skip_verifier`;
    None if the verifier has to be asked, as after any error.
    """
    needed = context.needed_for_stop
    if needed is None or action.result.error:
        return None
    calibration = await applicable_calibration(state.question, context)
    if calibration is None or calibration.stop is None:
        return None
    calls = [*calls_of(state.memory), _call(plan, action)]
    probability = calibration.stop.probability(stop_signals(state.question, calls))
    return probability if probability >= needed else None
