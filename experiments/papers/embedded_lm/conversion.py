"""Training data that are no files of a benchmark as published, converted to questions and passages.

Each converter yields items; what it leaves out is counted in their notes by reason. Of data with parts of several
licences, only the part whose licence is stated is read.

Sub-questions come from the derivations of R4C, triples of subject, relation and object that people wrote:
Inoue et al., "R4C: A Benchmark for Evaluating RC Systems to Get the Right Answer for the Right Reason", ACL 2020.
https://github.com/naoya-i/r4c
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import ujson

from corpora.datasets.convert import open_writer
from corpora.datasets.converters.hotpotqa import read_hotpotqa
from corpora.datasets.readers import read_source
from corpora.datasets.schema import Item, text_id
from corpora.kinds import choices
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from experiments.papers.embedded_lm.compositions import Composer
from experiments.papers.embedded_lm.stated_facts import MONTHS
from optimizers.distill.gold.catalog import CLAIM
from signatures.common.files import atomic_write
from signatures.text_words import contains_words, count_words, same_words, text_words

COUNTS = "counts.json"  # beside the converted files: what was left out, by reason
SHARED, CONTAINS_RIGHT, NO_SHORT_WRONG, NO_PARAGRAPHS, REFUSED = (
    "gold_shared_with_dev", "wrong_answer_contains_right", "wrong_answer_not_short", "paragraphs_not_at_hand",
    "licence_not_stated",
)  # fmt: skip
Records = Iterator[Mapping[str, Any]]


def write_items(items: Iterator[Item], folder: Path) -> None:
    """Write questions, passages and the counts of what was left out into a folder; the questions appear last."""
    with open_writer(folder / "questions.jsonl", folder / "passages.jsonl") as writer:
        for number, item in enumerate(items, 1):
            writer.write(f"record {number}", item)
        reasons = {name: writer.counts[name] for name in _REASONS if writer.counts[name]}
        with atomic_write(folder / COUNTS) as file:
            ujson.dump(reasons, file)


_REASONS = (SHARED, CONTAINS_RIGHT, NO_SHORT_WRONG, NO_PARAGRAPHS, REFUSED)


def left_out_of(folder: Path) -> dict[str, int]:
    """Return how many records of a converted source were left out, by reason."""
    file = folder / COUNTS
    return dict(ujson.loads(file.read_text("utf-8"))) if file.is_file() else {}


def _records(path: Path) -> Records:
    return (record for _, record in read_source(str(path))[0])


def _left_out(reason: str) -> Item:
    return Item(None, notes=Counter({reason: 1}))


def read_statements(path: Path) -> Iterator[Item]:
    """Yield questions whose gold is statements without titles: each is a passage of its own.

    They are gold sentences of HotpotQA (`evidence`).
    """
    for record in _records(path):
        question, answers = record["question"].strip(), [record["answer"]]
        name = text_id(question)
        passages = [PassageRecord(id=f"{name}-{number}", text=text) for number, text in enumerate(record["evidence"])]
        gold = [passage.id for passage in passages]
        made = Question(id=name, question=question, answers=answers, gold_ids=gold, split="train")
        yield Item(made, passages, has_id=False)


def read_hotpotqa_train(path: Path) -> Iterator[Item]:
    """Yield HotpotQA's train questions in their official form, with the hops of R4C's derivations.

    Those whose gold is gold of a development question are left out, by their mark.
    """
    for record in _records(path):
        if record.get("gold_shared_with_dev"):
            yield _left_out(SHARED)
            continue
        item = read_hotpotqa(record, "train")
        assert item.question is not None
        by_title = {passage.title: passage for passage in item.passages}
        steps = _sub_questions(record, by_title)
        yield Item(item.question.model_copy(update={"sub_questions": steps}), item.passages, item.notes)


def read_hotpotqa_gold(path: Path) -> Iterator[Item]:
    """Yield HotpotQA's train questions with their two gold paragraphs, and the hops of R4C's derivations."""
    for record in _records(path):
        yield _left_out(SHARED) if record.get("gold_shared_with_dev") else _gold_item(record)


def _gold_item(record: Mapping[str, Any], **more: Any) -> Item:
    named = zip(record["titles"], record["paragraphs"], strict=True)
    passages = [paragraph(title or _first_name(text), text) for title, text in named]
    question = Question(
        id=record["_id"],
        question=record["question"].strip(),
        answers=[record["answer"]],
        gold_ids=list(dict.fromkeys(passage.id for passage in passages)),
        sub_questions=_sub_questions(record, _by_stated_title(record, passages)),
        type=record["type"],
        split="train",
        **more,
    )
    return Item(question, passages)


def _first_name(text: str) -> str:
    """Return the name that a paragraph begins with, as its title; "" if it begins with none."""
    found = _OPENING.match(text)
    return found[1].strip(' "') if found and count_words(found[1]) <= _LONGEST_TITLE else ""


_LONGEST_TITLE = 10  # words
_OPENING = re.compile(r'(?:"|(?:The|A|An) (?=[a-z]))?([A-Z0-9].+?)(?: \(|"? (?:is|was|are|were)\b|, )')


def _by_stated_title(record: Mapping[str, Any], passages: Sequence[PassageRecord]) -> dict[str, PassageRecord]:
    """Return the paragraphs by the titles of the derivations; a paragraph without a title begins with its name."""
    found = {passage.title: passage for passage in passages if passage.title}
    stated = {title for derivation in record.get("derivations") or [] for title, _, _ in derivation}
    for title in stated - found.keys():
        first = text_words(re.sub(r"\s*\([^)]*\)$", "", title))[:1]
        starts = [passage for passage in passages if first and first[0] in text_words(passage.text)[:8]]
        if len(starts) == 1:
            found[title] = starts[0]
    return found


def _sub_questions(record: Mapping[str, Any], by_title: Mapping[str, PassageRecord]) -> list[SubQuestion]:
    """Return the hops of the derivations; none unless the paragraph of each hop is known and states its answer."""
    steps = steps_of(record["question"], record["answer"], record.get("derivations") or [])
    hops = []
    for step in steps:
        passage = by_title.get(step.title)
        if passage is None or not contains_words(passage.text, step.answer):
            return []
        hops.append(SubQuestion(question=step.question, answer=step.answer, gold_ids=[passage.id]))
    return hops


GOLD_FILE = "hotpotqa_train_gold.jsonl.gz"  # the paragraphs of HaluEval's questions


def read_halueval(path: Path) -> Iterator[Item]:
    """Yield HotpotQA's questions with the wrong answers that an LM gave them, and their two gold paragraphs.

    A wrong answer that contains the right one, or whose deciding words cannot be told, is left out: right answers are
    short, so that a sentence would give itself away.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in _records(path):
        rows.setdefault(same_words(row["question"]), []).append(row)
    for record in _records(path.with_name(GOLD_FILE)):
        asked = rows.pop(same_words(record["question"]), [])
        if record.get("gold_shared_with_dev"):
            yield Item(None, notes=Counter({SHARED: len(asked)}))
        elif asked:
            yield _with_wrong_answers(record, asked)
    yield Item(None, notes=Counter({NO_PARAGRAPHS: sum(map(len, rows.values()))}))


def _with_wrong_answers(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Item:
    notes: Counter[str] = Counter()
    wrong: list[str] = []
    for row in rows:
        right, given = record["answer"], row["hallucinated_answer"]
        if contains_words(given, right) or contains_words(given, row["right_answer"]):
            notes[CONTAINS_RIGHT] += 1
        elif (short := short_wrong(record["question"], right, given)) is None:
            notes[NO_SHORT_WRONG] += 1
        else:
            wrong.append(short)
    if not wrong:
        return Item(None, notes=notes)
    item = _gold_item(record, wrong_answers=list(dict.fromkeys(wrong)))
    return Item(item.question, item.passages, notes)


_SHORT = 4  # words
_NUMBER = re.compile(
    rf"(?:(?:{MONTHS})(?: \d{{1,2}},?)? )?(?<![\w.,])(?>\d[\d,.]*\d|\d)(?!\w| (?:hundred|thousand|million|billion))"
)
_NAME = re.compile(r"(?:[A-Z][\w'.-]*|of the|of|the|and|de)(?: (?:[A-Z][\w'.-]*|of the|of|the|and|de))*")


def short_wrong(question: str, right: str, given: str) -> str | None:
    """Return the deciding words of a wrong answer; None if they cannot be told.

    They are the other of two choices that the question offers, else the answer itself if it is short, else its only
    number, where the right answer has one, else the last of its names; what the question says is none, nor what the
    right answer contains or is contained in.
    """
    short = _deciding(question, right, given.strip().rstrip("."))
    alike = short is not None and (contains_words(right, short) or contains_words(short, right))
    return None if alike else short


def _deciding(question: str, right: str, given: str) -> str | None:
    if not given:
        return None
    offered = choices(question, [right])
    if offered is not None:
        return next((each for each in offered if same_words(each) != same_words(right)), None)
    if count_words(given) <= _SHORT:
        return given
    if any(map(str.isdigit, right)):
        numbers = [text for text in _NUMBER.findall(given) if not contains_words(question, text)]
        return numbers[0] if len(numbers) == 1 else None
    named = [_NAMED_ENDS.sub("", match[0]) for match in _NAME.finditer(given) if match.start()]
    others = [text for text in named if text[:1].isupper() and not contains_words(right, text)]
    choice = contains_words(question, right)
    found = [text for text in others if contains_words(question, text) == choice]
    return found[-1] if found else None


_NAMED_ENDS = re.compile(r"^(?:(?:of|the|and|de) )+|(?: (?:of|the|and|de))+$")


def read_claims(path: Path) -> Iterator[Item]:
    """Yield SciFact's claims, each with the sentences that were judged; the other parts state no licence."""
    for record in _records(path):
        if record["source"] != "scifact":
            yield _left_out(REFUSED)
            continue
        passage = paragraph("", record["evidence"][0])
        claim = record["claim"].strip()
        name = f"{text_id(claim)}-{passage.id}"
        answer = "yes" if record["label"] == "supported" else "no"
        gold = Question(id=name, question=claim, answers=[answer], gold_ids=[passage.id], type=CLAIM, split="train")
        yield Item(gold, [passage], has_id=False)


def read_proofs(path: Path) -> Iterator[Item]:
    """Yield EntailmentBank's questions: each premise is a passage, `inferences` are the conclusions in their order."""
    for record in _records(path):
        passages = {paragraph("", _sentence(text)).id: _sentence(text) for text in record["sentences"].values()}
        steps = [step.strip() for step in record["proof"].split(";") if "->" in step]
        stated = [step.partition(": ")[2] or record["hypothesis"] for step in steps]
        question = Question(
            id=record["id"],
            question=record["question"].strip(),
            answers=[record["answer"].strip().rstrip(".")],
            gold_ids=list(passages),
            split="train",
            inferences=[_sentence(text) for text in stated],
        )
        yield Item(question, [paragraph("", text) for text in passages.values()], has_id=False)  # one id is used twice


def _sentence(text: str) -> str:
    """Return a statement as a sentence: with a capital letter and a full stop, and no space before punctuation."""
    text = re.sub(r"\s+([,.;])", r"\1", text.strip())
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def compose_2wikimultihopqa(path: Path) -> Iterator[Item]:
    """Yield questions composed of what the paragraphs of 2WikiMultihopQA's corpus state."""
    return _composed([paragraph(record["title"], record["text"]) for record in ujson.loads(path.read_bytes())], 6000)


def compose_hotpotqa(path: Path) -> Iterator[Item]:
    """Yield questions composed of what the paragraphs of HotpotQA's train questions state."""
    found = {passage.id: passage for item in read_hotpotqa_train(path) for passage in item.passages}
    return _composed(list(found.values()), 4000)


def _composed(passages: Sequence[PassageRecord], most: int) -> Iterator[Item]:
    by_id = {passage.id: passage for passage in passages}
    for question in Composer(passages, seed=0).questions(most):
        yield Item(question, [by_id[name] for name in question.gold_ids])


Converter = Callable[[Path], Iterator[Item]]
CONVERTERS: dict[str, Converter] = {
    "hotpotqa-evidence": read_statements,
    "hotpotqa-train": read_hotpotqa_train,
    "hotpotqa-gold": read_hotpotqa_gold,
    "halueval": read_halueval,
    "scifact": read_claims,
    "entailment-bank": read_proofs,
    "2wikimultihopqa-composed": compose_2wikimultihopqa,
    "hotpotqa-composed": compose_hotpotqa,
}
"""Name of a source -> its converter; a source without one is a file of its benchmark."""


_LONGEST = 8  # words of an answer
_PRONOUNS = frozenset("he she it they his her its their this that these those".split())
_BRACKETS = re.compile(r"\s*\([^)]*\)")
_IS = re.compile(r"(is|was|are|were)\b\s*(.*)", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:an?|the)$", re.IGNORECASE)
_YEAR = re.compile(r"\b\d{3,4}\b")
_PLACES = re.compile(r"(.*\b(?:located|born|based|situated|headquartered|found|raised|set))\s*(?:in|at|near)?")
_BY_PEOPLE = re.compile(
    r".*\b(?:directed|written|led|hosted|composed|produced|founded|designed|created|played|sung|owned|voiced|recorded|"
    r"published|released|performed|coached|edited|co-written|starred|portrayed) by"
)
_SAID = re.compile(r"(?:\w+ed|won|stars|features|plays|hosts|has|wrote|sang)(?: (?:in|for|at|on|by|with|as|to|from))?")
_ENDS_OPEN = re.compile(r"(?:the )?[\w -]+ (?:of|as|for|by|with|after)|(?:from|known as)")
_NAMES = re.compile(r"(?:an?|the|their|his|her|its)\b|[A-Z0-9\"$£€]|\w+(?: \w+)?$")
_GOES_ON = re.compile(
    r"(?:and|which|who|whose|that|to|of|in|with|for|refers)\b|.*\b(?:which|who|whose)\b", re.IGNORECASE
)


class Step(NamedTuple):
    """A hop: its sub-question, the answer, and the title of the paragraph that states it."""

    question: str
    answer: str
    title: str


class _Triple(NamedTuple):
    title: str
    subject: str
    relation: str
    object: str


def steps_of(question: str, answer: str, derivations: Sequence[Sequence[Sequence[Any]]]) -> list[Step]:
    """Return the hops of the first derivation that leads to the answer; empty if none does.

    It leads there if its triples can be asked in some order: the subject of the next one is named by the question or by
    an answer before. What comes after the answer is left out, unless the question names its answer, or asks yes or no.

    Args:
        question: Of HotpotQA.
        answer: Its answer.
        derivations: Of several people, each a list of [title, sentence number, [subject, relation, object]].
    """
    for derivation in derivations:
        triples = [_triple(item) for item in derivation]
        steps = _in_order(question, triples)
        if contains_words(question, answer) or answer in ("yes", "no"):
            found = steps
        else:
            stated = next((place for place, step in enumerate(steps, 1) if _same(step.answer, answer)), 0)
            found = steps[: max(stated, 2)] if stated else []
        if len(found) > 1:
            return found
    return []


def _triple(item: Sequence[Any]) -> _Triple:
    title, _, words = item
    subject, relation, value = (unescape(str(text)).strip() for text in words)
    return _Triple(unescape(str(title)).strip(), subject, relation, value)


def _in_order(question: str, triples: Sequence[_Triple]) -> list[Step]:
    """Return the triples as hops in an order in which they can be asked; empty if one cannot be."""
    left, steps, known = list(triples), [], [question]
    while left:
        triple = next((one for one in left if any(_names(text, one.subject) for text in known)), None)
        asked = ask(triple.subject, triple.relation, triple.object) if triple is not None else None
        if triple is None or asked is None:
            return []
        value = triple.object.rstrip(" .")
        steps.append(Step(asked, value, triple.title))
        known.append(value)
        left.remove(triple)
    return steps


def _names(text: str, subject: str) -> bool:
    return contains_words(text, _BRACKETS.sub("", subject))


def _same(one: str, other: str) -> bool:
    return contains_words(one, other) or contains_words(other, one)


def ask(subject: str, relation: str, value: str) -> str | None:
    """Return the question for the object of a triple; None where the triple cannot be worded as one.

    Args:
        subject: A name.
        relation: What people wrote between both: "is directed by", "was a", "starred in".
        value: The object, at most eight words.
    """
    subject, relation, value = (text.strip(" .") for text in (_BRACKETS.sub("", subject), relation, value))
    if not subject or not value or count_words(value) > _LONGEST or count_words(subject) > _LONGEST:
        return None
    if _GOES_ON.match(value) or not _NAMES.match(value) or subject.split()[0].lower() in _PRONOUNS:
        return None
    found = _IS.fullmatch(relation)
    if found:
        return _ask_what_is(subject, found[1].lower(), found[2].strip(), value)
    return f"{subject} {relation} what?" if _SAID.fullmatch(relation) else None


def _ask_what_is(subject: str, verb: str, rest: str, value: str) -> str | None:
    when, where = bool(_YEAR.search(value)), _PLACES.fullmatch(rest)
    if not rest or _ARTICLE.fullmatch(rest):
        return f"When {verb} {subject}?" if when and value[:1].isdigit() else f"What {verb} {subject}?"
    if when and (dated := re.fullmatch(r"(.*\w)\s+(?:in|on)|(born|released|founded)", rest)):
        return f"When {verb} {subject} {dated[1] or dated[2]}?"
    if where and not when:
        return f"Where {verb} {subject} {where[1]}?"
    if _BY_PEOPLE.fullmatch(rest):
        return f"Who {verb} {subject} {rest}?"
    return f"What {verb} {subject} {rest}?" if _ENDS_OPEN.fullmatch(rest) and count_words(rest) <= 5 else None
