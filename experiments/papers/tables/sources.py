"""The questions and passages of a column: converted from a folder of official files, or the generated world."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.papers.tables.spec import Column
from signatures.common.errors import UserError

WORLD = "world"
_WORLD_QUESTIONS, _SEED = 300, 0
# Files that are taken where the folder has no development set of ours: the data set, the questions, then the passages.
FILES: dict[str, tuple[str, ...]] = {
    "hotpotqa": ("hotpotqa", "hotpot_dev_distractor_v1.json"),
    "strategyqa": ("strategyqa", "strategyqa_dev_100.json", "paragraphs_998.jsonl"),
    "nq_open": ("nq_open", "nq_open_400.jsonl"),
    "nq_qed": ("nq_open", "qed_dev_1355.jsonl"),
    "bamboogle": ("bamboogle", "bamboogle.csv"),
    "nq_oracle": ("nq_open", "nq_open_oracle_2655.jsonl.gz"),
    "web_questions": ("web_questions", "web_questions_400.jsonl"),
    "triviaqa": ("triviaqa", "triviaqa_1000.jsonl"),
    "halluqa": ("halluqa", "HalluQA.json"),
    "hover": ("hover", "hover_train_release_v1.1.json"),
}


@dataclass(frozen=True)
class Source:
    """Questions and their corpus.

    Args:
        name: The subset if it could be taken, else the data set or the world.
        passages: None if the benchmark has none.
        index: Of the passages; need not exist.
    """

    name: str
    questions: Path
    passages: Path | None
    index: Path


def dataset_of(source: Source) -> str:
    """Return the name of a source as `verihop data list` has it."""
    return FILES.get(source.name, (source.name,))[0]


def fetching(name: str, data: Path) -> list[str]:
    """Return the commands that download the files of a source to where they are found; [] if there are none."""
    from corpora.datasets.catalog import DATASETS

    dataset, *files = FILES.get(name, (name,))
    there = DATASETS[dataset].files if dataset in DATASETS else {}
    if not all(file in there for file in files):
        return []
    lines = [["verihop", "data", "fetch", dataset, "--file", file, "--out", str(data / dataset)] for file in files]
    return [shlex.join(line) for line in lines]


def names(column: Column, data: str) -> list[str]:
    """Return the names that the source of a column can have, the best first."""
    return [WORLD] if WORLD in (data, column.data) else [name for name in (column.subset, column.data) if name]


def open_source(column: Column, data: str, work: Path) -> Source:
    """Return the questions of a column, converted under `work` unless they are there.

    Args:
        data: A folder with `<data set>/questions.jsonl` or official files, or "world".
        work: Folder for what is converted.

    Raises:
        UserError: They are not there, or broken; the message says what to run.
    """
    if WORLD in (data, column.data):
        return _world(work / "data" / WORLD)
    given = Path(data) / column.data
    folder = given if (given / "questions.jsonl").is_file() else work / "data" / column.data
    if not (folder / "questions.jsonl").is_file():
        _convert(column.data, Path(data), folder)
    passages = next(iter(sorted(folder.glob("passages.jsonl*"))), None)
    own = folder / "index"
    index = own if own.is_dir() else work / "data" / column.data / "index"
    return _subset(column, Source(column.data, folder / "questions.jsonl", passages, index), work)


def indexed(source: Source, *, progress: bool) -> Path:
    """Return the index of a source with passages, built unless it is there."""
    from corpora.index.build import build_index

    if source.passages is None:
        raise UserError(f"{source.name} has no passages of its own: name an index (--index).")
    if not (source.index / "index.json").is_file():
        kind = "bm25" if source.name == WORLD else "hybrid"
        build_index(source.passages, source.index, retriever=kind, resume=source.index.exists(), progress=progress)
    return source.index


def _world(folder: Path) -> Source:
    from experiments.world.generate import PASSAGES, QUESTIONS, generate

    if not (folder / QUESTIONS).is_file():
        generate(folder, questions=_WORLD_QUESTIONS, seed=_SEED)
        _name_gold(folder / QUESTIONS, folder / PASSAGES)
    return Source(WORLD, folder / QUESTIONS, folder / PASSAGES, folder / "index")


def _name_gold(questions: Path, passages: Path) -> None:
    """Add the titles of the gold passages, for metrics that compare titles."""
    from corpora.passages import read_passages
    from corpora.questions import read_questions, write_questions

    title_of = {passage.id: passage.title for passage in read_passages(passages)}
    asked = read_questions(questions)
    named = (each.model_copy(update={"gold_titles": [title_of[id] for id in each.gold_ids]}) for each in asked)
    write_questions(questions, named)


def _convert(name: str, data: Path, folder: Path) -> None:
    """Write questions and passages of a data set from its files.

    Raises:
        UserError: No file that is known is there.
    """
    from corpora.datasets.convert import convert
    from corpora.datasets.development import DEVELOPMENT, convert_development

    development = DEVELOPMENT.get(f"{name}-dev")
    if development is not None and all((data / file).is_file() for file in development.files):
        convert_development(f"{name}-dev", data, folder, overwrite=True)
        return
    dataset, *parts = FILES.get(name, (name,))
    files = [data / dataset / file for file in parts]
    if not files or not all(file.is_file() for file in files):
        lines = [f"`{line}`" for line in fetching(name, data)]
        cure = f"run {' and '.join(lines)}" if lines else _by_hand(dataset, name, data)
        raise UserError(f"the questions of {name}, which are not in {data / name}: {cure}")
    for file in reversed(files):  # passages first, so that questions never stand without them
        convert(dataset, file, folder, overwrite=True)


def _by_hand(dataset: str, name: str, data: Path) -> str:
    """Return how to get the files of a data set of which no fixed ones are taken."""
    from corpora.datasets.catalog import DATASETS

    if (known := DATASETS.get(dataset)) is None or "://" not in known.source:  # files of the user's own
        return f"run `verihop data convert own FILE --out {data / name}`"
    get = f"download them from {known.source}"
    if known.files:
        get = f"run `verihop data fetch {dataset}{' --file FILE' if len(known.files) > 1 else ''} --out {data}`"
    return f"{get}, then `verihop data convert {dataset} FILE --out {data / name}`"


def _subset(column: Column, source: Source, work: Path) -> Source:
    """Return the subset of a column if the questions have it, else all of them."""
    from corpora.datasets.subsets import take
    from corpora.questions import read_questions, write_questions

    if column.subset is None:
        return source
    try:
        taken = take(column.subset, read_questions(source.questions))
    except UserError:  # a part of the benchmark: all that is there
        return source
    path = work / "data" / column.subset / "questions.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_questions(path, taken)
    return replace(source, name=column.subset, questions=path)
