"""What a prompt says was found before: pairs of questions and answers, and facts that thoughts state."""

import re
from collections.abc import Iterator

from experiments.world.grammar import Fact, Plan, key, parse_question, value_of
from experiments.world.passage_text import parse_passage, split_passages
from signatures.citation_marks import strip_citations

_HOP = re.compile(r'^\d+\. (?P<question>.+?)(?: \(evidence: ".*"\))? -> (?P<answer>.*)$')
_LABEL = re.compile(
    r"^[\s\[(*-]*(?:thought|action|observation|question|sub-?question|query|answer|follow[- ]?up|intermediate answer|"
    r"search|result|step|reasoning|final answer|q|a)\s*\d*[\])*]*\s*:\s*",
    re.IGNORECASE,
)
_ASKED_AND_TOLD = re.compile(r"^(?P<question>[^?]+\?)\s*(?:->|=>|\||:|-)?\s*(?P<answer>.*)$")
_NO_ANSWER = re.compile(r"no (?:relevant|helpful) information|could not find|not found|^\(?none\)?$", re.IGNORECASE)

Answers = dict[tuple[str, str], str]
"""(key of entity, relation name) -> answer."""


def answered_pairs(text: str) -> Answers:
    """Return the answers of all pairs of a single-fact question and its answer; later pairs win.

    A pair is a line `n. question -> answer`, a question with its answer on the same line, or a question with its answer
    on the next line; labels such as "Follow up:" or "[Query 1]:" may precede both.
    """
    answers: Answers = {}
    for question, answer in _pairs(text):
        plan = parse_question(question)
        entity = _entity(plan, answers) if isinstance(plan, Fact) else None
        if entity and isinstance(plan, Fact):
            answers[key(entity), plan.relation] = _short(answer, entity, plan.relation)
    return answers


def told_facts(text: str) -> Answers:
    """Return the facts that the sentences of thoughts and observations state; later ones win.

    Passages with a number are read as such, not here.
    """
    return {
        (key(statement.head), statement.relation): statement.value
        for line in text.splitlines()
        if not split_passages(line)
        for statement in parse_passage(strip_citations(_LABEL.sub("", line)))
    }


def _entity(plan: Plan | None, answers: Answers) -> str | None:
    if not isinstance(plan, Fact):
        return None
    return value_of(plan.of, lambda head, relation: answers.get((key(head), relation)))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    asked = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if hop := _HOP.match(line):
            yield hop["question"], hop["answer"]
            asked = ""
            continue
        line = _LABEL.sub("", line)
        if both := _ASKED_AND_TOLD.match(line):
            asked = both["question"]
            if not both["answer"]:
                continue
            line = _LABEL.sub("", both["answer"])
            if parse_question(line):  # two questions in a row, of which the first has no answer
                asked = line
                continue
        if asked and not (line.endswith("?") or split_passages(line) or _NO_ANSWER.search(line)):
            yield asked, line
        asked = ""


def _short(answer: str, entity: str, relation: str) -> str:
    """Return a short answer; of a sentence that states the fact, its value."""
    for statement in parse_passage(strip_citations(answer)):
        if statement.relation == relation and key(statement.head) == key(entity):
            return statement.value
    return answer.strip().removesuffix(".")
