"""The options that several commands share, with the same names, short forms and help in each.

A group is a frozen dataclass that `with_option_groups` turns into options; its methods build the configuration that
`experiments.pipeline` takes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared.completion import program_names
from experiments.cli.shared.limits import Limits as Limits
from experiments.cli.shared.lm_options import LM as LM
from experiments.cli.shared.lm_options import Cache as Cache
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.pipeline.setup import ProgramConfig

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
