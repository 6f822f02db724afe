"""Compile or tune a program that was opened, and say what the commands say."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compile import note_without_demonstrations, notes_on_questions, stopped_text
from experiments.pipeline.corpus_notes import study_notes
from experiments.pipeline.opened import OpenedProgram, with_origin
from experiments.pipeline.setup import lm_beside, metric_of, path_of, questions_of
from programs.artifacts.loading import notify

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.pipeline.tuning.results import Found
    from optimizers.metrics.metric import Metric
    from programs.inference import Answerer


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
    program: "Answerer",
    questions: Any,
    split: str | None,
    others: Any,
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
        UserError: A file is missing or broken, no question is selected, the metric is unknown, or an argument is of a
            wrong kind.
    """
    opened = with_origin(program)
    paths = {name: str(path_of(each) or "") for name, each in zip(names, (questions, others), strict=True)}
    return Improvement(
        opened,
        questions_of(questions, split),
        questions_of(() if others is None else others),
        {
            "metric": metric_of(metric),
            "index": opened.config.index,
            "provenance": {**paths, **opened.provenance()},
        },
    )


def compile_opened(given: Improvement, out: Path, settings: dict[str, Any], **how: bool) -> OpenedProgram:
    """Compile a program into `out` and return what was frozen; issues as notices what `verihop compile` notes.

    Args:
        given: What is compiled, and on which questions.
        out: Folder of the artifact.
        settings: Further fields of `CompileConfig`; teacher and prompt also as ids.
        **how: `resume`, `overwrite` and `progress` of `compile_program`.

    Raises:
        UserError: See `compile_program`; or an argument is of a wrong kind.
        TypeError: A setting is unknown.
    """
    from experiments.pipeline.compile import compile_program
    from experiments.pipeline.compiling.config import CompileConfig

    opened, out = given.opened, out.absolute()
    settings = dict(settings)
    for role in ("teacher", "prompt"):
        settings[role] = lm_beside(role, settings.get(role), opened.connection)
    config = CompileConfig(**given.config, **settings)
    notify(notes_on_questions(opened.program, given.questions, given.others, config, opened.connection.id))
    artifact = compile_program(
        opened.program, given.questions, given.others, config, connection=opened.connection, out=out, **how
    )
    found = (note_without_demonstrations(artifact, given.questions), stopped_text(artifact.optimizer))
    notify([text for text in found if text])
    return opened.compiled_into(out)


def tune_opened(given: Improvement, out: Path, settings: dict[str, Any], **how: bool) -> "Found":
    """Tune a program in `out` and return what the trials say; issues as notices what `verihop tune` notes.

    Args:
        given: What is tuned, and on which questions.
        out: Folder of the study.
        settings: Further fields of `TuneConfig`.
        **how: `resume`, `overwrite` and `progress` of `tune_program`.

    Raises:
        UserError: See `tune_program`.
        TypeError: A setting is unknown.
    """
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.tune import tune_program

    opened = given.opened
    config = TuneConfig(**given.config, **settings)
    notify(study_notes(opened.program, given.questions, given.others, opened.connection.id))
    found = tune_program(
        opened.program,
        given.questions,
        config,
        connection=opened.connection,
        out=out.absolute(),
        trainset=given.others,
        **how,
    )
    if found.stopped:
        notify([f"Stopped: {found.stopped} Go on with resume=True and a larger budget."])
    return found
