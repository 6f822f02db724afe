"""Which program is opened, and what a run, a compilation and a study are asked for: each field once.

A group of options stands in the panel of the class that declares it. Where Python may give what a name stands for (a
metric, a connection, questions), the type says so by Any: the module must stay light, since `--help` imports it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from experiments.runs.fixed_contexts import FixedContexts
from experiments.runs.shards import Shard
from optimizers.metrics.names import COMPILED, DEFAULT, TUNED
from optimizers.tuning.defaults import GRACE_SECONDS, GRID_POINTS, HEARTBEAT_SECONDS, PRUNE_BELOW
from signatures.common.specs import Field, Range, check

_DECIDES = partial(Field, decides=True)
_OPTIONAL = partial(Field, decides=True, optional=True)
SENTENCES = Range(0, 100)  # that may be read in place of passages; 0 reads whole ones


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What sets the knobs of a program."""

    PANEL: ClassVar[str] = "Program"
    preset: Annotated[
        str | None,
        Field(
            "Named set of knobs; `verihop programs` lists those of each program. By default paper, or small with the "
            "embedded LM."
        ),
    ] = None
    knobs: Annotated[
        Mapping[str, Any],
        Field("A knob as name=value, repeatable, e.g. --set k=4.", "--set", form=("name=value", "k=4")),
    ] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """What passages are retrieved from, and how."""

    index: Annotated[Path | None, Field("Index folder built by `verihop index`, or a recording of the web.")] = None
    retriever: Annotated[
        str | None,
        Field(
            "A retriever of the index other than the one it was built for (graph-lm: graph, whose triples the LM "
            "chooses); your own: module:name; or the web: serper, searxng or FILE.toml, recorded in --index, which "
            "is replayed if given alone. By default multihop where the index serves it, with preset small "
            "chosen by default; for an artifact, what it was compiled with."
        ),
    ] = None
    rerank: Annotated[
        str | None,
        Field(
            "Rerank the retrieved passages: own, own-light (faster), none, lm (the LM orders them), or a cross-encoder "
            "or ColBERT model by folder or name; lm:N and MODEL:N rerank N passages. "
            "By default none; own with preset small chosen by default; for an artifact, what it was compiled with."
        ),
    ] = None
    sentences: Annotated[
        int | None,
        SENTENCES,
        Field(
            "Read N sentences of the first ten passages, chosen by a trained scorer, instead of whole passages."
            " By default 0, whole passages; for an artifact, what it was compiled with."
        ),
    ] = None
    precision: Annotated[str | None, Field("Precision of the embedder: f32 (default); faster: bf16, int8.")] = None


@dataclass(frozen=True, kw_only=True)
class UncompiledSpec(Retrieval, Knobs):
    """A program by its name, and what it retrieves from."""

    PANEL: ClassVar[str] = "Program"
    program: Annotated[str, Field("Program by name, or your own: module:Class; `verihop programs` lists them.")]


@dataclass(frozen=True, kw_only=True)
class ProgramSpec(Retrieval, Knobs):
    """Which program is opened, and what it retrieves from.

    Own programs and retrievers (`module:name`) are imported, so that their names must come from the user.

    Args:
        knobs: Override those of the preset or of the artifact.
    """

    PANEL: ClassVar[str] = "Program"
    program: Annotated[
        str | None,
        Field(
            "Program by name, or your own: module:Class; `verihop programs` lists them. By default rag with the "
            "embedded LM. With --artifact: your own program in it."
        ),
    ] = None
    artifact: Annotated[Path | None, Field("A program compiled by `verihop compile`.")] = None
    accept_probability_mode: Annotated[
        bool,
        Field(
            "Use the artifact although its thresholds were set for another way of computing P(yes).",
            "--accept-probability-mode",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """How documents are cut into passages."""

    PANEL: ClassVar[str] = "Passages"
    words: Annotated[
        int | None, Range(1), Field("Maximum words of a passage, by default 100; sentences stay whole if they fit.")
    ] = None
    titles: Annotated[
        Literal["headings", "document"] | None,
        Field("Title of a passage: headings (document > innermost heading; default) or document."),
    ] = None

    def __post_init__(self) -> None:
        """Raise UserError if a value is not allowed."""
        check(self)

    @property
    def headings_in_title(self) -> bool | None:
        """Whether a title names the innermost heading; None if nothing is said."""
        return None if self.titles is None else self.titles == "headings"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How documents are read, and what that may take."""

    PANEL: ClassVar[str] = "Reading"
    ocr: Annotated[bool, Field("Recognize scanned pages of PDF files, with the extra [ocr].")] = False
    reader: Annotated[
        str | None,
        Field("verihop (default), or docling for PDF, DOCX and PPTX with hard layouts, with the extra [docling]."),
    ] = None
    memory: Annotated[int, Range(256), Field("MiB that reading one document may take (Linux).")] = 1024
    processes: Annotated[int | None, Range(1), Field("Documents read at a time; by default one per core.")] = None

    @property
    def at_a_time(self) -> int:
        """How many documents are read at a time."""
        return self.processes or os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class InLanguage:
    """Which language documents are in."""

    PANEL: ClassVar[str] = "Index"
    language: Annotated[
        str | None,
        Field("Language of the text, for stems (BM25) and sentences (documents): de, fr, es, ...; by default en."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Indexing(InLanguage):
    """What kind of index is built."""

    PANEL: ClassVar[str] = "Index"
    retriever: Annotated[
        str | None, Field("graph-multihop, multihop, graph, hybrid, dense, bm25 or bm25s; by default hybrid.")
    ] = None
    embedder: Annotated[
        str | None, Field("A sentence-transformers model, by name or folder; by default all-MiniLM-L6-v2.")
    ] = None
    precision: Annotated[str | None, Field("Precision of passage vectors: f32 (default); faster: bf16, int8.")] = None


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What may be removed."""

    PANEL: ClassVar[str] = "Removal"
    allow_removal: Annotated[
        bool,
        Field(
            "Also remove what looks like a mistake: most documents, all of one of several folders, or passages that "
            "no sync has added.",
            "--allow-removal",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class SyncSpec(Removal, Reading, Indexing, Cutting):
    """How documents and their index are kept the same; of an index that is there, what it was made with holds."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which questions of a file are used."""

    PANEL: ClassVar[str] = "Questions"
    split: Annotated[str | None, Field("Use only questions of this split, e.g. dev.", decides="questions")] = None
    limit: Annotated[
        int | None, Range(1), Field("Use only N questions, drawn by a hash of their ids.", decides="questions")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How questions are processed."""

    PANEL: ClassVar[str] = "Execution"
    threads: Annotated[int, Range(1, 256), Field("Questions processed in parallel.", trusted=False)] = 8
    seed: Annotated[int, Range(0), _DECIDES("Seed of every random choice.")] = 0


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What is scored, and which models score it.

    Args:
        metrics: Names of the catalog, and own ones (`module:name`, which are imported), separated by commas or in a
            list; or metrics.
        judge: The LM that decides judged metrics, connected or by its id; its calls are counted separately.
    """

    PANEL: ClassVar[str] = "Metrics"
    metrics: Annotated[
        str | Sequence[Any] | Any,
        Field("Names, separated by commas; `verihop metrics` lists them. Own ones: module:name.", decides="metrics"),
    ] = DEFAULT
    oracle: Annotated[
        str | None,
        Field(
            "Entailment oracle of the metrics that need one (`verihop metrics` lists them): lexical (default), "
            "semantic, calibrated, likelihood, lm, lm:LM, seq2seq:MODEL or cross-encoder:MODEL.",
            decides="metrics",
        ),
    ] = None
    judge: Annotated[
        str | Any | None, _OPTIONAL("LM that decides judged metrics, such as acc[judge].", "--judge-lm")
    ] = None
    judge_api_base: Annotated[str | None, Field("Base URL of the judge's server.", decides="judge")] = None
    judge_api_key_env: Annotated[
        str | None, Field("Environment variable that contains the judge server's API key.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Scoring(Metrics):
    """What is scored, of how many answers."""

    repeats: Annotated[
        int, Range(1), _OPTIONAL("Ask each question N times with fresh samples; needs --temperature above 0.")
    ] = 1


@dataclass(frozen=True, kw_only=True)
class Sharding(Selection):
    """Which questions of a file are used, and which of them here."""

    shard: Annotated[
        str | Shard | None,
        _OPTIONAL(
            "Ask only every n-th question, as one of n machines: 1/n to n/n. Join the runs with `verihop merge`."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Fixed contexts in place of retrieval."""

    PANEL: ClassVar[str] = "Fixed contexts"
    references: Annotated[
        str | None,
        Field(
            "Do not retrieve, but fix the passages of each question: closed (none), partial, complete, or balanced "
            "(half each).",
            decides="given",
        ),
    ] = None
    passages: Annotated[Path | None, Field("passages.jsonl that --references chooses from.", decides="given")] = None
    n_references: Annotated[int, Range(1), Field("Passages per question, gold and noise.", decides="given")] = 5


@dataclass(frozen=True, kw_only=True)
class Dividing(Execution):
    """How questions are processed, and by how many processes."""

    processes: Annotated[
        int | None,
        Range(1, 64),
        Field(
            "Processes that share the threads, each with its own core. By default one per core if the LM is on a "
            "server and there are at least 8 threads and 50 questions for each; else 1."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunSpec(Dividing, Contexts, Sharding, Scoring):
    """What is scored in a run, on which questions, and how they are asked.

    Args:
        contexts: Passages fixed for each question, used in place of the first retrieval.
        notes: What a reader of the results has to know; shown with every summary and comparison.
        branches: The most branches recorded of each question (`experiments.pipeline.branches`); 0 records nothing.
        calls: Whether the LM calls are kept (`experiments.runs.calls`).
    """

    contexts: Annotated[FixedContexts | None, _OPTIONAL(key="given")] = None
    notes: Annotated[str | Sequence[str], Field()] = ()
    branches: Annotated[int, Field()] = 0
    calls: Annotated[bool, Field()] = True


@dataclass(frozen=True, kw_only=True)
class Optimization:
    """How the program is optimized.

    Args:
        metric: What the optimizer maximizes; also scored on the validation questions.
        optimizer: A name of `optimizers.teleprompters.catalog.OPTIMIZERS`.
        options: Arguments specific to the optimizer.
        accept: Lowest score of a training question that makes it a demonstration, in [0, 1].
    """

    PANEL: ClassVar[str] = "Optimizer"
    optimizer: Annotated[
        str,
        _DECIDES("How; `verihop optimizers` says what each does, which options it has and what it fits.", key="name"),
    ] = "bootstrap"
    options: Annotated[
        Mapping[str, Any],
        _OPTIONAL(
            "An argument of the optimizer as name=value, repeatable, e.g. candidates=4.",
            "--option",
            form=("name=value", "candidates=4"),
        ),
    ] = field(default_factory=dict)
    metric: Annotated[str | Any, Field("The metric to optimize.", decides="metric")] = COMPILED
    accept: Annotated[
        float, Range(0.001, 1), _DECIDES("Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, Range(0, 64), _DECIDES("Maximum number of demonstrations per predictor.")] = 4


@dataclass(frozen=True, kw_only=True)
class OtherLMs:
    """LMs other than the one that answers, connected or by their ids; their calls count in the same budget."""

    PANEL: ClassVar[str] = "Other LMs"
    teacher: Annotated[str | Any | None, _OPTIONAL("LM that makes the demonstrations; by default --lm.")] = None
    teacher_api_base: Annotated[str | None, Field("Base URL of the teacher's server.", decides="teacher")] = None
    teacher_api_key_env: Annotated[
        str | None, Field("Environment variable that contains the key of the teacher's server.")
    ] = None
    prompt: Annotated[
        str | Any | None, _OPTIONAL("LM that writes the instructions; by default --lm.", "--prompt-lm")
    ] = None
    prompt_api_base: Annotated[str | None, Field("Base URL of its server.", decides="prompt")] = None
    prompt_api_key_env: Annotated[str | None, Field("Environment variable that contains its key.")] = None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Questions that candidates are compared on and the result is scored on, as a file or given."""

    PANEL: ClassVar[str] = "Validation"
    val: Annotated[
        Path | Sequence[Any] | str | None,
        Field(
            "Questions to compare candidates on, and to score the result on. By default half of the training "
            "questions, at most 200, if the optimizer compares candidates, else none.",
            decides="data",
        ),
    ] = None
    val_split: Annotated[str | None, Field("Use only this split of --val.", decides="data")] = None
    val_limit: Annotated[
        int | None, Range(1), Field("Use only N questions of --val, drawn likewise.", decides="data")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompileSpec(Execution, Validation, Selection, OtherLMs, Optimization):
    """How a program is compiled, and on which questions."""


@dataclass(frozen=True, kw_only=True)
class ModuleSpec(Execution, OtherLMs, Optimization):
    """How a module that is no program of verihop is compiled, on examples that are given."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What is optimized, and what a setting may cost."""

    PANEL: ClassVar[str] = "Objective"
    metric: Annotated[str | Any, Field("The metric to maximize; `verihop metrics` lists them.", decides="metric")] = (
        TUNED
    )
    against: Annotated[
        str | None,
        _DECIDES(
            "Also minimize a cost per question, calls, tokens, seconds or usd: the result is a Pareto front.",
            key="cost",
        ),
    ] = None
    at_most: Annotated[
        Mapping[str, float],
        _DECIDES(
            "Highest mean cost per question of a setting that is chosen, repeatable, e.g. calls=3 or tokens=4000.",
            form=("cost=number", "calls=3"),
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Search:
    """Which knobs are searched, and how."""

    PANEL: ClassVar[str] = "Search"
    searched: Annotated[
        tuple[str, ...] | None,
        Field(
            "Knobs to search, separated by commas, or none; by default all that have a range (`verihop programs`).",
            "--search",
            decides="knobs",
        ),
    ] = None
    narrowed: Annotated[
        Mapping[str, str],
        Field(
            "Search a knob in a narrower range, as name=low:high or name=a,b,c; repeatable.",
            "--knob",
            decides="knobs",
            form=("name=low:high or name=a,b,c", "k=2:8"),
        ),
    ] = field(default_factory=dict)
    fixed: Annotated[
        Mapping[str, Any],
        Field(
            "Set a knob and do not search it, as name=value; repeatable.",
            "--fix",
            decides="program",
            form=("name=value", "k=4"),
        ),
    ] = field(default_factory=dict)
    sampler: Annotated[str, _DECIDES("tpe (Optuna's default), nsga2 (for --against), grid or random.")] = "tpe"
    points: Annotated[
        int, Range(2, 100), _DECIDES("With --sampler grid: values per knob that is a number.", "--grid-points")
    ] = GRID_POINTS
    trials: Annotated[int, Range(1), Field("Trials of the whole study, over all its processes.")] = 30
    prune: Annotated[
        bool,
        _DECIDES(
            "End a trial early (default) if a Wilcoxon test after 8, 16, 32 ... questions finds it worse than the "
            "best; not with --against or a grid.",
            "--prune/--no-prune",
        ),
    ] = True
    prune_below: Annotated[
        float, _OPTIONAL("p of that test; 0.3 ends more trials, for a budget of fewer than ten complete ones.")
    ] = PRUNE_BELOW
    replay: Annotated[
        Path | None,
        _DECIDES("Evaluate trials from the record of this run (`eval --record-branches`), without LM calls."),
    ] = None
    buy: Annotated[
        bool,
        Field(
            "Run, within the budget, the branches that the record lacks, once for all trials.",
            "--buy",
            decides="replay",
        ),
    ] = False
    folds: Annotated[int, Range(0, 50), Field("Folds of the estimate on held-out questions; 0 for none.")] = 5

    @property
    def from_record(self) -> bool:
        """Whether all trials come from a record, so that nothing is asked or searched."""
        return self.replay is not None and not self.buy


@dataclass(frozen=True, kw_only=True)
class CandidateSpec:
    """Where demonstrations and instructions come from, beside those that the program has.

    Args:
        optimizers: Optimizers that compile the program on training questions; each gives sets of demonstrations.
        artifacts: Folders of compiled versions of the same program: their demonstrations, instructions and knobs.
        prompt_lm: The LM that writes instructions, connected or by its id; None means the task LM.
    """

    PANEL: ClassVar[str] = "Demonstrations and instructions"
    optimizers: Annotated[
        tuple[str, ...],
        _DECIDES(
            "Optimizers whose demonstrations and instructions are tried, separated by commas, e.g. "
            "bootstrap,labeled; `verihop compile --help` names them.",
            "--demos",
        ),
    ] = ()
    seeds: Annotated[
        int, Range(1, 50), _DECIDES("Compilations per optimizer, with different seeds.", "--demo-sets")
    ] = 2
    accept: Annotated[
        float, Range(0.001, 1), _DECIDES("Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, Range(1, 64), _DECIDES("Maximum number of demonstrations per predictor.")] = 4
    instructions: Annotated[int, Range(0, 50), _DECIDES("Instructions to write for each predictor, by an LM.")] = 0
    prompt_lm: Annotated[
        str | Any | None, _DECIDES("LM that writes instructions, also for --demos; by default the program's.")
    ] = None
    prompt_api_base: Annotated[str | None, Field("Base URL of that LM's server.")] = None
    prompt_api_key_env: Annotated[str | None, Field("Environment variable that contains its API key.")] = None
    artifacts: Annotated[
        tuple[Path, ...],
        _DECIDES(
            "A compiled version of the program: try its demonstrations, instructions and knobs, too; repeatable.",
            "--from",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Prompts(CandidateSpec):
    """Demonstrations and instructions to try, and the questions that they are made from, as a file or given."""

    train: Annotated[
        Path | Sequence[Any] | str | None,
        Field(
            "Questions that demonstrations and instructions are made from; by default a third of the questions, "
            "which the trials then do not ask.",
            decides="trainset",
        ),
    ] = None
    train_split: Annotated[str | None, Field("Use only this split of --train.", decides="trainset")] = None
    train_limit: Annotated[
        int | None, Range(1), Field("Use only N questions of --train, drawn likewise.", decides="trainset")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sharing(Execution):
    """How questions are processed, and where the study is kept, so that several processes can work on it."""

    storage: Annotated[
        str | None,
        Field(
            "journal:FILE on a shared disk, or postgresql://USER@HOST/DATABASE (password in PGPASSWORD or "
            "~/.pgpass): the same command on each machine joins the study. By default an SQLite file in --out."
        ),
    ] = None
    study: Annotated[str | None, Field("Name of the study; by default that of the folder.")] = None


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """Which trial is frozen."""

    PANEL: ClassVar[str] = "Output"
    chosen: Annotated[
        int | None,
        Range(0),
        Field(
            "Freeze this trial, e.g. another on the Pareto front; by default the best, or the unchanged program if "
            "it gains nothing on held-out questions.",
            "--pick",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class StudySpec(Choosing, Sharing, Selection, Prompts, Search, Objective):
    """What a study searches, on which questions and terms, and where it is kept.

    Args:
        goal: In place of `against` and `at_most`.
        candidates: In place of the fields that it has, too.
        heartbeat: Seconds between two signs of life of a running trial, at least 1.
        grace: Seconds without one after which its process is taken for dead.
    """

    goal: Annotated[Any, Field(decides="cost")] = None
    candidates: Annotated[Any, _DECIDES()] = None
    heartbeat: Annotated[int, Field()] = HEARTBEAT_SECONDS
    grace: Annotated[int, Field()] = GRACE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Student:
    """Whom examples are for."""

    PANEL: ClassVar[str] = "Student"
    student: Annotated[
        str,
        Field(
            "LM to train, whose prompts are rendered: embedded (which also decides the defaults of --program, "
            "--preset and --rerank) or another id, or a form, json or chat.",
            decides="student",
        ),
    ] = "embedded"
    prompts: Annotated[
        str,
        Field(
            "Prompts of the student: plain (no demonstrations, the instructions of the uncompiled program) or "
            "compiled (those of --artifact).",
            decides="student",
        ),
    ] = "plain"


@dataclass(frozen=True, kw_only=True)
class Asked(Selection):
    """Which questions examples are made of."""

    split: Annotated[str | None, _DECIDES("Use only questions of this split, e.g. dev.")] = None
    limit: Annotated[int | None, Range(1), _DECIDES("Use N questions of each file, chosen at random.")] = None
    exclude: Annotated[
        tuple[Path, ...],
        _DECIDES(
            "questions.jsonl of an evaluation, repeatable: its questions, and questions with its gold passages, "
            "are not used. Texts are compared where passages.jsonl is beside it."
        ),
    ] = ()
    passages: Annotated[
        Path | None,
        _DECIDES(
            "passages.jsonl of the questions: the gold of --teacher gold and --recipe genground; --exclude then "
            "compares texts, too, as it does where the file is beside the questions."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which trajectories are kept.

    Args:
        metric: None is that of the recipe.
        predictors: Empty for all; the recipes of papers decide it themselves.
    """

    PANEL: ClassVar[str] = "Filters"
    metric: Annotated[
        str | None, _DECIDES("Metric of the answer: em by default; acc[substring] for --recipe genground.")
    ] = None
    accept: Annotated[float, Range(0.001, 1), _DECIDES("Lowest score of an answer that is right.")] = 1.0
    gold_read: Annotated[
        bool,
        _OPTIONAL("program: keep only trajectories that read all gold passages (passage_recall[all] of 1)."),
    ] = False
    predictors: Annotated[
        tuple[str, ...],
        Field("Only calls of these predictors, separated by commas; by default all.", decides="recipe"),
    ] = ()
    validation: Annotated[float, Range(0, 0.9), Field("Share of the questions held out to measure the loss.")] = 0.1


@dataclass(frozen=True, kw_only=True)
class SynthesisSpec(Execution, Filters, Asked, Student):
    """Of which questions examples are made, for whom, and which are kept."""


@dataclass(frozen=True, kw_only=True)
class FittingSpec:
    """On which questions the knobs of a program made of artifacts are fitted, and how these search."""

    PANEL: ClassVar[str] = "Fitting"
    fit: Annotated[
        Path | None,
        Field(
            "questions.jsonl to fit weights and threshold on, preferably hundreds, none of the split test: each "
            "artifact answers each of them once."
        ),
    ] = None
    metric: Annotated[
        str | Any, Field("The metric that decides which answer is right or better; `verihop metrics` lists them.")
    ] = "em"
    index: Annotated[Path | None, Field("Index folder; by default that of the artifacts.")] = None
    retriever: Annotated[str | None, Field("Retriever of the index; by default as the artifacts were compiled.")] = None
    rerank: Annotated[
        str | None, Field("Reranker: own, own-light, none; by default as the artifacts were compiled.")
    ] = None
    sentences: Annotated[
        int | None,
        SENTENCES,
        Field("Sentences read instead of passages; by default as the artifacts were compiled."),
    ] = None
    accept_probability_mode: Annotated[
        bool,
        Field(
            "Fit although thresholds of an artifact were set for another way of computing P(yes).",
            "--accept-probability-mode",
        ),
    ] = False
    threads: Annotated[int, Range(1, 256), Field("Questions processed in parallel.", trusted=False)] = 8


@dataclass(frozen=True, kw_only=True)
class CascadeSpec(FittingSpec):
    """What the weights and the threshold of a cascade are fitted for."""

    most_tokens: Annotated[float | None, Range(0), Field("Maximum mean tokens per question, cached ones included.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class SelectiveSpec(FittingSpec):
    """What the weights and the threshold of a selective program are fitted for."""

    precision: Annotated[
        float | None,
        Range(0.01, 0.99),
        Field("Minimum share of right answers among those given, e.g. 0.8; by default all answers are given."),
    ] = None
    delta: Annotated[
        float, Range(0.001, 0.5), Field("Maximum probability that the share is nevertheless below --precision.")
    ] = 0.05
