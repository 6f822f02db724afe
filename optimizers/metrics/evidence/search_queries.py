"""The search queries of a trajectory, and the score of a trajectory that deserves to be a demonstration.

The rule by which DSPy compiles its multi-hop program (`MultiHop`; DSPy's "SimplifiedBaleen"): Khattab et al., "DSPy:
Compiling Declarative Language Model Calls into Self-Improving Pipelines", ICLR 2024, section 7, and
https://github.com/stanfordnlp/dspy (`validate_context_and_answer_and_hops`). The answer must be right, the evidence
found, and no query may be long or say again what was searched for: a right answer after such a query was luck, and as a
demonstration it would teach the next query to repeat the last one.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from optimizers.metrics.fields import hop_questions_of, question_of
from optimizers.metrics.scoring import Score
from signatures.text_words import text_words

MOST_CHARACTERS = 100
NEARLY_EQUAL = 0.8  # F1 of the words of two queries


def nearly_equal(query: str, other: str) -> bool:
    """Return whether the words of two queries have an F1 of at least 0.8, whatever their order; or both have none.

    DSPy's measure (`dspy.evaluate.answer_exact_match` with `frac=0.8`), with a Han character as a word.
    """
    words, others = text_words(query), text_words(other)
    shared = sum((Counter(words) & Counter(others)).values())
    return 2 * shared >= NEARLY_EQUAL * (len(words) + len(others))


def faults(question: str, queries: Sequence[str]) -> list[str]:
    """Return a sentence on each query that has more than 100 characters, or repeats the question or an earlier query.

    The first query may be the question, because nothing has been read yet; DSPy allows that, too.

    Departure: DSPy also refuses a question of more than 100 characters; that is no fault of the queries.
    """
    said = []
    for number, query in enumerate(queries, start=1):
        if len(query) > MOST_CHARACTERS:
            said.append(f"Query {number} has {len(query)} characters; at most {MOST_CHARACTERS} are wanted.")
        earlier = {"the question": question, **{f"query {n}": text for n, text in enumerate(queries[: number - 1], 1)}}
        same = next((name for name, text in earlier.items() if number > 1 and nearly_equal(query, text)), None)
        if same is not None:
            said.append(f"Query {number} repeats {same}.")
    return said


def of_trajectory(answered: Score, found: Score) -> Score:
    """Return the score of the answer times that of what was found, and 0 where a query has `faults`.

    Undefined where one of the two scores is.

    Args:
        answered: Scores the answer.
        found: Scores the passages read.
    """

    def score(example: Any, prediction: Any) -> float | None:
        parts = answered(example, prediction), found(example, prediction)
        if parts[0] is None or parts[1] is None:
            return None
        return parts[0] * parts[1] * (not faults(question_of(example), hop_questions_of(prediction)))

    return score
