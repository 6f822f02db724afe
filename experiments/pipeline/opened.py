"""A program opened with all it needs, which remembers where it came from: what `verihop.load` returns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.defaults import with_defaults
from experiments.pipeline.setup import (
    ProgramConfig,
    open_lm,
    open_program,
    open_questions,
    open_retriever,
    open_similarity,
)
from experiments.runs.config import LMConfig
from programs.artifacts.bindings import notify
from programs.inference import Answerer
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.metrics.metric import Metric
    from programs.lms.connect import Connection
    from signatures.types import Retriever

    Questions = Sequence[Question] | Path | str


class OpenedProgram(Answerer):
    """An answerer whose artifacts can say which index they belong to.

    Args:
        program: The program.
        connection: The LM.
        config: What it was opened from, with defaults in place of what was not named.
    """

    def __init__(self, program: "dspy.Module", connection: "Connection", config: ProgramConfig = ProgramConfig()):
        super().__init__(program, connection)
        self.config = config

    @property
    def retrieve(self) -> "Retriever | None":
        """The retriever; None for a program that has none."""
        found: Retriever | None = getattr(self.program, "retrieve", None)
        return found

    def provenance(self) -> dict[str, str]:
        """Return the reranker by name, so that who loads an artifact need not name it; nothing without one."""
        return {} if self.config.rerank is None else {"rerank": self.config.rerank}

    def compiled_into(self, artifact: Path) -> "OpenedProgram":
        """Return what a compilation of this program has frozen, with its retriever and LM."""
        from programs.artifact import load, needs_similarity

        similarity = getattr(self.program, "similarity", None) or (
            open_similarity() if needs_similarity(artifact) else None
        )
        compiled = load(artifact, self.retrieve, connection=self.connection, similarity=similarity)
        return OpenedProgram(
            compiled, self.connection, replace(self.config, program=None, preset=None, artifact=artifact)
        )


def open_answerer(
    config: ProgramConfig, *, index: "Retriever | Path | str | None" = None, lm: "Connection | str | None" = None
) -> OpenedProgram:
    """Return a program with its retriever and LM, where nothing is named with the defaults of the command line.

    Args:
        config: Which program; its index is that of `index`.
        index: An index folder, or an opened retriever.
        lm: An LM that is connected, or its id.

    Raises:
        UserError: Something cannot be opened, or a program that retrieves has no index.
    """
    retrieve = None if isinstance(index, Path | str) else index
    if retrieve is not None and config.rerank is not None:
        raise UserError(f"A retriever is used as it is: name the reranker {config.rerank} where you open its index.")
    config = replace(config, index=Path(index) if isinstance(index, Path | str) else None)
    lm_config = LMConfig(lm if lm is None or isinstance(lm, str) else lm.id)
    config, lm_config, note = with_defaults(config, lm_config, retriever_is_open=retrieve is not None)
    if note:
        notify([note])
    retrieve = open_retriever(config) if retrieve is None else retrieve
    connection = open_lm(lm_config) if lm is None or isinstance(lm, str) else lm
    return OpenedProgram(open_program(config, retrieve, connection), connection, config)


@dataclass(frozen=True)
class Improvement:
    """What a program is to be compiled or tuned on.

    Args:
        opened: The program.
        questions: To learn from, or to score trials on.
        others: Validation questions of a compilation, training questions of a study; may be empty.
        config: `metric`, `index` and `provenance` of the configuration.
    """

    opened: OpenedProgram
    questions: "list[Question]"
    others: "list[Question]"
    config: dict[str, Any]


def improvement(
    program: Answerer,
    questions: "Questions",
    split: str | None,
    others: "Questions",
    metric: "Metric | str",
    names: tuple[str, str],
) -> Improvement:
    """Return what a program is to be compiled or tuned on.

    Args:
        program: Of one that does not know its index, the artifact does not name it.
        questions: A file, or questions.
        split: Of `questions`; None for all.
        others: A file, or questions.
        metric: A name, or a metric.
        names: Under which the artifact stores the paths of the two files.

    Raises:
        UserError: A file is missing or broken, no question is selected, or the metric is unknown.
    """
    from optimizers.metrics.typed.opened import typed_metric

    opened = with_origin(program)
    paths = {name: str(path_of(each) or "") for name, each in zip(names, (questions, others), strict=True)}
    return Improvement(
        opened,
        read(questions, split),
        read(others) if others else [],
        {
            "metric": typed_metric(metric) if isinstance(metric, str) else metric,
            "index": opened.config.index,
            "provenance": {**paths, **opened.provenance()},
        },
    )


def with_origin(program: Answerer) -> OpenedProgram:
    """Return the answerer itself if it knows what it was opened from, else one that says it was nothing."""
    return program if isinstance(program, OpenedProgram) else OpenedProgram(program.program, program.connection)


def read(questions: "Questions", split: str | None = None) -> "list[Question]":
    """Return the questions of a file, or those given; of one split if it is named.

    Raises:
        UserError: The file is missing or broken, or no question is selected.
    """
    from corpora.questions import select

    if isinstance(questions, Path | str):
        return open_questions(Path(questions), split=split)
    return select(questions, split=split)


def path_of(questions: "Questions") -> Path | None:
    """Return the file that questions are read from; None if they are given."""
    return Path(questions) if isinstance(questions, Path | str) else None
