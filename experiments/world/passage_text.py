"""The text of passages: rendering facts as sentences, and parsing the sentences back into facts."""

import functools
import random
import re
from dataclasses import dataclass

from experiments.world.facts import Entity, World
from experiments.world.grammar import key, pattern
from experiments.world.relations import REFERRING_WORDS, RELATIONS, relations_of
from signatures.citation_marks import citation_numbers, strip_citations

_INTRODUCTIONS = {
    "person": "{x} is a well-known name in this part of the world.",
    "film": "{x} is a motion picture that divided its audience.",
    "book": "{x} is a book that is still read in schools.",
    "company": "{x} is a firm with a long tradition.",
    "university": "{x} is a place of learning with a large library.",
    "town": "{x} is a town with a weekly market.",
    "province": "{x} is a province of wide plains.",
}
_NOISE = (
    "Old photographs show a very different picture.",
    "Local newspapers have often reported on the matter.",
    "A small exhibition was devoted to the subject some years ago.",
    "Opinions on this are divided to the present day.",
    "The archives hold several boxes of letters about it.",
    "Some accounts also mention {other} in this connection.",
    "It is not to be confused with {other}.",
    "A painting of that time shows {other} as well.",
    "Visitors from abroad tend to ask about {other} first.",
)
_RUMOUR = "There was talk about {x}."
_REFERRING_WORDS = frozenset(word for words in REFERRING_WORDS.values() for word in words)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_MARKER = re.compile(r"^\[\d+\]\s*")
_PASSAGE = re.compile(r"^\[\d+\]\s")
CONCLUSION = "So the answer is {answer}."
_CONCLUSION = re.compile(r"\bSo the answer is (.+?)\.(?=\s|$)")


@dataclass(frozen=True)
class PassageText:
    """A rendered passage: its sentences, and which of them state which facts.

    Args:
        stated: Relation name -> number of the sentence that states it, from 0.
    """

    entity: Entity
    sentences: tuple[str, ...]
    stated: dict[str, int]


def render_passage(world: World, head: str) -> PassageText:
    """Return the passage about an entity: an introduction, then all its facts in random order among noise."""
    entity = world.entities[head]
    rng = random.Random(f"prose:{world.seed}:{head}")
    reference = rng.choice(REFERRING_WORDS[entity.kind])
    relations = [relation for relation in relations_of(entity.kind) if (head, relation.name) in world.facts]
    rng.shuffle(relations)
    sentences, stated = [_INTRODUCTIONS[entity.kind].format(x=entity.name)], {}
    for relation in relations:
        if rng.random() < 0.4:
            sentences.append(_noise(world, entity, rng))
        template = rng.choice(relation.statements)
        subject = reference if template.startswith("{x}") and rng.random() < 0.5 else entity.name
        stated[relation.name] = len(sentences)
        sentences.append(template.format(x=subject, y=world.facts[head, relation.name]))
    sentences.append(_noise(world, entity, rng))
    return PassageText(entity, tuple(sentences), stated)


def render_rumour(world: World, head: str) -> PassageText:
    """Return a short passage that states one fact of an entity wrongly, naming the entity and without noise."""
    entity = world.entities[head]
    rng = random.Random(f"rumour:{world.seed}:{head}")
    relation = rng.choice([item for item in relations_of(entity.kind) if (head, item.name) in world.facts])
    truth = world.facts[head, relation.name]
    value = rng.choice([other for _, other in world.values[relation.name] if other not in {truth, entity.name}])
    stated = rng.choice(relation.statements).format(x=entity.name, y=value)
    return PassageText(entity, (_RUMOUR.format(x=entity.name), stated, "So at least people said."), {relation.name: 1})


def _noise(world: World, entity: Entity, rng: random.Random) -> str:
    same_kind = [other.name for other in world.entities.values() if other.kind == entity.kind and other != entity]
    return rng.choice(_NOISE).format(other=rng.choice(same_kind))


@dataclass(frozen=True)
class Statement:
    """One fact as a passage states it.

    Args:
        head: Name of the entity that the sentence is about; for words such as "The film", the passage's subject.
        sentence: The sentence itself.
    """

    head: str
    relation: str
    value: str
    sentence: str


_EXPRESSIONS = [(relation.name, pattern(text)) for relation in RELATIONS for text in relation.statements]


@functools.lru_cache(maxsize=20_000)
def parse_passage(text: str) -> tuple[Statement, ...]:
    """Return the facts that one passage of a prompt (`[n] title: text` or `title: text`) states, in order."""
    title, _, body = _MARKER.sub("", text.strip()).partition(": ")
    if not body:
        title, body = "", title
    statements: list[Statement] = []
    for sentence in _SENTENCE_END.split(body):
        for relation, expression in _EXPRESSIONS:
            if match := expression.fullmatch(sentence):
                head = match["x"]
                if head in _REFERRING_WORDS:
                    head = title or (statements[-1].head if statements else "")
                if head:
                    statements.append(Statement(head, relation, match["y"], sentence))
                break
    return tuple(statements)


def parse_sentences(text: str) -> list[tuple[Statement, tuple[int, ...]]]:
    """Return the facts of running text without a title, each with the `[n]` marks of its sentence."""
    return [
        (statement, tuple(citation_numbers(sentence)))
        for sentence in _SENTENCE_END.split(text.strip())
        for statement in parse_passage(strip_citations(sentence))
    ]


def split_passages(text: str) -> list[str]:
    """Return the passages of a block of a prompt: the lines that start with `[n]`."""
    return [line for line in text.splitlines() if _PASSAGE.match(line)]


def title_of(text: str) -> str:
    """Return the title of one passage of a prompt; empty if it has none."""
    title, _, body = _MARKER.sub("", text.strip()).partition(": ")
    return title if body else ""


def stated_conclusion(text: str) -> str | None:
    """Return the conclusion that a text without a title states; None if it states none."""
    match = None if title_of(text) else _CONCLUSION.search(strip_citations(text))
    return match[1] if match else None


def shares_word(one: str, other: str) -> bool:
    """Return whether two different names share a word, as namesakes do."""
    left, right = set(key(one).split()), set(key(other).split())
    return left != right and bool(left & right)
