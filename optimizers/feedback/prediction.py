"""Feedback on a whole prediction: answer, passages, citations and hops against the gold."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from optimizers.feedback.gold import Gold, matches, quoted, settles
from optimizers.metrics import answer
from optimizers.metrics.citations import cited_ids
from optimizers.metrics.evidence.context import faults
from optimizers.metrics.fields import answer_of, question_of, read_ids_of, response_of
from signatures.citation_marks import citation_numbers, find_marks, unread_marks
from signatures.text_words import same_words, text_words
from signatures.types import Hop

_ALSO = 3  # further accepted answers that are named


def describe(example: Any, prediction: Any, gold: Gold) -> list[str]:
    """Return sentences that say what a prediction got right and wrong, as far as the gold decides it.

    Args:
        example: The question; only its gold is revealed.
        prediction: What the program returned.
        gold: The gold of that question.
    """
    return [
        *_on_answer(prediction, gold),
        *_on_passages(prediction, gold),
        *_on_citations(prediction, gold),
        *_on_hops(question_of(example), prediction, gold),
        *_on_searches(question_of(example), hops_of(prediction)),
        *_on_replies(prediction),
    ]


def compare_words(text: str, golds: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the accepted answer that is closest to a text, its words that the text lacks, and the text's surplus ones.

    Words are compared in lower case, without punctuation and articles.

    Raises:
        ValueError: There are no accepted answers.
    """
    words = text_words(text)

    def missing_and_surplus(gold: str) -> tuple[list[str], list[str]]:
        expected = text_words(gold)
        return _without(expected, words), _without(words, expected)

    def distance(number: int) -> tuple[int, int]:
        missing, surplus = missing_and_surplus(golds[number])
        return len(missing) + len(surplus), number

    closest = golds[min(range(len(golds)), key=distance)]
    return closest, *missing_and_surplus(closest)


def _without(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the words that remain when each of `others` takes away one equal word."""
    left = Counter(others)
    rest = []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            rest.append(word)
    return rest


def on_short_answer(text: str, golds: Sequence[str]) -> list[str]:
    """Return sentences on a short answer: right, or what is expected and which words are missing or surplus."""
    if not golds:
        return []
    if answer.exact_match(text, golds) == 1.0:
        return [f"The answer {quoted(text)} is right."]
    closest, missing, surplus = compare_words(text, golds)
    also = [quoted(gold) for gold in golds if gold != closest][:_ALSO]
    expected = f"{quoted(closest)}" + (f" (also accepted: {', '.join(also)})" if also else "")
    said = [f"The answer is {quoted(text)}; expected is {expected}."]
    if not missing and not surplus:
        return [*said, "The words are the same, but their order or form is not."]
    if not missing:
        return [*said, f"It contains the expected answer and is too long: {_listed(surplus)} should not be there."]
    if len(missing) == len(text_words(closest)):
        return [*said, "They have no word in common."]
    said.append(f"Missing words: {_listed(missing)}.")
    return [*said, f"Surplus words: {_listed(surplus)}."] if surplus else said


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _on_answer(prediction: Any, gold: Gold) -> list[str]:
    if not gold.golds:
        return []
    text = answer_of(prediction)
    declined = bool(getattr(prediction, "abstained", False)) or not text.strip()
    if not declined:
        return on_short_answer(text, gold.golds)
    said = [f"The program gave no answer (it abstained); expected is {quoted(gold.golds[0])}."]
    needed = set(gold.gold_ids)
    if needed and needed <= set(read_ids_of(prediction)):
        said.append("All passages needed were there, so it should have answered.")
    return said


def _on_passages(prediction: Any, gold: Gold) -> list[str]:
    """Say which gold passages were not retrieved, or weighed and dropped; nothing of a program that reads none."""
    read = set(read_ids_of(prediction))
    if not gold.gold_ids or not (read or hops_of(prediction)):
        return []
    missing = [id for id in gold.gold_ids if id not in read]
    dropped = {
        piece.passage_id: piece.reason
        for hop in hops_of(prediction)
        for piece in hop.candidates
        if piece.passage_id in missing and not piece.kept
    }
    said = [f"The passage {gold.title(id)} is needed and was found, but dropped: {dropped[id]}." for id in dropped]
    absent = [id for id in missing if id not in dropped]
    if absent:
        said.append(f"Needed and not retrieved: {gold.named(absent)}.")
    return said or [f"All passages needed were retrieved: {gold.named(gold.gold_ids)}."]


def _on_citations(prediction: Any, gold: Gold) -> list[str]:
    """Say which citation marks of a long response are wrong, and which gold passages it read and did not cite."""
    response = response_of(prediction)
    bad = unread_marks(response)
    said = [f"These citation marks cannot be read: {', '.join(bad)}. A mark is a number in brackets."] if bad else []
    if not gold.gold_ids or response == answer_of(prediction):
        return said
    if not find_marks(response):
        return [*said, "The response cites no passage."] if response.strip() else said
    cited, needed = cited_ids(prediction), set(gold.gold_ids)
    beyond = [id for id in cited if id.startswith("[")]
    wrong = [id for id in cited if id not in needed and id not in beyond]
    unused = [id for id in gold.gold_ids if id in read_ids_of(prediction) and id not in cited]
    if beyond:
        said.append(f"{', '.join(beyond)} cites no passage: there are not so many.")
    if wrong:
        said.append(f"Cited, but the answer does not rest on it: {gold.named(wrong)}.")
    if unused:
        said.append(f"Read and needed, but not cited: {gold.named(unused)}.")
    return said or [f"The citations {_marks(citation_numbers(response))} are right."]


def _marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


def _on_hops(question: str, prediction: Any, gold: Gold) -> list[str]:
    """Say which hop went astray against the gold decomposition, or which round of search found nothing new."""
    hops = hops_of(prediction)
    if hops and same_words(hops[0].question) == same_words(question):
        return _on_rounds(hops, gold)
    if not gold.steps or not hops:
        return []
    done = gold.settled(hops)
    if done == len(gold.steps):
        said = [] if len(gold.steps) == 1 else [f"All {done} steps of the question were settled rightly."]
        return [*said, *_spoiled(hops, gold)]
    step = gold.steps[done]
    wanted = f"step {done + 1} of {len(gold.steps)} is {quoted(step.question)}"
    wanted += f" with the answer {quoted(step.golds[0])}" if step.golds else ""
    said = [f"The first {done} of {len(gold.steps)} steps were settled."] if done else []
    # The hop after the last one that settled an earlier step is where it went astray.
    last = max((n for n, hop in enumerate(hops) if any(settles(hop, each) for each in gold.steps[:done])), default=-1)
    if last + 1 < len(hops):
        hop = hops[last + 1]
        answered = f" and answered {quoted(hop.answer)}" if hop.answer.strip() else ""
        said.append(f"Hop {last + 2} went astray: it asked {quoted(hop.question)}{answered}; {wanted}.")
    else:
        said.append(f"It stopped after {len(hops)} hops, too early: {wanted}.")
    return [*said, *_spoiled(hops, gold)]


def _on_rounds(hops: Sequence[Hop], gold: Gold) -> list[str]:
    """Judge hops that each take the whole question again: by what their search found."""
    found: set[str] = set()
    said = []
    for number, hop in enumerate(hops, start=1):
        missing = [id for id in gold.gold_ids if id not in found]
        if number > 1 and missing and not set(missing) & set(hop.passage_ids):
            said.append(f"Round {number} searched for {quoted(hop.question)} and found nothing of what was missing.")
        found |= set(hop.passage_ids)
    return said


def _spoiled(hops: Sequence[Hop], gold: Gold) -> list[str]:
    """Say where a check changed a draft that was right."""
    said = []
    for number, hop in enumerate(hops, start=1):
        step = gold.step_of(hop.question)
        if step is None or not hop.draft or hop.draft == hop.answer:
            continue
        if matches(hop.draft, step.golds) and not matches(hop.answer, step.golds):
            said.append(f"In hop {number} the draft {quoted(hop.draft)} was right; the check made it wrong.")
    return said


def _on_searches(question: str, hops: Sequence[Hop]) -> list[str]:
    """Say which queries are long or repeat another, of hops that only searched."""
    searched = not any(hop.answer or hop.verdict for hop in hops)
    return faults(question, [hop.question for hop in hops]) if searched else []


def _on_replies(prediction: Any) -> list[str]:
    """Say how many replies could not be read, as far as the prediction tells."""
    details = getattr(prediction, "details", None) or {}
    failed = int(details.get("verification_failures") or 0)
    failed += sum(hop.verdict == "unparseable" for hop in hops_of(prediction))
    return [f"{failed} replies could not be read: they lacked the fields asked for."] if failed else []


def hops_of(prediction: Any) -> list[Hop]:
    """Return the hops of a prediction, oldest first."""
    return list(getattr(prediction, "hops", None) or [])
