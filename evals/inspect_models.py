"""Models between Inspect and the graph, both ways; in the extra `inspect`.

- `inspect:planner` is a spec of ours, for Inspect's model of the role `planner`, else its `--model`. Inspect logs each
  call with its role, counts its tokens, and applies its limits and caches.
- `agentflow/embedded:seed` is a model of Inspect, for our spec `embedded:seed`. The embedded models can play roles, and
  are the default if Inspect is given no model.
"""

from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import span
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from agentflow.graph.context import Context, Module, Sampling
from agentflow.graph.models.loading import aload_model, complete
from agentflow.graph.models.spec import ModelError

JUDGE = "judge"
"""Role of the model that decides where rules cannot."""


def role_spec(role: str) -> str:
    """Return the spec of Inspect's model for `role`."""
    return f"inspect:{role}"


def model_of_role(role: str) -> Model:
    """Return Inspect's model for `role`, else the evaluation's model, else our default."""
    found = get_model(role=role)
    if found.api.model_name != "none":
        return found
    module: Module = "verifier" if role == JUDGE else role  # type: ignore[assignment]  # roles are our modules
    return get_model(f"agentflow/{Context().model_of(module)}", role=role)


class InspectModel(BaseChatModel):
    """Inspect's model of a role as a LangChain chat model."""

    role: str
    sampling: Sampling

    @property
    def _llm_type(self) -> str:
        return "inspect"

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("Inspect's models are asked asynchronously, as the graph does")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        async with span(self.role):
            output = await model_of_role(self.role).generate(
                [_to_inspect(one) for one in messages], config=self._config()
            )
        used = output.usage or ModelUsage()
        reply = AIMessage(
            output.completion,
            response_metadata={"model_name": output.model},
            usage_metadata=UsageMetadata(
                input_tokens=used.input_tokens, output_tokens=used.output_tokens, total_tokens=used.total_tokens
            ),
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _config(self) -> GenerateConfig:
        """Return the parameters that the run sets. Inspect sets the others, for example with `--temperature`."""
        stop = list(self.sampling.stop) if self.sampling.stop else None
        own = self.sampling.model_dump(include={"temperature", "top_p", "max_tokens"}, exclude_none=True)
        return GenerateConfig(stop_seqs=stop, **own)


def load(name: str, sampling: Sampling) -> BaseChatModel:
    """Load the model of the role `name`: entry point `inspect`. Raises ModelError."""
    if not name:
        raise ModelError("inspect needs a role, as inspect:planner", configuration=True)
    return InspectModel(role=name, sampling=sampling)


def _to_inspect(message: BaseMessage) -> ChatMessage:
    kinds = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
    return kinds[message.type](content=message.text)


@modelapi(name="agentflow")
class AgentFlowAPI(ModelAPI):
    """A model of ours as Inspect's `agentflow/SPEC`."""

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Return the model's reply as text, without tools. Raises ModelError."""
        sampling = Sampling(
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            stop=tuple(config.stop_seqs) if config.stop_seqs else None,
        )
        model = await aload_model(self.model_name, sampling)
        meter = _Usage()
        text = await complete(model, [_to_langchain(one) for one in input], {"callbacks": [meter]})
        output = ModelOutput.from_content(self.model_name, text)
        output.usage = meter.total()
        return output


class _Usage(UsageMetadataCallbackHandler):
    """Token counts of one call."""

    def total(self) -> ModelUsage:
        counts = list(self.usage_metadata.values())
        return ModelUsage(
            input_tokens=sum(one["input_tokens"] for one in counts),
            output_tokens=sum(one["output_tokens"] for one in counts),
            total_tokens=sum(one["total_tokens"] for one in counts),
        )


def _to_langchain(message: ChatMessage) -> BaseMessage:
    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    made: BaseMessage = kinds[message.role](message.text)
    return made
