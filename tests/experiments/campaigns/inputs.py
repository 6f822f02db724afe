"""What is mutated, and the functions of the commands that read it; each returns what its input led to."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Config, ContextLengthError, Message, Request

from corpora.index import manifest
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.ingest.ingest import find_documents, read_document
from corpora.passages import read_passages, write_passages
from corpora.questions import Question, read_questions, write_questions
from corpora.retrievers.settings import make_settings
from experiments.analysis.compare import compare_runs
from experiments.analysis.export.inspect_log import write_inspect_log
from experiments.analysis.report.html import write_report
from experiments.analysis.traces import traces
from experiments.annotation.build_keyfacts import build_key_facts
from experiments.annotation.judge_runs import judge_runs
from experiments.pipeline.evaluate import evaluate
from experiments.pipeline.merging.merge import merge
from experiments.pipeline.scoring.score import score_run
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.pipeline.setup import with_artifact_defaults
from experiments.runs.config import RunConfig
from experiments.runs.specs import ProgramSpec
from optimizers.metrics.catalog import get_metric
from optimizers.metrics.entailment.catalog import open_oracle
from programs.artifact import digest_of, freeze, load
from programs.genground import GenGround
from programs.lms.gguf import GgufEngine
from programs.lms.spec import LMSpec
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text
from signatures.types import Hop, Passage
from tests.experiments.campaigns import continued
from tests.experiments.campaigns.continued import root_of
from tests.experiments.campaigns.samples import EMBEDDER, QUERIES, connection, passages, questions, retriever
from tests.tiny_gguf import write_tiny_gguf


@dataclass(frozen=True)
class Input:
    """One kind of input.

    Args:
        make: Writes a valid one into an empty folder.
        use: Reads it as the commands do, and returns what it led to, as JSON values.
        seal: Computes the digests anew, as an attacker would; None if there are none.
        protected: Whether digests promise that a changed file is refused or gives the same result.
        files: Pattern of the files that are mutated.
    """

    make: Callable[[Path], object]
    use: Callable[[Path], Any]
    seal: Callable[[Path], None] | None = None
    protected: bool = False
    files: str = "**/*"


def _make_artifact(folder: Path) -> None:
    program = GenGround(retriever(), k=3)
    hop = Hop(question="h?", answer="x", evidence="e", passage_ids=["p1"])
    program.deduction.demos = [
        dspy.Example(augmented=True, question="Q?", hops=[hop], finished=False, sub_question="s?", answer="b")
    ]
    freeze(program, folder / "artifact", corpus="list", data={"index": "../index"}, optimizer={"name": "labeled"})


def _use_artifact(folder: Path) -> Any:
    with_artifact_defaults(ProgramSpec(artifact=folder / "artifact"), LMSpec())
    program = load(folder / "artifact", retriever())
    link, engine = connection()
    with link.use():
        answer = program(question="Where?").answer
    return [answer, [[str(request.system), str(request.messages)] for request in engine.requests]]


def _seal_artifact(folder: Path) -> None:
    path = folder / "artifact" / "artifact.json"
    record = json.loads(path.read_bytes())
    record["state_sha256"] = sha256_file(folder / "artifact" / "program.json")
    path.write_text(json.dumps({**record, "digest": digest_of(record)}))


def _index(retriever: str, dense_kind: str = "auto", files: str = "**/*") -> Input:
    def make(folder: Path) -> None:
        write_passages(folder.parent / f"{folder.name}.jsonl", passages())
        chosen = make_settings(dense_kind=dense_kind)
        corpus = folder.parent / f"{folder.name}.jsonl"
        build_index(corpus, folder, retriever=retriever, embedder=EMBEDDER, settings=chosen)

    def use(folder: Path) -> Any:
        retrieve = open_index(folder, embedder=EMBEDDER)
        return [[passage.model_dump() for passage in found] for k in (5, 60) for found in retrieve.many(QUERIES, k)]

    return Input(make, use, _seal_index, protected=True, files=files)


def _seal_index(folder: Path) -> None:
    path = folder / "index.json"
    content = json.loads(path.read_bytes())
    content.pop("digest", None)
    for name in content["files"]:
        if (folder / name).is_file():
            info = {"bytes": (folder / name).stat().st_size, "digest": manifest.file_digest(folder / name)}
            content["files"][name] = info
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**content, "digest": sha256_text(canonical)}))


def _corpus(suffix: str) -> Input:
    """A corpus beside its index: what the index accepts must be the corpus that it was built from."""

    def make(folder: Path) -> None:
        path = folder / f"passages.jsonl{suffix}"
        write_passages(path, passages())
        build_index(path, folder.parent / "index-of-corpus", retriever="bm25", overwrite=True)

    def use(folder: Path) -> Any:
        read = [passage.model_dump() for passage in read_passages(folder / f"passages.jsonl{suffix}")]
        open_index(root_of(folder) / "originals" / "index-of-corpus", folder / f"passages.jsonl{suffix}")
        return read

    return Input(make, use, protected=True)


def _run(folder: Path, asked: Sequence[Question], *, resume: bool = False) -> Any:
    link, _ = connection()
    config = RunConfig(metrics=["em", "f1[squad]", "passage_recall@5"], threads=2)
    return evaluate(RAG(retriever(), k=2), asked, config, connection=link, folder=folder, resume=resume, progress=False)


def _make_run(folder: Path) -> None:
    _run(folder / "run", questions())


def _use_run(folder: Path) -> Any:
    other = root_of(folder) / "originals" / "run" / "run"
    scored = ScoreConfig(metrics=[get_metric("acc[substring]")], progress=False)
    results: list[Any] = []
    for read in (
        lambda: compare_runs([folder / "run", other]).as_dict(),
        lambda: str(compare_runs([other, folder / "run"]).as_table()),
        lambda: len(write_report([folder / "run"], folder / "report.html").read_text()),
        lambda: len(write_report([folder / "run", other], folder / "both.html").read_text()),
        lambda: str(traces([folder / "run"], "q1").as_table()),
        lambda: _judge(folder / "judged", [folder / "run", other]),
        lambda: write_inspect_log(folder / "run", folder / "run.eval").samples,
        lambda: merge([folder / "run"], folder / "merged").summary.as_dict(),
        lambda: _run(folder / "run", questions(), resume=True).as_dict(),
        lambda: score_run(folder / "run", scored).summary.as_dict(),
    ):
        results.append(_or_refusal(read))
    return _all_or_refusal(results)


def _judge(out: Path, runs: list[Path], *, resume: bool = False) -> Any:
    link, _ = connection()
    corpus = {passage.id: passage for passage in retriever()("", 5)}
    return judge_runs(runs, corpus, connection=link, out=out, threads=2, resume=resume).as_dict()


def _make_judged(folder: Path) -> None:
    for name in ("a", "b"):
        _run(folder / name, questions())
    _judge(folder / "judged", [folder / "a", folder / "b"])


def _use_judged(folder: Path) -> Any:
    return _judge(folder / "judged", [folder / "a", folder / "b"], resume=True)


def _make_questions(folder: Path) -> None:
    write_questions(folder / "questions.jsonl", questions())
    _run(folder / "run", questions())


def _use_questions(folder: Path) -> Any:
    """Resume a finished run with the questions; `run.json` holds their digest."""
    asked = read_questions(folder / "questions.jsonl")
    _run(folder / "run", asked, resume=True)
    return [question.model_dump() for question in asked]


def _key_facts(folder: Path, *, resume: bool) -> Any:
    link, _ = connection()
    corpus: dict[str, Passage] = {passage.id: passage for passage in read_passages(folder / "passages.jsonl")}
    asked = read_questions(folder / "questions.jsonl")
    oracle = open_oracle("lexical")
    built = build_key_facts(asked, corpus, connection=link, oracle=oracle, out=folder / "out", resume=resume)
    return [asdict(built), [item.model_dump() for item in read_questions(folder / "out" / "questions.jsonl")]]


def _make_key_facts(folder: Path) -> None:
    write_passages(folder / "passages.jsonl", passages())
    write_questions(folder / "questions.jsonl", questions())
    _key_facts(folder, resume=False)


def _use_gguf(folder: Path) -> Any:
    engine = GgufEngine(str(folder / "model.gguf"))
    request = Request(model="tiny", messages=(Message.user("he"),), config=Config(max_tokens=3))
    try:
        return str(engine.complete(request).message)
    except ContextLengthError as error:  # the file says that few tokens fit
        return str(error)


def _make_documents(folder: Path) -> None:
    (folder / "a.md").write_text(
        "---\ntitle: Lamps\n---\n# Oil\n\n| a | b |\n|---|---|\n| 1 | *2* |\n\nLamps burn oil.\n"
    )
    (folder / "b.html").write_text("<title>Wax</title><main><h1>Wax</h1><ul><li>Bees<li>make</ul><p>wax.</main>")
    (folder / "c.txt").write_text("The lamp burns.\f\nThe wick \u2013 of cotton \u2013 lasts.", encoding="utf-16")


def _use_documents(folder: Path) -> Any:
    files = find_documents([folder]).sources
    results = [_or_refusal(lambda file=file: read_document(file)) for file in files.values()]  # type: ignore[misc]
    return _all_or_refusal(results)


def _or_refusal(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except UserError as error:
        return error


def _all_or_refusal(results: list[Any]) -> Any:
    """Return the results, or raise the refusal if every reader refused."""
    refusals = [result for result in results if isinstance(result, Exception)]
    if len(refusals) == len(results):
        raise refusals[0]
    return [str(result) for result in results]


_TRAINED = continued.make_training
INPUTS: dict[str, Input] = {
    "artifact": Input(_make_artifact, _use_artifact, _seal_artifact, protected=True, files="artifact/*"),
    "study": Input(continued.tune, partial(continued.tune, trials=4, resume=True), files="study/study.db"),
    "study journal": Input(
        partial(continued.tune, storage=continued.JOURNAL),
        partial(continued.tune, storage=continued.JOURNAL, trials=4, resume=True),
        files="*.jsonl",
    ),
    "training": Input(_TRAINED, continued.use_training, files="stopped/**/*"),
    "adapter": Input(_TRAINED, continued.use_adapter, files="adapter/*"),
    "settings": Input(continued.make_settings_file, continued.use_settings_file),
    "faiss": _index("dense", "ivf_rabitq", files="dense/*"),
    "tantivy": _index("bm25", files="bm25/*"),
    "index bm25": _index("bm25"),
    "index bm25s": _index("bm25s"),
    "index dense flat": _index("dense"),
    "index dense rabitq": _index("dense", "rabitq"),
    "index dense ivf_rabitq": _index("dense", "ivf_rabitq"),
    "index hybrid": _index("hybrid"),
    "corpus jsonl": _corpus(""),
    "corpus gz": _corpus(".gz"),
    "corpus zst": _corpus(".zst"),
    "corpus bz2": _corpus(".bz2"),
    "questions": Input(_make_questions, _use_questions, protected=True, files="questions.jsonl"),
    "run": Input(_make_run, _use_run, files="run/*.json*"),
    "judgements": Input(_make_judged, _use_judged, files="judged/*.json*"),
    "gguf": Input(lambda folder: write_tiny_gguf(folder / "model.gguf"), _use_gguf, files="model.gguf"),
    "documents": Input(_make_documents, _use_documents),
    "key facts": Input(_make_key_facts, lambda folder: _key_facts(folder, resume=True), files="**/*.jsonl"),
}
