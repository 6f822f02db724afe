"""verihop in Python: connect an LM, open an index, load a program and ask it; evaluate, compile, tune and freeze it.

    import verihop

    program = verihop.load("artifacts/genground")  # with the index and the LM that it was compiled with
    print(program("Where was the chief engineer of the Corrant Coast Line born?").answer)  # a `verihop.Answer`

The command line does the same with the same names and defaults, so that runs and artifacts of both can be compared. To
import this module takes milliseconds; what a function needs is imported when it is called. Everything else is in the
packages: `programs` (strategies, LMs, artifacts), `corpora` (indexes, data sets), `optimizers`, `experiments`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

from optimizers.metrics.names import COMPILED, DEFAULT, TUNED

if TYPE_CHECKING:
    import dspy

    from corpora.index.transfer import Received
    from corpora.questions import Question
    from corpora.sync.sync import Synced
    from experiments.analysis.boards import Board
    from experiments.analysis.question_report import QuestionReport
    from experiments.analysis.summary import RunSummary
    from experiments.pipeline.compile_module import CompiledModule
    from experiments.pipeline.compiling.estimate import CompileEstimate
    from experiments.pipeline.opened import OpenedProgram
    from experiments.pipeline.tuning.results import Found
    from optimizers.metrics.metric import Metric
    from optimizers.teleprompters.task import ScoredProgram
    from programs.artifact import Artifact
    from programs.inference import Answerer
    from programs.lms.connect import Connection
    from programs.parts.prediction import Answer
    from signatures.types import Retriever

    AnyIndex = Retriever | Callable[[str, int], Any] | Path | str
    AnyLM = Connection | str
    AnyModule = TypeVar("AnyModule", bound=dspy.Module)
    Questions = Sequence[Question | Mapping[str, Any]] | Path | str

if not __spec__ or __spec__.submodule_search_locations is None:  # in a checkout, not in a wheel
    from signatures.common.checkout import name_as_in_wheel

    __path__: list[str] = []
    name_as_in_wheel("verihop")

__all__ = [
    "Answer",
    "candidates",
    "compile",
    "compile_module",
    "connect",
    "estimate_module",
    "evaluate",
    "freeze",
    "leaderboard",
    "load",
    "load_module",
    "open_index",
    "pull_index",
    "push_index",
    "report",
    "sync",
    "tune",
    "vote",
]


def __getattr__(name: str) -> Any:
    if name == "Answer":
        from programs.parts.prediction import Answer

        return Answer
    if name == "__version__":
        from importlib.metadata import version

        return version("verihop")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def connect(lm: str = "embedded", *, budget: Mapping[str, float] | None = None, **settings: Any) -> Connection:
    """Return the connection to an LM. It can serve many programs.

    Args:
        lm: embedded, embedded:FOLDER, gguf:PATH, simulated, any DSPy id such as openai/gpt-4o-mini, or the name of a
            model at `api_base`.
        budget: Limits that all its calls share: calls, tokens, usd, seconds. The call that would exceed one raises
            `programs.lms.calls.budget.BudgetExceeded`.
        **settings: Fields of `programs.lms.spec.LMSpec`: api_base, api_key_env, temperature, max_tokens,
            context_size, reasoning, server, retries, timeout, cache and others; connections, calls in flight at a time,
            by default as many as 256 threads need and the limit of open files allows.

    Raises:
        UserError: The LM is unknown, its weights are missing, its server does not answer, or the variable that should
            hold its key is not set.
        TypeError: A setting is unknown.
    """
    from experiments.pipeline.setup import limits_of, lm_config, open_lm

    return open_lm(lm_config(lm, **settings), limits_of(budget))


def open_index(
    folder: Path | str | None = None,
    *,
    retriever: str | None = None,
    rerank: str | None = None,
    sentences: int | None = None,
    precision: str | None = None,
    lm: AnyLM | None = None,
) -> Retriever:
    """Return the retriever of an index: `retrieve(query, k)` returns passages, the best first.

    Args:
        folder: As `verihop index` writes it, or a recording of the web; None if your own retriever needs none.
        retriever: Another retriever than the index was built for, e.g. bm25 of a hybrid index; your own as
            `module:name`, which is imported; or the web (serper, searxng, FILE.toml), recorded in `folder`.
        rerank: own, own-light, lm, or a cross-encoder or ColBERT model by folder or name, the last three with or
            without the number of passages, as in lm:100; None does not rerank.
        sentences: How many sentences of the first ten passages are read for a query, as a trained scorer chooses them,
            1 to 100; None reads whole passages.
        precision: Of the embedder: f32 (default), bf16 or int8.
        lm: The LM of the reranker lm: a connection, or an id that `connect` takes; by default embedded.

    Raises:
        UserError: There is no complete index, it cannot be opened so, or the folder is no path.
    """
    from experiments.pipeline.setup import given_lm, named_retriever, refused
    from experiments.runs.specs import Retrieval
    from signatures.common.files import expanded

    if not isinstance(folder, Path | str | None):
        raise refused("folder", folder, "the folder of an index")
    index = None if folder is None else expanded(folder).absolute()
    named = Retrieval(index=index, retriever=retriever, rerank=rerank, sentences=sentences, precision=precision)
    return named_retriever(named, lambda: given_lm(lm))


def push_index(folder: Path | str, target: Path | str, *, overwrite: bool = False, progress: bool = True) -> Received:
    """Copy an index to where `pull_index` finds it; repeat an interrupted call to resume it.

    Args:
        folder: A complete index.
        target: A folder, which a server may serve, or `hf://owner/name[@branch]`; a new repository is private.
        overwrite: Replace another index.
        progress: Show progress on stderr.

    Returns:
        The content of `index.json`, and whether anything was changed.

    Raises:
        UserError: There is no complete index, the target has another one or other files, or the hub refuses it.
    """
    from corpora.index.remote import push_index as push
    from signatures.common.files import expanded

    return push(expanded(folder), str(target), overwrite=overwrite, progress=progress)


def pull_index(source: Path | str, out: Path | str, *, overwrite: bool = False, progress: bool = True) -> Received:
    """Copy an index that was pushed, checking the hash of each file; repeat an interrupted call to resume it.

    Args:
        source: `hf://owner/name[@revision]`, the `https://` address of a folder, or a folder.
        out: Folder for the index.
        overwrite: Replace another index, which opens until the new one is complete.
        progress: Show size and progress on stderr.

    Returns:
        The content of `index.json`, and whether anything was changed.

    Raises:
        UserError: No index was pushed there, a file is damaged or none of an index, `out` has another index or other
            files, the disk would be full, or the connection breaks off.
    """
    from corpora.index.remote import pull_index as pull
    from signatures.common.files import expanded

    return pull(str(source), expanded(out), overwrite=overwrite, progress=progress)


def sync(
    documents: Path | str | Sequence[Path | str],
    out: Path | str = "index",
    *,
    dry_run: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Synced:
    """Bring an index up to date with documents, or build it; call it again when they have changed.

    New documents are added, changed ones replaced, and those that are gone removed; passages whose text stays keep
    their ids, and are not embedded again. The next call resumes an interrupted one.

    Args:
        documents: Files, and folders with their subfolders.
        out: Folder of the index.
        dry_run: Change nothing, read no document, and return what would be added, changed and removed.
        progress: Show progress on stderr.
        **settings: Further fields of `experiments.runs.specs.SyncSpec`: retriever, embedder, precision, words, titles,
            memory, processes, allow_removal.

    Returns:
        Names of the documents that were added, changed, removed and unchanged, a line for each unreadable one, numbers
        of passages, and the content of `index.json`.

    Raises:
        UserError: There is no document that can be read, the index was made with other settings, or so much has
            vanished that it looks like a mistake.
    """
    from experiments.pipeline.setup import refused, settings_of
    from experiments.pipeline.sync import sync as sync_now
    from experiments.runs.specs import SyncSpec
    from signatures.common.files import expanded

    named = list(documents) if isinstance(documents, Sequence) and not isinstance(documents, str) else [documents]
    if wrong := [each for each in (*named, out) if not isinstance(each, Path | str)]:
        raise refused("documents or out", wrong[0], "paths")
    spec = settings_of("sync", SyncSpec, **settings)
    return sync_now([expanded(each) for each in named], expanded(out), spec, dry_run=dry_run, progress=progress)


def load(
    artifact: Path | str | EllipsisType | None = ...,
    *,
    program: str | None = None,
    index: AnyIndex | None = None,
    retriever: str | None = None,
    lm: AnyLM | None = None,
    preset: str | None = None,
    rerank: str | None = None,
    sentences: int | None = None,
    knobs: Mapping[str, Any] | None = None,
) -> OpenedProgram:
    """Return a program, compiled or not, that is ready to be asked.

    It answers when it is called (`program(question)`), and by `await program.acall(question)`, `program.batch(...)` and
    `program.stream(question)`; `program.warm()` loads everything at once instead of with the first question.

    Args:
        artifact: Folder of a compiled program; nothing, or None, for a program by its name.
        program: Name of the catalog (`verihop programs`), or `module:Class` of your own, which is imported.
        index: An index folder; or a retriever, also a function `(query, k)` of yours or one of LangChain or LlamaIndex;
            by default that of the artifact.
        retriever: For an index folder, as for `open_index`; or your own as `module:name`, which is imported.
        lm: A connection, or an id that `connect` takes; by default that of the artifact, else embedded.
        preset: Named knobs of a program; by default paper, or small with the embedded LM.
        rerank: For an index folder, as for `open_index`; by default that of the artifact, and own with preset small.
        sentences: For an index folder, as for `open_index`; by default as many as the artifact, else whole passages.
        knobs: Values that differ from the preset's or the artifact's.

    Raises:
        UserError: Neither or both of artifact and program are named, something cannot be opened, or a program that
            retrieves has no index.
    """
    from experiments.pipeline.opened import load as open_named
    from experiments.pipeline.setup import artifact_of
    from experiments.runs.specs import ProgramSpec

    named = ProgramSpec(
        program=program,
        artifact=artifact_of(artifact, program),
        preset=preset,
        knobs=knobs or {},
        retriever=retriever,
        rerank=rerank,
        sentences=sentences,
    )
    return open_named(named, index=index, lm=lm)


def report(
    questions: Questions,
    *,
    passages: Path | str | None = None,
    train: Questions | None = None,
    split: str | None = None,
    dataset: str | None = None,
) -> QuestionReport:
    """Return a report on questions before they are asked: kinds, order, scores of guessing, warnings.

    Args:
        questions: A `questions.jsonl`, or questions.
        passages: The corpus; by default `passages.jsonl` next to the file.
        train: Training questions, or their file, to find questions and gold passages that both share.
        split: Report only on questions of this split.
        dataset: The files are official ones of this dataset (`verihop data list`).

    Raises:
        UserError: A file is missing or broken, or there is no question.
    """
    from experiments.pipeline.question_files import report as report_on

    return report_on(questions, dataset=dataset, split=split, passages=passages, train=train)


def evaluate(
    program: Answerer,
    questions: Questions,
    out: Path | str,
    *,
    split: str | None = None,
    metrics: str | Sequence[str | Metric] = DEFAULT,
    oracle: str | None = None,
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> RunSummary:
    """Ask a program questions, score the answers, and write the run: `verihop compare` and `score` read it.

    Args:
        program: As `load` returns it.
        questions: A `questions.jsonl`, or questions; mappings are read as lines of the file.
        out: Folder of the run.
        split: Use only questions of this split.
        metrics: Names (`verihop metrics`), separated by commas or in a list.
        oracle: Entailment oracle of the metrics that need one.
        resume, progress: Continue the run in `out`; show estimate and progress on stderr.
        **settings: Further fields of `experiments.runs.specs.RunSpec`: threads (8), processes (1; the command
            chooses), repeats, judge (a connection or an id), shard ("1/4"), contexts, seed and others.

    Returns:
        Means with 95 % intervals over questions, costs, errors and abstentions.

    Raises:
        UserError: A name is unknown, there are no questions, a metric would be 0 for every answer of the program, or
            `out` has another run.
    """
    from experiments.pipeline.setup import settings_of
    from experiments.pipeline.verbs import evaluate as evaluate_program
    from experiments.runs.specs import RunSpec

    named = {"processes": 1, "split": split, "metrics": metrics, "oracle": oracle, **settings}
    spec = settings_of("evaluate", RunSpec, **named)
    return evaluate_program(program, questions, out, spec, resume=resume, progress=progress).summary


def leaderboard(
    runs: Sequence[Path | str],
    out: Path | str | None = None,
    *,
    check: bool = False,
    corpora: Sequence[Path | str] = (),
) -> list[Board]:
    """Return runs as boards, one for each set of questions, and write them as pages that need no server.

    Args:
        runs: Folders of finished runs, of any programs, or folders that contain them; damaged and unfinished runs in
            the latter are left out with a notice.
        out: Folder for the pages, new or of an earlier leaderboard; None writes nothing.
        check: Refuse runs that are not comparable, contradict themselves, or would be left out; notices name the scores
            and costs that cannot be computed again.
        corpora: Files of passages, to hash those of runs whose index is elsewhere.

    Returns:
        Boards with their ranked runs, the Pareto front of quality against tokens, the comparison with `rag`, and
        settings in which runs differ although they must not.

    Raises:
        UserError: A folder has no finished run or is that of a damaged one, runs are not comparable, or `out` has other
            files.
    """
    from experiments.analysis.boards import check_comparable, read_boards, refuse_left_out
    from experiments.analysis.report.leaderboard import write_leaderboard
    from signatures.common.errors import UserNotice
    from signatures.common.files import expanded

    left_out = {"on_left_out": refuse_left_out} if check else {}
    boards = read_boards([expanded(run) for run in runs], **left_out)
    for uncomputed in check_comparable(boards) if check else ():
        warnings.warn(UserNotice(uncomputed), stacklevel=2)
    if out is not None:
        write_leaderboard(boards, expanded(out), corpora=[expanded(path) for path in corpora])
    return boards


def vote(runs: Sequence[Path | str], out: Path | str) -> RunSummary:
    """Write the majority of runs of several programs as a run, without asking an LM, and return its summary.

    It is what `verihop.programs.ensemble.Ensemble` of these programs would have answered, with the costs of all.

    Args:
        runs: Folders of finished runs on the same questions, most trusted first.
        out: A new or empty folder.

    Raises:
        UserError: There are fewer than two runs, or they are not comparable; or `out` contains something.
    """
    from experiments.pipeline.merging.vote import vote as vote_of_runs
    from signatures.common.files import expanded

    return vote_of_runs([expanded(run) for run in runs], expanded(out))


def compile(
    program: Answerer,
    questions: Questions,
    out: Path | str,
    *,
    split: str | None = None,
    val: Questions = (),
    metric: Metric | str = COMPILED,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> OpenedProgram:
    """Optimize a program on training questions, freeze it into `out`, and return what was frozen.

    Args:
        program: As `load` returns it; it is not changed.
        questions: Training questions, none of a test split.
        out: Folder of the artifact.
        split: Use only training questions of this split.
        val: Questions that candidates are compared on; without any, a part of the training questions where needed.
        metric: What is maximized: a name, or a metric.
        resume, overwrite, progress: Continue a stopped compilation; replace an artifact; show progress on stderr.
        **settings: Further fields of `experiments.runs.specs.CompileSpec`: optimizer ("bootstrap"),
            options, accept, max_demos, seed, threads, teacher and prompt (connections or ids). The budget is that of
            the LM (`connect`); if it is spent, a notice says so, and what was frozen.

    Raises:
        UserError: `out` exists, a question is of a test split, or the optimizer does not fit the program.
    """
    from experiments.pipeline.setup import settings_of
    from experiments.pipeline.verbs import compile_now
    from experiments.runs.specs import CompileSpec

    spec = settings_of("compile", CompileSpec, split=split, val=val, metric=metric, **settings)
    return compile_now(program, questions, out, spec, resume=resume, overwrite=overwrite, progress=progress)


def compile_module(
    module: dspy.Module,
    trainset: Sequence[dspy.Example],
    out: Path | str,
    *,
    metric: Metric | Callable[..., Any] | str,
    lm: AnyLM,
    valset: Sequence[dspy.Example] = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> CompiledModule:
    """Optimize any `dspy.Module` on examples, freeze its state into `out`, and return it with all that was scored.

    It runs with the adapter of DSPy's settings. The budget is that of the LM (`connect`). If it is spent, or Ctrl-C is
    pressed, the best candidate that was scored completely is frozen and returned, else the module as it was; a notice
    and `stopped` say so.

    Args:
        module: It is not changed. No predictor may have its own LM, which would run past the budget.
        trainset: Examples with their inputs set (`with_inputs`).
        out: Folder of the artifact, for `load_module`.
        metric: What is maximized: `(example, prediction, trace=None)`, also with GEPA's two further arguments, that
            returns a number from 0 to 1, a bool, or score and feedback; or the name of one of ours.
        lm: A connection, or an id that `connect` takes.
        valset: Examples that candidates are compared on; without any, a part of the training examples where needed.
        resume, overwrite, progress: Continue a stopped compilation, whose LM replies are cached; replace an artifact;
            show estimate and progress on stderr.
        **settings: Further fields of `experiments.runs.specs.ModuleSpec`: optimizer ("bootstrap"), options, accept,
            max_demos, seed, threads, teacher and prompt (connections or ids).

    Raises:
        UserError: Examples do not fit the module (all faults are named), or the optimizer does not; `out` exists.
    """
    from experiments.pipeline.compile_module import module_work
    from experiments.pipeline.setup import settings_of
    from experiments.runs.specs import ModuleSpec
    from programs.artifacts.loading import notify
    from signatures.common.files import expanded

    work = module_work(
        module, trainset, valset, settings_of("compile_module", ModuleSpec, metric=metric, **settings), lm
    )
    notify(list(work.notes))
    return work.run(expanded(out).absolute(), resume=resume, overwrite=overwrite, progress=progress)


def estimate_module(
    module: dspy.Module,
    trainset: Sequence[dspy.Example],
    *,
    metric: Metric | Callable[..., Any] | str,
    lm: AnyLM,
    valset: Sequence[dspy.Example] = (),
    **settings: Any,
) -> CompileEstimate:
    """Return the LM calls, tokens and price of `compile_module` with the same arguments, without optimizing.

    The module is run on up to three training examples, so that calls and tokens are its own; they count in the budget.

    Raises:
        UserError: See `compile_module`; or the module fails on all of these examples.
    """
    from experiments.pipeline.compile_module import module_work
    from experiments.pipeline.setup import settings_of
    from experiments.runs.specs import ModuleSpec

    spec = settings_of("estimate_module", ModuleSpec, metric=metric, **settings)
    return module_work(module, trainset, valset, spec, lm).estimate()


def load_module(folder: Path | str, module: AnyModule) -> AnyModule:
    """Return a copy of a module with the instructions and demonstrations that `compile_module` has frozen.

    Args:
        folder: Of the artifact. Nothing in it is executed.
        module: Constructed like the one that was compiled.

    Raises:
        UserError: There is no artifact of a module, it is damaged, or the module has other predictors or fields.
    """
    from programs.artifact import load_module as load_state
    from signatures.common.files import expanded

    return load_state(expanded(folder), module)


def candidates(out: Path | str, module: dspy.Module) -> list[ScoredProgram]:
    """Return every program that a compilation into `out` has scored, even if it was killed or is still running.

    Each has `program` (a copy of the module), `mean`, `scores` by example, `label`, and `complete` (whether it was
    scored on all validation examples).

    Args:
        out: The folder of `compile_module`.
        module: Constructed like the one that is compiled.

    Raises:
        UserError: No program was scored.
    """
    from experiments.pipeline.compile_module import candidates as scored

    return scored(out, module)


def tune(
    program: Answerer,
    questions: Questions,
    out: Path | str,
    *,
    split: str | None = None,
    train: Questions = (),
    metric: Metric | str = TUNED,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Found:
    """Search the best knobs, demonstrations and instructions of a program in one study, and freeze them.

    Args:
        program: As `load` returns it; it is not changed, and is trial 0.
        questions: Every trial is scored on them; none of a test split.
        out: Folder of the study; the artifact is in `out/artifact`.
        split: Use only questions of this split.
        train: Questions that demonstrations and instructions are made from; without any, a third of `questions`.
        metric: What is maximized: a name, or a metric.
        resume, overwrite, progress: Continue the study in `out`; start from scratch; show progress on stderr.
        **settings: Further fields of `experiments.runs.specs.StudySpec`: trials, sampler, searched,
            narrowed, goal, candidates, folds, seed, threads, storage and others.

    Returns:
        The results of the trials; `artifact` is the folder to `load`.

    Raises:
        UserError: A question is of a test split, there is nothing to search, or `out` has another study.
    """
    from experiments.pipeline.setup import settings_of
    from experiments.pipeline.verbs import tune_now
    from experiments.runs.specs import StudySpec

    spec = settings_of("tune", StudySpec, split=split, train=train, metric=metric, **settings)
    return tune_now(program, questions, out, spec, resume=resume, overwrite=overwrite, progress=progress)


def freeze(program: Answerer, out: Path | str, *, overwrite: bool = False) -> Artifact:
    """Write a program to a folder that `load` reads, with the LM and the index it belongs to.

    The record of its compilation is kept, with a list of later changes.

    Args:
        program: As `load` returns it, with knobs set by hand, say; or an answerer of your own program.
        out: The folder.
        overwrite: Replace an existing artifact.

    Raises:
        UserError: The folder exists, or the program cannot be loaded by its name.
    """
    from experiments.pipeline.compiling.frozen import freeze_opened
    from experiments.pipeline.opened import with_origin
    from signatures.common.files import expanded

    return freeze_opened(with_origin(program), expanded(out), overwrite=overwrite)


if __name__ == "__main__":
    from experiments.cli.main import run_as_process

    run_as_process()
