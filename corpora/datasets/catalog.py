"""The benchmarks and corpora that verihop can convert: shapes, licence, source, and URLs of files to fetch.

URLs are those that the authors publish. Datasets without a URL are behind forms or shared drives: download their files
manually, or use a hub name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corpora.datasets.converters import (
    bamboogle,
    halluqa,
    hotpotqa,
    hover,
    mintaka,
    musique,
    nq_open,
    own,
    plain,
    squad,
    strategyqa,
    triviaqa,
    web_questions,
    wikimultihop,
    wikipedia,
)
from corpora.datasets.schema import Schema


@dataclass(frozen=True)
class Dataset:
    """One benchmark or corpus.

    Args:
        schemas: Its published shapes by name.
        licence: Of the data, as its authors state it.
        source: Where its official files are described.
        inside: Where the records are in a file that is one JSON object (see `readers.read_source`).
        files: Name of a file that `fetch` can download -> its URL.
    """

    schemas: Mapping[str, Schema]
    licence: str
    source: str
    inside: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def _under(base: str, *names: str) -> dict[str, str]:
    return {name: f"{base}/{name}" for name in names}


_GITHUB = "https://raw.githubusercontent.com"
_STANFORD = "https://nlp.stanford.edu"

DATASETS: dict[str, Dataset] = {
    "hotpotqa": Dataset(
        hotpotqa.SCHEMAS,
        "CC BY-SA 4.0",
        "https://hotpotqa.github.io",
        files=_under(
            "http://curtis.ml.cmu.edu/datasets/hotpot",
            "hotpot_train_v1.1.json",
            "hotpot_dev_distractor_v1.json",
            "hotpot_dev_fullwiki_v1.json",
        ),
    ),
    "2wikimultihopqa": Dataset(wikimultihop.SCHEMAS, "Apache-2.0", "https://github.com/Alab-NII/2wikimultihop"),
    "musique": Dataset(musique.SCHEMAS, "CC BY 4.0", "https://github.com/StonyBrookNLP/musique"),
    "strategyqa": Dataset(
        strategyqa.SCHEMAS,
        "MIT (BIG-bench: Apache-2.0)",
        "https://allenai.org/data/strategyqa",
        inside=strategyqa.INSIDE,
        files={
            "strategyqa_dataset.zip": "https://storage.googleapis.com/ai2i/strategyqa/data/strategyqa_dataset.zip",
            "task.json": f"{_GITHUB}/google/BIG-bench/main/bigbench/benchmark_tasks/strategyqa/task.json",
        },
    ),
    "nq_open": Dataset(
        nq_open.SCHEMAS,
        "CC BY-SA 3.0 (Natural Questions, QED); WebGLM's list: not stated",
        "https://github.com/google-research-datasets/natural-questions",
        files=_under(
            f"{_GITHUB}/google-research-datasets/natural-questions/master/nq_open",
            "NQ-open.train.jsonl",
            "NQ-open.dev.jsonl",
        ),
    ),
    "squad": Dataset(
        squad.SCHEMAS,
        "CC BY-SA 4.0",
        "https://rajpurkar.github.io/SQuAD-explorer",
        inside=squad.INSIDE,
        files=_under("https://rajpurkar.github.io/SQuAD-explorer/dataset", "train-v1.1.json", "dev-v1.1.json"),
    ),
    "web_questions": Dataset(
        web_questions.SCHEMAS,
        "CC BY 4.0; WebGLM's list: not stated",
        "https://nlp.stanford.edu/software/sempre",
        files=_under(
            f"{_STANFORD}/static/software/sempre/release-emnlp2013/lib/data/webquestions/dataset_11",
            "webquestions.examples.train.json.bz2",
            "webquestions.examples.test.json.bz2",
        ),
    ),
    "triviaqa": Dataset(
        triviaqa.SCHEMAS,
        "not stated (code: Apache-2.0)",
        "https://nlp.cs.washington.edu/triviaqa",
        inside=triviaqa.INSIDE,
        files=_under("https://nlp.cs.washington.edu/triviaqa/data", "triviaqa-unfiltered.tar.gz"),
    ),
    "mintaka": Dataset(
        mintaka.SCHEMAS,
        "CC BY 4.0",
        "https://github.com/amazon-science/mintaka",
        files=_under(
            f"{_GITHUB}/amazon-science/mintaka/HEAD/data",
            "mintaka_train.json",
            "mintaka_dev.json",
            "mintaka_test.json",
        ),
    ),
    "halluqa": Dataset(
        halluqa.SCHEMAS,
        "Apache-2.0",
        "https://github.com/OpenMOSS/HalluQA",
        files=_under(f"{_GITHUB}/OpenMOSS/HalluQA/HEAD", "HalluQA.json"),
    ),
    "hover": Dataset(
        hover.SCHEMAS,
        "CC BY-SA 4.0",
        "https://hover-nlp.github.io",
        files=_under(
            f"{_GITHUB}/hover-nlp/hover/main/data/hover",
            "hover_train_release_v1.1.json",
            "hover_dev_release_v1.1.json",
            "hover_test_release_v1.1.json",
        ),
    ),
    "bamboogle": Dataset(
        bamboogle.SCHEMAS,
        "not stated",
        "https://github.com/ofirpress/self-ask",
        files={
            "bamboogle.csv": "https://docs.google.com/spreadsheets/d/"
            "1jwcsA5kE4TObr9YHn9Gc-wQHYjTbLhDGx6tmIzMhl_U/export?format=csv"
        },
    ),
    "psgs_w100": Dataset(
        wikipedia.DPR_SCHEMAS,
        "CC BY-SA 3.0 (Wikipedia)",
        "https://github.com/facebookresearch/DPR",
        files=_under("https://dl.fbaipublicfiles.com/dpr/wikipedia_split", "psgs_w100.tsv.gz"),
    ),
    "hotpotqa_abstracts": Dataset(
        wikipedia.ABSTRACT_SCHEMAS,
        "CC BY-SA 4.0",
        "https://hotpotqa.github.io/wiki-readme.html",
        files=_under(
            f"{_STANFORD}/projects/hotpotqa", "enwiki-20171001-pages-meta-current-withlinks-abstracts.tar.bz2"
        ),
    ),
    "own": Dataset(own.SCHEMAS, "that of the file", "your questions: JSON lines, JSON array, .csv or .tsv"),
    "plain": Dataset(plain.SCHEMAS, "that of the file", "your passages: any JSON with title and text"),
}
