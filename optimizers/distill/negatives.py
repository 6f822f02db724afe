"""Wrong responses for verification training, made by CoV-RAG's means (He et al., 2024, section 2.3, step 1).

https://arxiv.org/abs/2410.05801. The paper lets ChatGPT write them: repeated words or phrases, correct citations
changed to wrong ones ("[2][3]" to "[1][4][5]"), and wrong retrieval, from incomplete queries, too, with the answers
that follow from it. Here the first two are functions of a response, and the others change what the seed model reads.
"""

import random
from collections.abc import Sequence

from programs.parts.passages import passages_stating
from signatures.citation_marks import citation_numbers, find_marks, strip_citations
from signatures.text import split_sentences
from signatures.types import Passage


def with_repetition(response: str, rng: random.Random) -> str:
    """Return a response in which a sentence is written again, or a word several times in a row."""
    sentences = split_sentences(response)
    if not sentences:
        return response
    if rng.random() < 0.5:
        place = rng.randrange(len(sentences))
        again = [sentences[place]] * rng.randint(2, 3)
        return " ".join([*sentences[:place], *again, *sentences[place:]])
    words = response.split(" ")
    places = [place for place, word in enumerate(words) if word.isalpha()] or list(range(len(words)))
    place = rng.choice(places)
    return " ".join([*words[:place], *[words[place]] * rng.randint(4, 6), *words[place:]])


def with_wrong_citations(response: str, references: int, rng: random.Random) -> str | None:
    """Return a response whose marks cite other passages than before; None if there are no other passages.

    Args:
        response: With or without marks; without, wrong ones are added at its end.
        references: Number of passages that were shown.
        rng: Chooses the numbers.
    """
    cited = set(citation_numbers(response))
    others = [number for number in range(1, references + 1) if number not in cited]
    if not others or not strip_citations(response):
        return None

    def wrong() -> str:
        chosen = rng.sample(others, rng.randint(1, min(3, len(others))))
        return "".join(f"[{number}]" for number in sorted(chosen))

    parts, end = [], 0
    for mark in find_marks(response):
        between = response[end : mark.start]
        parts.append(between)
        if between.strip() or not end:  # neighbouring marks are replaced together
            parts.append(wrong())
        end = mark.end
    changed = "".join([*parts, response[end:]])
    return changed if cited else f"{response.rstrip()}{wrong()}"


def wrong_references(
    ranked: Sequence[Passage], gold_ids: Sequence[str], answers: Sequence[str], k: int
) -> list[Passage]:
    """Return the last k passages of a ranking that are neither gold nor contain an answer; fewer if there are fewer."""
    gold = set(gold_ids)
    wrong = [passage for passage in ranked if passage.id not in gold and not states_any(passage, answers)]
    return wrong[-k:]


def incomplete_query(question: str, rng: random.Random) -> str:
    """Return half of the words of a question, from its beginning or its end; a question of one word as it is."""
    words = question.split()
    half = max(1, len(words) // 2)
    return " ".join(words[:half] if rng.random() < 0.5 else words[-half:])


def states_any(passage: Passage, answers: Sequence[str]) -> bool:
    """Return whether a passage contains one of the answers; yes and no are never stated."""
    return any(passages_stating(answer, [passage]) for answer in answers)
