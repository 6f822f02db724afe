"""SHA-256 of the public files, and parts of files, that the converters are tested on (`../shared/data`).

A conversion reports if its source is one of them, for example WebGLM's 400 questions. For fetched files the checksum
is recorded at the first download instead (see `fetch.py`).
"""

from dataclasses import dataclass
from pathlib import Path

from signatures.common.files import sha256_file


@dataclass(frozen=True)
class KnownFile:
    """A file with a known checksum.

    Args:
        dataset: The key of DATASETS that converts it.
        sha256: Hexadecimal, of its bytes.
        size: Bytes.
        questions: Number of converted questions.
        passages: Number of distinct converted passages.
    """

    dataset: str
    sha256: str
    size: int
    questions: int = 0
    passages: int = 0


CHECKSUMS: dict[str, KnownFile] = {
    "hotpotqa/hotpot_train_100.json": KnownFile(
        "hotpotqa",
        "f103dbdf02296fa846475c970ef9394d297b1742b9119e45707dd51cd43ad639",
        625_967,
        questions=100,
        passages=994,
    ),
    "hotpotqa/hotpot_dev_100.hf.jsonl": KnownFile(
        "hotpotqa",
        "1f16235c95a2669a516e43b35ca9912fe60a170c17b4da26e8e7e6d816f5d506",
        644_039,
        questions=100,
        passages=1_000,
    ),
    "hotpotqa/hotpot_dev_500.ircot.jsonl": KnownFile(
        "hotpotqa",
        "dea098d9433501b0cb53887e788e4ecc6f63d5137cb00b0fae6315dd6f42b92b",
        3_286_089,
        questions=500,
        passages=4_858,
    ),
    "2wikimultihopqa/2wiki_train.json": KnownFile(
        "2wikimultihopqa",
        "99fe0e782dc8c068a974cb0c5f10cafebd9454dbafb3e5d764bf8529b142b47f",
        2_248_717,
        questions=494,
        passages=3_088,
    ),
    "2wikimultihopqa/corpus_6119.json": KnownFile(
        "plain",
        "9d6e352952aafb18dab22bf8195039461321a44a949df902ae83bce134ad238a",
        3_083_943,
        passages=6_119,
    ),
    "musique/musique_ans_train_100.jsonl": KnownFile(
        "musique",
        "940a5606220652d8d168b7ff93f3a8608dcfc4b0bd1b7356b5aa416a00d780e8",
        1_171_331,
        questions=100,
        passages=1_890,
    ),
    "musique/corpus_1890.json": KnownFile(
        "plain",
        "79845dd085f9df49c8ce440208763e2611aeb86c81ee0bdad2094504381bb651",
        974_514,
        passages=1_890,
    ),
    "strategyqa/strategyqa_train.json": KnownFile(
        "strategyqa",
        "0f72560b8a6fad3db847d2f1a7524fb087297843bb45a8d3245ffd68cbe0de12",
        3_857_762,
        questions=2_061,
    ),
    "strategyqa/strategyqa_dev_100.json": KnownFile(
        "strategyqa",
        "828003e6c446d42566aefa1c576104f9d0aea1d13c8ad03497d59e3bae925924",
        82_351,
        questions=100,
    ),
    "strategyqa/paragraphs_998.jsonl": KnownFile(
        "strategyqa",
        "7ff582567af09a2211a9d055f6366db7e4c63869bae752340846a9317422c705",
        772_317,
        passages=998,
    ),
    "nq_open/nq_open_400.jsonl": KnownFile(
        "nq_open",
        "58b20ed22a30a5f5f357f767cd536ea48ecc6886547ccbcf00d779e71d222a77",
        43_359,
        questions=400,
    ),
    "nq_open/qed_dev_1355.jsonl": KnownFile(
        "nq_open",
        "2ea322b71a333023380c3954083b81af2d5670c8ac47ddec58c843233895c429",
        2_244_232,
        questions=1_355,
        passages=1_343,
    ),
    "nq_open/nq_open_oracle_2655.jsonl.gz": KnownFile(
        "nq_open",
        "6a7f72b846f663a133ef952244e5a4e43f06bcf190afe34e8fbe687ce0d1653e",
        900_334,
        questions=2_655,
        passages=2_588,
    ),
    "web_questions/web_questions_400.jsonl": KnownFile(
        "web_questions",
        "64cba53be30889747ac2e453e8229ae8542a634b1839dd6ae853f65876d5ad8a",
        46_360,
        questions=400,
    ),
    "triviaqa/triviaqa_1000.jsonl": KnownFile(
        "triviaqa",
        "4a46971e676400b102885b4690f26014cbfed71d6d9785f134b22182170e58e3",
        397_059,
        questions=1_000,
    ),
    "mintaka/mintaka_sample_7.json": KnownFile(
        "mintaka",
        "0b41c4065fbffc5e6cd5e32214436ec44d09f47b364f12f767ff0366db19e907",
        4_142,
        questions=7,
    ),
    "halluqa/HalluQA.json": KnownFile(
        "halluqa",
        "c21fff0bb3cdc4a2a885930e9291ca26af1e70174ee9e7b785c300023d55ea66",
        580_146,
        questions=450,
    ),
}


def known_file(source: str | Path) -> str | None:
    """Return the name in CHECKSUMS of the file with the content of `source`; None if there is none."""
    path = Path(source)
    if not path.is_file():
        return None
    same_size = {name: file for name, file in CHECKSUMS.items() if file.size == path.stat().st_size}
    digest = sha256_file(path) if same_size else ""
    return next((name for name, file in same_size.items() if file.sha256 == digest), None)
