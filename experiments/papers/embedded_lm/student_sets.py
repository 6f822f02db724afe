"""The questions, corpora and LMs that the tables of the trained student are measured on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from experiments.pipeline.setup import SMALL
from signatures.common.errors import UserError, unknown

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.fixed_contexts import FixedContexts
    from programs.lms.connect import Connection
    from signatures.types import Passage, Retriever


HOTPOTQA, TWO_WIKI, MUSIQUE = "hotpotqa", "2wikimultihopqa", "musique"
SETS = (HOTPOTQA, TWO_WIKI, MUSIQUE)
"""The development sets with the official mix of questions (`corpora.datasets.development`)."""
WHOLE = {f"{HOTPOTQA}-whole": HOTPOTQA, f"{TWO_WIKI}-whole": TWO_WIKI}
"""Whole files, whose mix is another: the 500 dev questions of HotpotQA, and the 200 held back of 2WikiMultihopQA."""
METRICS = ("em", "f1[hotpot]", "acc[substring]", "passage_recall@5")
COSTS = ("lm_calls", "rounds", "tokens")
_HOTPOTQA_FILE = "hotpotqa/hotpot_dev_500.ircot.jsonl"
_ORDER_SEED = 0


@dataclass(frozen=True)
class EvaluationSet:
    """Questions that nobody trained on, over one pooled corpus.

    Args:
        name: One of `SETS` or `WHOLE`.
        questions: To ask.
        passages: The corpus.
        retrieve: Hybrid, without a reranker.
        files: Source files, name -> SHA-256.
    """

    name: str
    questions: "list[Question]"
    passages: "Sequence[Passage]"
    retrieve: "Retriever"
    files: dict[str, str]


@dataclass(frozen=True)
class Asked:
    """One run: a program with an LM.

    Args:
        program: Name in the catalog.
        lm: Key of the LM: "trained" or "untrained".
        knobs: Those that differ from the program's preset `small`.
        gold: Whether it reads the gold passages alone, in place of retrieved ones.
        rerank: Reranker in front of the retriever; see `corpora.retrievers.rerank.open_reranker`.
        untrained: Predictors that ask the LM "untrained" instead.
    """

    program: str
    lm: str = "trained"
    knobs: tuple[tuple[str, Any], ...] = ()
    gold: bool = False
    rerank: str = "own"
    untrained: tuple[str, ...] = ()


def open_set(name: str, data: Path, work: Path, limit: int) -> EvaluationSet:
    """Convert and index a set under `work`, unless it is there, and return it with `limit` questions, drawn by a hash.

    Raises:
        UserError: The name is unknown, or a file is missing.
    """
    from corpora.datasets.development import DEVELOPMENT
    from corpora.questions import select
    from experiments.papers.embedded_lm.sources import SOURCES, open_held_back
    from signatures.common.files import sha256_file

    if name not in (*SETS, *WHOLE):
        raise unknown("set", name, (*SETS, *WHOLE))
    if name in SETS:
        files = DEVELOPMENT[f"{name}-dev"].files
        questions, passages, retrieve = _development(name, data, work)
    elif WHOLE[name] == HOTPOTQA:
        files = (_HOTPOTQA_FILE,)
        questions, passages, retrieve = _hotpotqa(data, work)
    else:
        files = (SOURCES[WHOLE[name]].file, *SOURCES[WHOLE[name]].more)
        questions, passages, retrieve = open_held_back(data, work, WHOLE[name])
    digests = {file.rsplit("/", 1)[-1]: sha256_file(data / file) for file in files}
    return EvaluationSet(name, select(questions, limit=limit), passages, retrieve, digests)


def _development(name: str, data: Path, work: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    from corpora.datasets.development import convert_development

    folder = work / "development" / name
    if not (folder / "questions.jsonl").is_file():
        convert_development(f"{name}-dev", data, folder, overwrite=True)
    return _indexed(folder)


def _hotpotqa(data: Path, work: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    from corpora.datasets.convert import convert

    folder = work / "evaluation" / "hotpotqa-dev"
    if not (folder / "questions.jsonl").is_file():
        convert("hotpotqa", data / _HOTPOTQA_FILE, folder, overwrite=True)
    return _indexed(folder)


def _indexed(folder: Path) -> "tuple[list[Question], Sequence[Passage], Retriever]":
    """Return the questions of a converted set, its passages and their index, built unless it is there."""
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.passages import read_passages
    from corpora.questions import read_questions

    passages, index = folder / "passages.jsonl", folder / "index"
    if not (index / "index.json").is_file():
        build_index(passages, index, resume=index.exists(), progress=True)
    return read_questions(folder / "questions.jsonl"), list(read_passages(passages)), open_index(index, passages)


def open_lms(ids: dict[str, str], *, cache: bool = True) -> "dict[str, Connection]":
    """Open the LMs; the first of those with the same weights stands for all, so that their runs are shared.

    Args:
        ids: Name -> LM id.
        cache: Whether their replies are cached, and cached ones used.
    """
    from experiments.pipeline import setup
    from programs.lms.spec import LMSpec

    opened: dict[str, Connection] = {}
    first: dict[str, Connection] = {}
    for name, id in ids.items():
        lm = setup.open_lm(LMSpec(id=id, cache=cache))
        opened[name] = first.setdefault(lm.weights_hash or id, lm)
    return opened


def gold_contexts(of: EvaluationSet) -> "tuple[list[Question], FixedContexts]":
    """Return the questions whose gold passages are all in the corpus, and contexts of these alone, in a fixed order.

    Raises:
        UserError: No question has all its gold passages.
    """
    from experiments.runs.fixed_contexts import FixedContexts

    corpus = {passage.id: passage for passage in of.passages}
    kept = [item for item in of.questions if item.gold_ids and all(gold in corpus for gold in item.gold_ids)]
    if not kept:
        raise UserError(f"No question of {of.name} has its gold passages in the corpus: convert it anew.")
    contexts = {}
    for question in kept:
        gold = [corpus[id] for id in dict.fromkeys(question.gold_ids)]
        random.Random(f"{_ORDER_SEED} {question.id}").shuffle(gold)
        contexts[question.id] = tuple(gold)
    most = max(map(len, contexts.values()))
    return kept, FixedContexts("complete", most, _ORDER_SEED, contexts)


class Runs:
    """Runs programs on a set, each once, and says where their rows are.

    Args:
        of: The set.
        lms: Name -> the LM.
        folder: Of all runs.
        threads: Questions asked in parallel.
        resume: Whether runs of an earlier session are resumed.
        metrics: Of every run.
    """

    def __init__(
        self,
        of: EvaluationSet,
        lms: "dict[str, Connection]",
        folder: Path,
        *,
        threads: int,
        resume: bool,
        metrics: tuple[str, ...] = METRICS,
    ):
        self.of, self.lms = of, lms
        self._folder, self._threads, self._resume = folder, threads, resume
        self.metrics = metrics
        self._finished: dict[Path, dict[str, Any]] = {}

    def knobs(self, asked: Asked) -> dict[str, Any]:
        """Return the knobs of a run."""
        from programs.catalog import PROGRAMS

        return {**PROGRAMS[asked.program].PRESETS[SMALL], **dict(asked.knobs)}

    def folder(self, asked: Asked) -> Path:
        """Return the folder of a run; another LM, other knobs or another number of questions have another."""
        knobs = [f"{name}={value}" for name, value in self.knobs(asked).items()]
        context = "gold" if asked.gold else f"rerank={asked.rerank}"
        untrained = [f"untrained={name}" for name in asked.untrained]
        return self.folder_of(asked.lm, "-".join((asked.program, *knobs, context, *untrained)))

    def folder_of(self, lm: str, name: str) -> Path:
        """Return the folder of a run that an LM answers; `name` says what else distinguishes it."""
        weights = (self.lms[lm].weights_hash or self.lms[lm].id.replace("/", "_"))[:12]
        return self._folder / f"{self.of.name}-{len(self.of.questions)}" / weights / name

    def ask(self, asked: Asked) -> dict[str, Any]:
        """Return the scores and costs of a run, after asking what is not answered yet."""
        from corpora.retrievers.rerank import open_reranker
        from experiments.pipeline.setup import open_similarity
        from programs.catalog import PROGRAMS, build
        from programs.parts.knobs import takes_similarity

        folder = self.folder(asked)
        if folder in self._finished:
            return {**self._finished[folder], "lm": asked.lm}  # two names may be one LM
        questions, contexts = gold_contexts(self.of) if asked.gold else (self.of.questions, None)
        retrieve = None if asked.gold else open_reranker(self.of.retrieve, asked.rerank)
        similarity = open_similarity() if takes_similarity(PROGRAMS[asked.program]) else None
        program = build(asked.program, retrieve, similarity=similarity, **self.knobs(asked))
        for name in asked.untrained:
            setattr(program, name, AskedOf(getattr(program, name).signature, self.lms["untrained"].lm))
        scores = self.measure(folder, program, self.lms[asked.lm], questions, contexts)
        if asked.gold:  # gold passages are not retrieved
            scores = {name: score for name, score in scores.items() if not name.startswith("passage_recall")}
        self._finished[folder] = {
            "program": asked.program,
            "knobs": self.knobs(asked),
            "lm": asked.lm,
            "passages": "gold" if asked.gold else f"retrieved, rerank {asked.rerank}",
            **({"untrained": list(asked.untrained)} if asked.untrained else {}),
            **scores,
        }
        return self._finished[folder]

    def measure(
        self,
        folder: Path,
        program: "dspy.Module",
        connection: "Connection",
        questions: "Sequence[Question]",
        contexts: "FixedContexts | None" = None,
    ) -> dict[str, Any]:
        """Ask what is not answered yet in the run in `folder`; return its scores, costs and counts of faults."""
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig

        summary = evaluate(
            program,
            questions,
            RunConfig(metrics=self.metrics, threads=self._threads, contexts=contexts),
            connection=connection,
            folder=folder,
            resume=self._resume,
        )
        return {
            "n": summary.answered,
            **{name: summary.metrics[name].as_dict() for name in self.metrics},
            **{name: summary.costs[name].as_dict() for name in COSTS},
            "errors": summary.errors,
            "parse_failures": summary.parse_failures,
            "truncated": summary.truncated,
            "abstentions": summary.abstentions,
            "complete": summary.complete,
        }


class AskedOf(dspy.Predict):
    """A predictor with an LM of its own, which neither the state of its program nor an artifact contains.

    Args:
        signature: Of the predictor.
        lm: Asked in place of the program's.
    """

    def __init__(self, signature: Any, lm: Any):
        super().__init__(signature)
        self._other = lm

    def forward(self, **inputs: Any) -> Any:
        """Return the prediction of the other LM."""
        with dspy.context(lm=self._other):
            return super().forward(**inputs)
