"""The options that several commands share, with the same names, short forms and help in each.

A group is a frozen dataclass that `with_option_groups` turns into options; its methods build the configuration that
`experiments.pipeline` takes.
"""

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from experiments.cli.shared.completion import program_names
from optimizers.metrics.names import COMPILED
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.pipeline.setup import ProgramConfig
    from experiments.runs.config import LMConfig
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection


@dataclass(frozen=True)
class Limits:
    """The budget of LM calls."""

    PANEL: ClassVar[str] = "Budget"
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            envvar="VERIHOP_BUDGET",
            help="Stop after this much, e.g. --budget calls=500 usd=0.2: calls (LM calls), tokens "
            "(estimated if the LM reports none), usd, seconds (also in the middle of a call). Cached replies are free.",
            show_default=False,
        ),
    ] = None

    def budget(self) -> "Budget | None":
        """Return the budget; None without a limit.

        Raises:
            UserError: A limit is unknown, is no number, or is named twice.
        """
        from programs.lms.calls.budget import Budget

        found: dict[str, Any] = parse_limits(self.limits, "--budget")
        return Budget(**found) if found else None


def parse_limits(stated: list[str] | None, flag: str) -> dict[str, float]:
    """Return limits such as calls=500 by name.

    Raises:
        UserError: A limit is unknown, is no number, or is named twice.
    """
    found: dict[str, float] = {}
    for part in " ".join(stated or ()).replace(",", " ").split():
        name, value = _limit(part, flag)
        if name in found:
            raise UserError(f"{flag} names {name} twice: name it once.")
        found[name] = value
    return found


def _limit(part: str, flag: str) -> tuple[str, float]:
    """Return name and value of a limit."""
    name, _, text = part.partition("=")
    kinds: dict[str, type] = {"calls": int, "tokens": int, "usd": float, "seconds": float}
    try:
        value: float = kinds[name](text.replace("_", ""))
    except (KeyError, ValueError):
        raise UserError(
            f"{flag} takes {', '.join(f'{each}=NUMBER' for each in kinds)}, got {part!r}. Example: {flag} "
            "calls=500 usd=0.2."
        ) from None
    if not value > 0:
        raise UserError(f"{flag} {name} must be above 0, got {text}.")
    return name, value


Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        envvar="VERIHOP_CACHE",
        help="Read and write cached replies and judgements.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class LM:
    """Which LM, and how it is called."""

    PANEL: ClassVar[str] = "LM"
    lm: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_LM",
            help="embedded; embedded:FOLDER for an adapter or merged weights, embedded:base for the untrained model "
            "(base-8bit to compare a trained one with), embedded:exact or embedded:exact:FOLDER to compute in float32; "
            "simulated, simulated:SEED, gguf:PATH, a DSPy id such as openai/gpt-4o-mini, or a model on --api-base; by "
            "default the LM of --artifact if there is one, else embedded.",
            show_default=False,
        ),
    ] = None
    api_base: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_API_BASE",
            help="Base URL of an OpenAI-compatible server, e.g. http://localhost:8000/v1.",
            show_default=False,
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_API_KEY_ENV",
            help="Environment variable that contains the server's API key.",
            show_default=False,
        ),
    ] = None
    model_type: Annotated[
        str,
        typer.Option(
            envvar="VERIHOP_MODEL_TYPE",
            help="chat, or text for a completion model (no chat template) served at --api-base.",
        ),
    ] = "chat"
    temperature: Annotated[
        float | None,
        typer.Option(
            envvar="VERIHOP_TEMPERATURE",
            min=0,
            max=2,
            help="Sampling temperature; by default 0, if the LM allows it.",
            show_default=False,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_MAX_TOKENS", min=1, help="Longest reply of the LM, in tokens.", show_default=False
        ),
    ] = None
    context_size: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_CONTEXT_SIZE",
            min=512,
            help="Context window of the LM, in tokens; longer prompts are cut. Detected if possible.",
            show_default=False,
        ),
    ] = None

    reasoning: Annotated[
        str,
        typer.Option(
            envvar="VERIHOP_REASONING",
            help="How much the LM thinks before it answers: off, low, medium, high, or auto (the LM's own default; "
            "yes/no questions without thinking where the server can turn it off).",
        ),
    ] = "auto"
    thinking_tokens: Annotated[
        int | None,
        typer.Option(
            envvar="VERIHOP_THINKING_TOKENS",
            min=1,
            help="Tokens for thinking in each reply of an LM that thinks, added to --max-tokens; by default 4096, or "
            "half of a smaller context.",
            show_default=False,
        ),
    ] = None
    server: Annotated[
        str | None,
        typer.Option(
            envvar="VERIHOP_SERVER",
            help="What runs at --api-base: vllm, sglang, llamacpp, ollama, lmstudio, ovms or openai (any other); by "
            "default the server is asked.",
            show_default=False,
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            envvar="VERIHOP_RETRIES",
            min=0,
            help="How often a call is repeated after a transient failure, e.g. HTTP 500 or an unreadable reply.",
        ),
    ] = 3
    retry_timeout: Annotated[
        float,
        typer.Option(
            envvar="VERIHOP_RETRY_TIMEOUT",
            min=0,
            help="Seconds for which a call is repeated while the server limits the rate (429, 503) or is down; these "
            "repetitions do not count as --retries.",
        ),
    ] = 600.0
    timeout: Annotated[
        float, typer.Option(envvar="VERIHOP_TIMEOUT", min=0.1, help="Seconds that one call to a server may take.")
    ] = 120.0
    cache: Cache = True

    def config(self, threads: int = 1) -> "LMConfig":
        """Return the options as a configuration, for a command that processes `threads` questions in parallel."""
        from experiments.runs.config import LMConfig
        from programs.lms.calls.retry import connections_for

        same = {name: value for name, value in asdict(self).items() if name != "lm"}
        return LMConfig(self.lm, **same, connections=connections_for(threads))


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N questions.", show_default=False)]
Split = Annotated[str | None, typer.Option(help="Use only questions of this split, e.g. dev.", show_default=False)]
Threads = Annotated[
    int, typer.Option(min=1, max=256, envvar="VERIHOP_THREADS", help="Questions processed in parallel.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
Index = Annotated[Path | None, typer.Option(help="Index folder built by `verihop index`.", show_default=False)]
OtherRetriever = Annotated[
    str | None,
    typer.Option(
        help="A retriever of the index other than the one it was built for, or your own: module:name.",
        show_default=False,
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option(
        help="Rerank the retrieved passages: own, own-light (faster), none, or a cross-encoder by folder or name. "
        "By default none; own with preset small chosen by default; for an artifact, what it was compiled with.",
        show_default=False,
    ),
]
Precision = Annotated[
    str | None, typer.Option(help="Of the embedder: f32 (default); faster: bf16, int8.", show_default=False)
]
MetricNames = Annotated[
    str, typer.Option(help="Names, separated by commas; `verihop metrics` lists them. Own ones: module:name.")
]
Oracle = Annotated[
    str | None,
    typer.Option(
        help="Entailment oracle of the metrics that need one (`verihop metrics` lists them): lexical (default), "
        "semantic, calibrated, likelihood, lm, lm:LM, seq2seq:MODEL or cross-encoder:MODEL.",
        show_default=False,
    ),
]
JudgeLM = Annotated[
    str | None, typer.Option(help="LM that decides acc[judge] and hallucination[halluqa].", show_default=False)
]
JudgeApiBase = Annotated[str | None, typer.Option(help="Base URL of the judge's server.", show_default=False)]
JudgeApiKeyEnv = Annotated[
    str | None,
    typer.Option(help="Environment variable that contains the judge server's API key.", show_default=False),
]


@dataclass(frozen=True)
class Output:
    """What is printed."""

    PANEL: ClassVar[str] = "Output"
    quiet: Quiet = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class Replacing(Output):
    """What is printed, and whether existing output is replaced."""

    overwrite: Overwrite = False


@dataclass(frozen=True)
class Selection:
    """Which questions of a file are used."""

    PANEL: ClassVar[str] = "Questions"
    split: Split = None
    limit: Limit = None


@dataclass(frozen=True)
class Execution:
    """How questions are processed."""

    PANEL: ClassVar[str] = "Execution"
    threads: Threads = 8
    resume: Resume = False


@dataclass(frozen=True, kw_only=True)
class SeededExecution(Execution):
    """How questions are processed, with random choices."""

    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class _Program:
    """Options of every program; subclasses add its name."""

    PANEL: ClassVar[str] = "Program"
    preset: Annotated[
        str | None,
        typer.Option(
            help="Named set of knobs; `verihop programs` lists those of each program. By default paper, or small with "
            "the embedded LM.",
            show_default=False,
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A knob as name=value, repeatable, e.g. --set k=4.", show_default=False),
    ] = None
    index: Index = None
    retriever: OtherRetriever = None
    rerank: Rerank = None
    precision: Precision = None

    def config(self) -> "ProgramConfig":
        """Return the options as a configuration."""
        from experiments.pipeline.setup import ProgramConfig

        named = {name: value for name, value in vars(self).items() if name != "settings"}
        return ProgramConfig(**named, knobs=parse_knobs(self.settings))


@dataclass(frozen=True, kw_only=True)
class UncompiledProgram(_Program):
    """A program of the catalog."""

    program: Annotated[
        str,
        typer.Option(
            autocompletion=program_names,
            help="Program by name, or your own: module:Class; `verihop programs` lists them.",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class AnyProgram(_Program):
    """A program of the catalog, or a compiled one."""

    program: Annotated[
        str | None,
        typer.Option(
            autocompletion=program_names,
            help="Program by name, or your own: module:Class; `verihop programs` lists them. By default rag with the "
            "embedded LM. Beside --artifact: the own program that it holds.",
            show_default=False,
        ),
    ] = None
    artifact: Annotated[
        Path | None, typer.Option(help="A program compiled by `verihop compile`.", show_default=False)
    ] = None
    accept_probability_mode: Annotated[
        bool,
        typer.Option(
            "--accept-probability-mode",
            help="Use the artifact although its thresholds were set for another way of computing P(yes).",
        ),
    ] = False


def parse_knobs(settings: Sequence[str] | None, *, flag: str = "--set", example: str = "--set k=4") -> dict[str, Any]:
    """Return `name=value` settings by name; a value that is JSON (3, 0.5, true) is parsed, any other is text.

    Raises:
        UserError: A setting has no name or no equals sign.
    """
    knobs: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise UserError(f"{flag} takes name=value, got {setting!r}. Example: {example}.")
        try:
            knobs[name.strip()] = json.loads(text)
        except json.JSONDecodeError:
            knobs[name.strip()] = text
    return knobs


@dataclass(frozen=True)
class Optimization:
    """How the program is optimized."""

    PANEL: ClassVar[str] = "Optimizer"
    optimizer: Annotated[
        str,
        typer.Option(help="How; `verihop optimizers` says what each does, which options it has and what it fits."),
    ] = "bootstrap"
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="An argument of the optimizer as name=value, repeatable, e.g. candidates=4.",
            show_default=False,
        ),
    ] = None
    metric: Annotated[str, typer.Option(help="The metric to optimize.")] = COMPILED
    accept: Annotated[
        float, typer.Option(min=0.001, max=1, help="Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, typer.Option(min=0, max=64, help="Maximum number of demonstrations per predictor.")] = 4

    def options(self) -> dict[str, Any]:
        """Return the arguments of the optimizer by name."""
        return parse_knobs(self.arguments, flag="--option", example="--option candidates=4")


@dataclass(frozen=True)
class OtherLMs:
    """LMs other than the one that answers; their calls count in the same budget."""

    PANEL: ClassVar[str] = "Other LMs"
    teacher: Annotated[
        str | None, typer.Option(help="LM that makes the demonstrations; by default --lm.", show_default=False)
    ] = None
    teacher_api_base: Annotated[
        str | None, typer.Option(help="Base URL of the teacher's server.", show_default=False)
    ] = None
    teacher_api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that contains the key of the teacher's server.", show_default=False),
    ] = None
    prompt_lm: Annotated[
        str | None, typer.Option(help="LM that writes the instructions; by default --lm.", show_default=False)
    ] = None
    prompt_api_base: Annotated[str | None, typer.Option(help="Base URL of its server.", show_default=False)] = None
    prompt_api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that contains its key.", show_default=False)
    ] = None

    def opened(self, task_lm: "LMConfig", connection: "Connection") -> "dict[str, Connection]":
        """Return the connections by their fields in the configuration; they share the budget of `connection`."""
        from experiments.pipeline.setup import open_lm
        from experiments.runs.config import LMConfig

        found = {}
        roles = {
            "teacher": (self.teacher, self.teacher_api_base, self.teacher_api_key_env),
            "prompt": (self.prompt_lm, self.prompt_api_base, self.prompt_api_key_env),
        }
        for role, (lm_id, api_base, key) in roles.items():
            if lm_id is not None:
                calling = LMConfig(lm_id, api_base, key, **task_lm.calling())
                found[role] = open_lm(calling, connection.lm.budget)
            elif api_base or key:
                flag = "--teacher" if role == "teacher" else "--prompt-lm"
                raise UserError(f"A URL or key of another LM needs its name: add {flag}.")
        return found


@dataclass(frozen=True)
class Validation:
    """Questions that candidates are compared on and the result is scored on."""

    PANEL: ClassVar[str] = "Validation"
    val: Annotated[
        Path | None,
        typer.Option(
            help="Questions to compare candidates on, and to score the result on. By default half of the training "
            "questions, at most 200, if the optimizer compares candidates, else none.",
            show_default=False,
        ),
    ] = None
    val_split: Annotated[str | None, typer.Option(help="Use only this split of --val.", show_default=False)] = None
    val_limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N questions of --val.", show_default=False)
    ] = None

    def questions(self) -> "list[Question]":
        """Return the validation questions; empty without --val."""
        from experiments.pipeline.setup import open_questions

        if self.val is None:
            if self.val_split is not None or self.val_limit is not None:
                raise UserError("--val-split and --val-limit select questions of --val: name that file, too.")
            return []
        return open_questions(self.val, split=self.val_split, limit=self.val_limit)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` for Typer: each parameter that is a dataclass becomes one option per field.

    A field is declared like a parameter of a Typer command, `name: Annotated[type, typer.Option(...)] = default`, and
    its option is shown in a panel of `--help` titled by the dataclass's `PANEL`. An option with a variable is a setting
    (`experiments.cli.shared.settings`), unless the dataclass names it in `NO_SETTINGS`. The command is called with
    instances of the dataclasses.

    Raises:
        TypeError: Two options have the same name.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        flat += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)] if group is None else _options_of(group)
    names = [parameter.name for parameter in flat]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"{command.__name__} has several options named {', '.join(sorted(repeated))}.")

    @functools.wraps(command)
    def run(**values: Any) -> None:
        arguments = {
            name: group(**{option: values.pop(option) for option in _names(group) if option in values})
            for name, group in groups.items()
        }
        command(**values, **arguments)

    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _names(group: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(group)]


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=_in_panel(
                hints[field.name], group.PANEL, setting=field.name not in getattr(group, "NO_SETTINGS", ())
            ),
        )
        for field in dataclasses.fields(group)
    ]


def _in_panel(hint: Any, panel: str, *, setting: bool) -> Any:
    """Return the annotation with its option shown in a panel of `--help`, and without its variable if it is no setting
    here.
    """
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    for place, extra in enumerate(extras):
        if isinstance(extra, OptionInfo):
            extras[place] = copy(extra)
            extras[place].rich_help_panel = panel
            if not setting:
                extras[place].envvar = None
    return Annotated[(kind, *extras)]


@dataclass(frozen=True)
class Recording:
    """What is recorded beside the answers."""

    PANEL: ClassVar[str] = "Replay"
    record_branches: Annotated[
        bool,
        typer.Option(
            "--record-branches",
            help="Then also ask what other thresholds would ask, and record it all, for `verihop tune --replay`. For "
            "programs with gates: cov_rag, retro_rag, self_completion, cascade.",
        ),
    ] = False
    branches: Annotated[int, typer.Option(min=1, help="Branches of a question at most, its own included.")] = 8

    def most(self) -> int:
        """Return the most branches of a question; 0 records nothing."""
        return self.branches if self.record_branches else 0

    def processes(self, named: int | None) -> int | None:
        """Return the number of processes: a run that is recorded has one unless another number is named."""
        return 1 if self.record_branches and named is None else named
