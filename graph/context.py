"""The settings of a run. LangGraph Studio shows every field with its title, help and range."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from langgraph.runtime import Runtime
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from agentflow.graph.confidence import AUTO, OFF, Calibration, read_calibration
from agentflow.graph.models.providers import Profile, calibration_of, corpus_of, profile_of
from agentflow.graph.prompts import Prompted, check
from agentflow.tools.encyclopedia.choice import LIVE
from agentflow.tools.providers.choice import provider_of
from agentflow.tools.search_cache import parse_mode
from agentflow.tools.search_settings import ENGINES, SearchSettings

Module = Literal["analyst", "planner", "executor", "verifier", "generator", "tools"]
MODULES: tuple[Module, ...] = get_args(Module)
"""The modules that call a model; "tools" is the model behind the tools that need one."""

DEFAULT_TOOLS = ("base_generator", "python_coder", "wikipedia_search")
"""Tools that work everywhere without a key; others are enabled by name."""

TRAINED_PLANNER = "embedded:trained"
"""The planner's model for `embedded`. All other modules use the seed, with which this planner was trained."""


class Sampling(BaseModel):
    """Sampling parameters of one module. They are sent as set here; None leaves one to the server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = Field(default=None, ge=0, le=2, description="0: always the likeliest token.")
    top_p: float | None = Field(default=None, gt=0, le=1, description="Probability of the tokens to draw from.")
    max_tokens: int | None = Field(default=None, ge=1, description="Longest reply.")
    stop: tuple[str, ...] | None = Field(default=None, description="Texts at which a reply ends.")
    seed: int | None = Field(default=None, description="Seed of a reproducible sample, if the server supports it.")


DETERMINISTIC = Sampling(temperature=0.0, max_tokens=2048)


def _is_model(model: object) -> object:
    from langchain_core.language_models import BaseChatModel  # late: it takes half a second

    if not isinstance(model, str | BaseChatModel) and not is_decision_model(model):
        raise ValueError("a model is provider:model, or a LangChain chat model")
    return model


def is_decision_model(model: object) -> bool:
    """Return whether `model` is one of LangChain's decision models, which answer with probabilities and no text."""
    decisions = sys.modules.get("langchain_core.decisions.base")  # there since langchain-core 1.8
    return decisions is not None and isinstance(model, decisions.BaseDecisionModel)


def name_of(model: "Model") -> str:
    """Return the spec, or `provider:model` as LangChain's traces name a chat model."""
    if isinstance(model, str):
        return model
    if is_decision_model(model):
        return f"{getattr(model, '_provider', '')}:{getattr(model, 'model', '')}"
    params = model._get_ls_params()
    return f"{params.get('ls_provider') or type(model).__name__}:{params.get('ls_model_name') or 'unnamed'}"


if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    Model = str | BaseChatModel
else:
    Model = Annotated[
        Any, PlainValidator(_is_model), PlainSerializer(name_of, return_type=str), WithJsonSchema({"type": "string"})
    ]


class Context(BaseModel):
    """Settings of one run; nothing else configures it, neither globals nor the environment."""

    model_config = ConfigDict(extra="forbid")

    model: Model = Field(
        default="embedded",
        title="Model",
        description="Model of every module that names none: embedded, or provider:model, or provider:model@base_url "
        "(openai, vllm, dashscope, together, ollama, llamacpp, lmstudio, openai-compatible, and the providers of "
        "LangChain, such as anthropic). In Python, a LangChain chat model too.",
        examples=["embedded", "openai:gpt-4o-mini", "ollama:qwen2.5:7b"],
    )
    models: dict[Module, Model] = Field(
        default_factory=dict,
        title="Models per module",
        description="Overrides `model` for single modules, for example "
        "{'planner': 'vllm:my-planner@http://127.0.0.1:8000/v1'}.",
    )
    sampling: dict[Module, Sampling] = Field(
        default={},
        title="Sampling per module",
        description="temperature, top_p, max_tokens, stop and seed of single modules. "
        "Default: temperature 0, 2048 tokens; those of its own for a chat model that was passed in Python.",
    )
    prompts: dict[Prompted, str] = Field(
        default_factory=dict,
        title="Prompts per module",
        description="System messages of single modules in place of their own. An embedded planner was trained on its "
        "own, to the letter.",
    )
    profile: Literal["auto", "paper", "lean"] = Field(
        default="auto",
        title="Profile",
        description="How the modules speak to their models. paper: the texts that the embedded model was trained on, "
        "with an analysis first and verdicts in prose. lean: short replies and fewer calls. auto: paper where "
        "the run's or the module's model is the embedded one, else lean.",
    )
    analyst: Literal["auto", "on", "off"] = Field(
        default="auto",
        title="Analyst",
        description="Whether a run begins with an analysis of the question. auto: in the paper's profile only.",
    )
    opening: Literal["auto", "search", "plan"] = Field(
        default="auto",
        title="Opening",
        description="How a run begins. search: with a search for the question, if a tool finds passages; plan: with "
        "the planner's first step. auto: search, in the lean profile only.",
    )
    result_role: Literal["user", "tool"] = Field(
        default="user",
        title="Role of results",
        description="Role of the messages that tell the planner what a tool brought. tool: its earlier plans keep "
        "their thoughts, which the templates of models that think then show, so that a trajectory stays one row.",
    )
    tools: list[str] = Field(
        default=list(DEFAULT_TOOLS),
        title="Tools",
        description="Tools that the planner may choose from, by name; granted ones of your own by module:attribute or "
        "mcp:... too.",
        min_length=1,
    )
    corpus: str = Field(
        default="auto",
        title="Wikipedia source",
        description="Encyclopedia of wikipedia_search: live (the MediaWiki API), atlas (the embedded model's "
        "encyclopedia), the path of a local index, or the address of a retrieval server. "
        "auto: atlas when the planner is the embedded model, else live.",
        examples=["auto", "live", "atlas"],
    )
    search_engine: str = Field(
        default="auto",
        title="Search engine",
        description=f"Search engine of google_search: {', '.join(ENGINES)}. auto: the first one whose key is set.",
        examples=["auto", *ENGINES[:3]],
    )
    search_cache: str = Field(
        default="off",
        title="Search cache",
        description="Cache of search results: off, use (request and store missing ones), replay (never request). "
        "MODE:FILE names the file.",
        examples=["off", "use", "replay"],
    )
    max_turns: int = Field(default=10, ge=1, le=100, title="Turns", description="Most planner turns of one run.")
    max_seconds: float = Field(
        default=300.0,
        gt=0,
        title="Seconds",
        description="Time for one run. A turn under way is cut short to keep a fifth of it, a minute at most, for the "
        "answer.",
    )
    memory_tokens: int = Field(
        default=16000,
        ge=200,
        title="Memory budget",
        description="Tokens that tool results may take in memory; each turn gets an equal share, and is cut to it.",
    )
    structured_output: Literal["auto", "always", "off"] = Field(
        default="auto",
        title="Structured output",
        description="Enforced form of plans, calls and verdicts, where the server supports it. auto: a reply that "
        "cannot be read is asked for again in that form; always: every such reply; off: never.",
    )
    calibration: str = Field(
        default="auto",
        title="Calibration",
        description="Where the confidence of answers comes from: a file of agentflow calibrate, or the folder of its "
        "run; off; auto: what ships with the model, as with the embedded one.",
    )
    abstain: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        title="Abstain",
        description="Withhold an answer unless this share of such answers is right (0.9: nine of ten). "
        "Needs a calibration.",
    )
    skip_verifier: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        title="Skip the verifier",
        description="Stop without asking the verifier after turns like those of which this share (0.95: nineteen of "
        "twenty) lost no right answer by it. Needs a calibration, and the profile lean.",
    )
    approve_tools: list[str] = Field(
        default=[],
        title="Approve tools",
        description="Tools whose every call waits for a person to approve, edit or refuse it ('*' for all). "
        "Needs a checkpointer.",
    )

    @field_validator("search_engine")
    @classmethod
    def _is_an_engine(cls, name: str) -> str:
        provider_of(name)
        return name

    @field_validator("search_cache")
    @classmethod
    def _is_a_mode(cls, spec: str) -> str:
        parse_mode(spec)
        return spec

    @field_validator("prompts")
    @classmethod
    def _are_prompts(cls, prompts: dict[Prompted, str]) -> dict[Prompted, str]:
        for module, text in prompts.items():
            check(module, text)
        return prompts

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if other := [name for name in MODULES if name != "verifier" and is_decision_model(self.model_of(name))]:
            raise ValueError(f"a decision model writes no text: it can be the verifier or a judge, not the {other[0]}")
        self.check_promises()
        return self

    def calibrated(self) -> Calibration | None:
        """Return the calibration of these settings; None if there is none.

        Raises ValueError if `calibration` names one that cannot be read or was fitted for other settings.
        """
        if self.calibration == OFF:
            return None
        shipped = calibration_of(self.model_name_of("planner").partition(":")[0])
        path = shipped if self.calibration == AUTO else Path(self.calibration)
        if path is None:
            return None
        found = read_calibration(path)
        models: dict[str, str] = {module: self.model_name_of(module) for module in MODULES}
        problem = found.mismatch(models, self.tools, self.profile_of("planner"))
        if problem and self.calibration != AUTO:
            raise ValueError(f"{path} was fitted for other settings: {problem}; fit one: agentflow calibrate")
        return None if problem else found

    def check_promises(self) -> None:
        """Raise ValueError if the calibration does not hold for these settings, or cannot promise what they ask for."""
        if self.calibration not in (AUTO, OFF):
            self.calibrated()
        _ = self.needed_confidence, self.needed_for_stop

    @property
    def needed_confidence(self) -> float:
        """Return the confidence from which a run answers, 0 if it always does. Raises ValueError if none will do."""
        return 0.0 if self.abstain is None else self._threshold("abstain", self.abstain)

    @property
    def needed_for_stop(self) -> float | None:
        """Return the probability from which a turn is the last one, None if the verifier is always asked. Raises
        ValueError if none will do.
        """
        if self.skip_verifier is None:
            return None
        if self.profile_of("verifier") == "paper":
            raise ValueError(
                "skip_verifier is for the profile lean; in the paper's, the answer is made from the verifier's words"
            )
        return self._threshold("skip_verifier", self.skip_verifier)

    def _threshold(self, setting: Literal["abstain", "skip_verifier"], promise: float) -> float:
        if (found := self.calibrated()) is None:
            raise ValueError(
                f"{setting} needs a calibration for these models and tools; fit one on a run with agentflow calibrate, "
                "and name it in calibration"
            )
        fitted = found if setting == "abstain" else found.stop
        if fitted is None or (threshold := fitted.threshold(promise)) is None:
            known = f"{len(fitted.held_out) if fitted else 0:,} held-out {'answers' if fitted is found else 'turns'}"
            raise ValueError(
                f"the calibration cannot promise {promise:g} with {known}; choose less, or calibrate on more questions"
            )
        return threshold

    @classmethod
    def of(cls, runtime: Runtime[Any]) -> "Context":
        """Return the run's settings, or defaults if none were passed or a parent graph's context arrives instead."""
        return runtime.context if isinstance(runtime.context, cls) else cls()

    def model_of(self, module: Module) -> Model:
        """Return the module's model. For the embedded model, the planner has a separate checkpoint."""
        model = self.models.get(module, self.model)
        return TRAINED_PLANNER if module == "planner" and model == "embedded" else model

    def model_name_of(self, module: Module) -> str:
        """Return the spec of the module's model; `provider:model` if it is a chat model."""
        return name_of(self.model_of(module))

    def profile_of(self, module: Module) -> Profile:
        """Return how `module` speaks to its model: as in the paper if that, or `model`, is the embedded one."""
        if self.profile != "auto":
            return self.profile
        specs = [model for model in (self.model_of(module), self.model) if isinstance(model, str)]
        # The embedded model may be served by another program: vllm:embedded@URL.
        names = [name for spec in specs for name in re.split("[:@]", spec)[:2]]
        return "paper" if "paper" in map(profile_of, names) else "lean"

    @property
    def analyses(self) -> bool:
        """Return whether a run begins with an analysis."""
        return self.profile_of("analyst") == "paper" if self.analyst == "auto" else self.analyst == "on"

    @property
    def opens_with_search(self) -> bool:
        """Return whether a run begins with a search for the question, if a tool finds passages."""
        return self.profile_of("planner") == "lean" if self.opening == "auto" else self.opening == "search"

    def sampling_of(self, module: Module) -> Sampling:
        """Return the module's parameters. A spec's model has the deterministic default for each that is not set."""
        own = self.sampling.get(module)
        if not isinstance(self.model_of(module), str):
            return own or Sampling()
        return DETERMINISTIC.model_copy(update=own.model_dump(exclude_none=True)) if own else DETERMINISTIC

    @property
    def result_tokens(self) -> int:
        """Return the tokens that memory keeps of one tool result."""
        return self.memory_tokens // self.max_turns

    @property
    def answer_seconds(self) -> float:
        """Return the part of `max_seconds` that is kept for the answer."""
        return min(60.0, self.max_seconds / 5)

    @property
    def corpus_name(self) -> str:
        """Return `corpus` with "auto" resolved."""
        if self.corpus != "auto":
            return self.corpus
        return corpus_of(self.model_name_of("planner").partition(":")[0]) or LIVE

    @property
    def search(self) -> SearchSettings:
        """Return the settings of the search tools."""
        return SearchSettings(self.corpus_name, self.search_engine, self.search_cache)
