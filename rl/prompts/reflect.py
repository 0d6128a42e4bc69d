"""The reflection model: from the calls of a node and its present prompt to another prompt."""

from collections.abc import Sequence

from gepa.strategies.instruction_proposal import InstructionProposalSignature
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agentflow.graph.models.loading import reply_of
from agentflow.graph.run.meter import Meter
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.prompts.feedback import Record
from agentflow.rl.prompts.folder import Reflection
from agentflow.rl.prompts.targets import Target

TRIES = 2
"""Times that a prompt is asked for, if the first one cannot be used."""


def request(node: str, text: str, records: Sequence[Record], placeholders: str) -> str:
    """Return what the reflection model is asked, in the words of `gepa`."""
    asked = InstructionProposalSignature.prompt_renderer(
        {"current_instruction_doc": text, "dataset_with_feedback": records, "prompt_template": None}
    )
    about = f"\n\nThe assistant is '{node}', one of several that work on a task together; a program reads its replies, "
    about += "so keep every rule on their form."
    if placeholders:
        about += f" Keep these placeholders, which the program fills in, letter for letter: {placeholders}"
    return f"{asked}{about}"


async def reflect(
    model: BaseChatModel, node: str, text: str, records: Sequence[Record], target: Target
) -> list[Reflection]:
    """Return the prompts that the model wrote; only the last one may be usable. Raises ModelError."""
    found: list[Reflection] = []
    conversation: list[BaseMessage] = [HumanMessage(request(node, text, records, target.placeholders(node)))]
    for _ in range(TRIES):
        meter = Meter()
        reply = str((await reply_of(model, conversation, {"callbacks": [Observer(meter)]})).text)
        new = InstructionProposalSignature.output_extractor(reply.strip())["new_instruction"]
        refused = _refused(target, node, text, new)
        found.append(Reflection(node=node, text=new, refused=refused, usage=meter.usage()))
        if not refused:
            break
        again = f"This cannot be used: {refused}. Write the whole prompt again, within ``` blocks."
        conversation += [AIMessage(reply), HumanMessage(again)]
    return found


def _refused(target: Target, node: str, old: str, new: str) -> str:
    if new == old:
        return "the prompt is the present one"
    try:
        target.check(node, new)
    except ValueError as error:
        return str(error)
    return ""
