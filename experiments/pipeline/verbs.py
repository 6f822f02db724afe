"""The one door: what `verihop eval`, `compile` and `tune` do, for the commands and for `import verihop` alike.

Each function takes what was named, opens what is needed (metrics and questions before the LM, so that mistakes are told
before anything is loaded), does the work, and returns what was made of it; printing is left to its caller.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.passages import read_passages
from experiments.pipeline import setup
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.corpus_notes import run_notes, study_notes
from experiments.pipeline.opened import AnswererSpec, OpenedProgram, with_origin
from experiments.pipeline.parallel.process_pool import processes_for
from experiments.pipeline.setup import judge_of, metric_of, other_lm_of, path_of, shard_of
from experiments.pipeline.tuning.config import Candidates, TuneConfig
from experiments.runs.config import RunConfig
from experiments.runs.fixed_contexts import choose_contexts
from experiments.runs.specs import CandidateSpec, CompileSpec, RunSpec, StudySpec
from optimizers.teleprompters.catalog import get_optimizer
from optimizers.tuning.objective import Goal
from programs.artifacts.loading import notify
from programs.parts.gates import replayable_knobs
from programs.parts.knobs import knobs_of
from signatures.common.errors import UserError, needing
from signatures.common.files import expanded
from signatures.common.specs import part_of

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.summary import RunSummary
    from experiments.pipeline.compiling.estimate import CompileEstimate
    from experiments.pipeline.tuning.results import Found
    from experiments.pipeline.tuning.tune import Estimate
    from experiments.runs.fixed_contexts import FixedContexts
    from programs.artifact import Artifact
    from programs.inference import Answerer

    Said = Callable[[str], None]


@dataclass(frozen=True)
class Evaluated:
    """A run, and what was opened for it.

    Args:
        config: The run's configuration, with all that was named opened.
        oracle: Description of the entailment oracle; None if no metric needs one.
    """

    summary: "RunSummary"
    program: OpenedProgram
    config: RunConfig
    oracle: str | None


def evaluate(
    program: "Answerer | AnswererSpec",
    questions: Any,
    out: Path | str,
    spec: RunSpec,
    *,
    resume: bool = False,
    progress: bool = True,
    say: "Said" = lambda text: None,
    watching: "Callable[[Any], AbstractContextManager[Any]]" = nullcontext,
) -> Evaluated:
    """Ask a program questions, score the answers, and write the run.

    Args:
        program: The program, opened or named.
        questions: A file, or questions.
        out: Folder of the run.
        spec: What is scored, on which questions, and how they are asked.
        resume, progress: Continue the run in `out`; show estimate and progress on stderr.
        say: Receives the notes on the run, before it begins.
        watching: Opened around the run, given the program.

    Raises:
        UserError: A name is unknown, there are no questions, something cannot be opened, a metric would be 0 for every
            answer of the program, or `out` has another run.
    """
    from experiments.pipeline.evaluate import evaluate as evaluate_program

    shard = shard_of(spec.shard)
    named = with_origin(program)
    metrics, oracle = setup.open_metrics(spec.metrics, spec.oracle, cache=named.cache)
    asked, contexts = _with_contexts(setup.open_questions(questions, split=spec.split, limit=spec.limit), spec, say)
    answering = named.open(contexts=contexts is not None)
    judge = judge_of(spec, answering.connection, metrics)
    config = part_of(
        spec,
        RunConfig,
        metrics=metrics,
        shard=shard,
        judge=judge,
        contexts=contexts,
        artifact=answering.config.artifact,
        artifact_sha256=None if answering.origin is None else answering.origin.sha256,
        questions_path=path_of(questions),
        processes=_processes(spec, answering, judge, shard.select(asked) if shard else asked, oracle),
    )
    found = run_notes(
        answering.program,
        answering.retrieve,
        asked,
        config,
        lm_id=answering.connection.id,
        artifact=None if answering.origin is None else answering.origin.record,
    )
    for text in found:
        say(f"Note: {text}")
    config = replace(config, notes=[*([spec.notes] if isinstance(spec.notes, str) else spec.notes), *found])
    with watching(answering.program):
        summary = evaluate_program(
            answering.program,
            asked,
            config,
            connection=answering.connection,
            folder=expanded(out),
            resume=resume,
            progress=progress,
        )
    return Evaluated(summary, answering, config, oracle)


def _processes(spec: RunSpec, answering: OpenedProgram, judge: Any, asked: list[Any], oracle: str | None) -> int:
    n, connection, local = len(asked) * spec.repeats, answering.connection, oracle is not None
    how: dict[str, Any] = {"threads": spec.threads, "questions": n, "connection": connection, "judge": judge}
    return processes_for(spec.processes, **how, local_models=local)


def _with_contexts(
    questions: "list[Question]", spec: RunSpec, say: "Said"
) -> "tuple[list[Question], FixedContexts | None]":
    """Return the questions to ask and their fixed contexts; all questions and None without."""
    if spec.references is None:
        if spec.passages is not None or spec.n_references != RunSpec.n_references:
            given = "--n-references" if spec.passages is None else "--passages"
            raise UserError(f"{given} needs --references, e.g. --references complete.")
        return questions, spec.contexts
    if spec.passages is None:
        raise UserError(f"--references {spec.references} needs the corpus: add --passages passages.jsonl.")
    corpus = list(read_passages(spec.passages))
    chosen = choose_contexts(questions, corpus, knowledge=spec.references, n=spec.n_references, seed=spec.seed)
    if chosen.excluded:
        reason = "too little gold or noise, or one too many for equal groups"
        say(f"{chosen.excluded} of {len(questions)} questions are excluded: {reason}.")
    return chosen.questions, chosen.contexts


@dataclass(frozen=True)
class Compilation:
    """A compilation that can begin.

    Args:
        program: What is compiled.
        config: Its configuration, with all that was named opened.
        estimate: What it takes at most.
    """

    program: OpenedProgram
    trainset: "list[Question]"
    valset: "list[Question]"
    config: CompileConfig
    estimate: "CompileEstimate"

    def run(self, out: Path | str, *, say: "Said" = lambda text: None, **how: Any) -> "tuple[Artifact, list[str]]":
        """Compile the program into `out` (see `compile_program`); return the artifact and notes on its questions.

        Args:
            say: Receives the notes, before the work begins.
            how: Whether to `resume`, `overwrite` and show `progress`.
        """
        from experiments.pipeline.compile import compile_program, notes_on_questions

        program, connection = self.program.program, self.program.connection
        notes = notes_on_questions(program, self.trainset, self.valset, self.config, connection.id)
        for text in notes:
            say(text)
        questions = (self.trainset, self.valset)
        return compile_program(program, *questions, self.config, connection=connection, out=expanded(out), **how), notes


def compilation(program: "Answerer | AnswererSpec", questions: Any, spec: CompileSpec) -> Compilation:
    """Return the compilation of a program, checked, without an LM call.

    Args:
        program: The program, opened or named; it is not changed. Of one that does not know its index, the artifact does
            not name it.
        questions: A file, or questions.
        spec: How it is compiled, and what candidates are compared on.

    Raises:
        UserError: A name is unknown, something cannot be opened, or the optimizer does not fit the program.
    """
    from experiments.pipeline.compile import estimated

    named = with_origin(program)
    metric = metric_of(spec.metric)
    trainset = setup.open_questions(questions, split=spec.split, limit=spec.limit)
    valset = _others(spec.val, spec.val_split, spec.val_limit, "val")
    compiling = named.open()
    connection = compiling.connection
    config = part_of(
        spec,
        CompileConfig,
        metric=metric,
        teacher=other_lm_of(spec, "teacher", connection),
        prompt=other_lm_of(spec, "prompt", connection),
        index=compiling.config.index,
        provenance=_provenance(compiling, train_path=questions, val_path=spec.val),
    )
    estimate = estimated(
        compiling.program, trainset, valset, config, connection=connection
    )  # refuses what does not fit
    return Compilation(compiling, trainset, valset, config, estimate)


def compile_now(program: "Answerer", questions: Any, out: Path | str, spec: CompileSpec, **how: bool) -> OpenedProgram:
    """Compile a program into `out` and return what was frozen; issue as notices what `verihop compile` notes."""
    from experiments.pipeline.compile import note_without_demonstrations, stopped_text

    work, out = compilation(program, questions, spec), expanded(out).absolute()
    artifact, _ = work.run(out, **how, say=_notice)
    for text in (note_without_demonstrations(artifact, work.trainset), stopped_text(artifact.optimizer)):
        if text:
            _notice(text)
    return work.program.compiled_into(out)


def _notice(text: str) -> None:
    notify([text])


def _others(questions: Any, split: str | None, limit: int | None, flag: str) -> "list[Question]":
    if questions is None:
        if split is not None or limit is not None:
            flags = f"--{flag}-split and --{flag}-limit select questions of --{flag}"
            raise UserError(f"{flags}: name that file, too.")
        return []
    return setup.open_questions(questions, split=split, limit=limit)


def _provenance(program: OpenedProgram, **questions: Any) -> dict[str, Any]:
    return {**{name: str(path_of(each) or "") for name, each in questions.items()}, **program.provenance()}


@dataclass(frozen=True)
class Study:
    """A study that can begin.

    Args:
        program: What is tuned.
        trainset: Of demonstrations and instructions; may be empty.
        config: Its configuration, with all that was named opened.
    """

    program: OpenedProgram
    questions: "list[Question]"
    trainset: "list[Question]"
    config: TuneConfig

    def estimate(self) -> "Estimate":
        """Return the most that the study can cost."""
        from experiments.pipeline.tuning.tune import estimate_study

        return estimate_study(self.program.program, self.questions, self.trainset, self.config)

    def run(self, out: Path | str, *, say: "Said" = lambda text: None, **how: Any) -> "tuple[Found, list[str]]":
        """Tune the program in `out`; return what the trials say, and notes on its questions, as `Compilation.run`."""
        from experiments.pipeline.tuning.tune import tune_program

        program, connection = self.program.program, self.program.connection
        notes = study_notes(program, self.questions, self.trainset, connection.id)
        for text in notes:
            say(text)
        where: dict[str, Any] = {"connection": connection, "out": expanded(out), "trainset": self.trainset}
        return tune_program(program, self.questions, self.config, **where, **how), notes


def study(program: "Answerer | AnswererSpec", questions: Any, spec: StudySpec) -> Study:
    """Return the study of a program, checked, without an LM call.

    Args:
        program: The program, opened or named; it is not changed, and is trial 0.
        questions: A file, or questions; every trial is scored on them.
        spec: What is searched, and how.

    Raises:
        UserError: A name is unknown, something cannot be opened, or packages of the extra `tune` are missing.
    """
    with needing("tune", "Tuning"):  # early tests, importance, plots: each would be missed after the first trials
        import matplotlib  # noqa: F401
        import optuna  # noqa: F401
        import scipy  # noqa: F401
        import sklearn  # noqa: F401
    named = with_origin(program)
    metric, goal = metric_of(spec.metric), spec.goal or Goal(spec.against, spec.at_most)
    selected = setup.open_questions(questions, split=spec.split, limit=spec.limit)
    trainset = _others(spec.train, spec.train_split, spec.train_limit, "train")
    if spec.fixed:
        named = named.with_knobs(spec.fixed)
    tuned = named.open(contexts=spec.from_record)  # a record needs no index
    tried = spec.candidates or part_of(spec, CandidateSpec)
    for name in tried.optimizers:
        get_optimizer(name)
    config = part_of(
        spec,
        TuneConfig,
        metric=metric,
        goal=goal,
        candidates=part_of(tried, Candidates, prompt_lm=other_lm_of(tried, "prompt_lm", tuned.connection)),
        searched=_searched(tuned.program, spec),
        index=tuned.config.index,
        provenance=_provenance(tuned, tuned_path=questions, train_path=spec.train),
    )
    return Study(tuned, selected, trainset, config)


def tune_now(program: "Answerer", questions: Any, out: Path | str, spec: StudySpec, **how: bool) -> "Found":
    """Tune a program in `out` and return what the trials say; issue as notices what `verihop tune` notes."""
    found, _ = study(program, questions, spec).run(expanded(out).absolute(), **how, say=_notice)
    if found.stopped:
        _notice(f"Stopped: {found.stopped} Go on with resume=True and a larger budget.")
    return found


def _searched(program: Any, spec: StudySpec) -> tuple[str, ...] | None:
    """Return the knobs to search; None if all that have a range are, or all that a replay knows."""
    if both := set(spec.fixed).intersection([*(spec.searched or ()), *spec.narrowed]):
        raise UserError(f"Knob {sorted(both)[0]} is both fixed and searched: choose one.")
    if spec.searched is not None or not spec.fixed:
        return spec.searched
    known = knobs_of(program)
    names = replayable_knobs(program) if spec.from_record else known
    return tuple(name for name in names if known[name].space is not None and name not in spec.fixed)
