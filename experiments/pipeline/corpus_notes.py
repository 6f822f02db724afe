"""Notes on questions, a program and an index that do not belong together: their scores would look like results."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.world.connect import simulated_id
from programs.lms.spec import EMBEDDED, SIMULATED, kind_of

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.config import RunConfig
    from programs.artifact import Artifact
    from signatures.types import Retriever

# Figures of its verdicts on statements, from the line "lm" of `experiments/results/entailment_agreement.json`.
JUDGE_NOTE = (
    "The judge is the embedded LM, which says yes to 93 % of statements, where people say yes to 50 %, and to 30 of 30 "
    "contradictions. Its verdicts show how the command works and say nothing about the answers: name another judge."
)


def gold_note(questions: "Sequence[Question]", retrieve: "Retriever | None") -> str | None:
    """Return a note if the index lacks gold passages of the questions.

    Args:
        questions: Those without gold passages are not counted.
        retrieve: An opened index; other retrievers cannot be checked.

    Returns:
        How many questions are concerned, with one id; None if no gold passage is missing or nothing can be checked.
    """
    missing_of: Any = getattr(retrieve, "missing", None)
    with_gold = [question for question in questions if question.gold_ids]
    if missing_of is None or not with_gold:
        return None
    gold = list(dict.fromkeys(name for question in with_gold for name in question.gold_ids))
    missing = missing_of(gold)
    if not missing:
        return None
    example = next(name for name in gold if name in missing)
    lacking = sum(not missing.isdisjoint(question.gold_ids) for question in with_gold)
    if len(missing) == len(gold):
        return (
            f"{lacking} of {len(with_gold)} questions have gold passages that the index lacks (e.g. {example!r}): it "
            "has none at all, so metrics of passage ids (recall, all_gold, support) will be 0. The index probably "
            "belongs to another corpus: name one of the corpus that these questions were written for."
        )
    return (
        f"{lacking} of {len(with_gold)} questions have gold passages that the index lacks (e.g. {example!r}): metrics "
        "of passage ids (recall, all_gold, support) cannot be complete on them."
    )


def simulated_note(lm_id: str, questions: "Sequence[Question]") -> str | None:
    """Return a note if the LM is the simulated one and no question is about the world that it remembers."""
    simulated = simulated_id(lm_id)
    if simulated is None or not questions:
        return None
    if any(question.id.startswith(f"w{simulated.seed}-") for question in questions):  # ids of a generated world
        return None
    return (
        f"The simulated LM knows only the generated world of seed {simulated.seed}, and no question is from it: its "
        "answers say nothing about an LM. Name another LM, or questions of `verihop data world`."
    )


def judge_note(judge_id: str | None) -> str | None:
    """Return a note if the judge is the embedded LM, whose verdicts are worth nothing; None for another or no judge."""
    return JUDGE_NOTE if judge_id is not None and kind_of(judge_id) == EMBEDDED else None


def no_gain_note(lm_id: str) -> str | None:
    """Return why compilation changes no score of the simulated LM; None for any other LM."""
    if kind_of(lm_id) != SIMULATED:
        return None
    return "The simulated LM reads no demonstrations, so compilation changes no score: measure its gain on a real LM."


def study_notes(
    program: "dspy.Module", questions: "Sequence[Question]", trainset: "Sequence[Question]", lm_id: str
) -> list[str]:
    """Return notes on gold passages that the index lacks, and on questions unknown to the LM."""
    from programs.artifact import retrieves

    retrieve = getattr(program, "retrieve", None) if retrieves(program) else None
    found = (gold_note([*questions, *trainset], retrieve), simulated_note(lm_id, questions))
    return [text for text in found if text]


def run_notes(
    program: "dspy.Module",
    retrieve: "Retriever | None",
    questions: "Sequence[Question]",
    config: "RunConfig",
    *,
    lm_id: str = "",
    artifact: "Artifact | None" = None,
) -> list[str]:
    """Return the notes on a run: missing gold passages, a judge that cannot judge, options without effect, and others.

    Args:
        retrieve: Its retriever, if an index was named.
        config: Metrics, fixed contexts and seed of the run.
        lm_id: Id of its LM.
        artifact: What the program was loaded from; None without one.
    """
    from programs.artifact import retrieves

    found: list[str | None] = [
        simulated_note(lm_id, questions),
        judge_note(config.judge.id if config.judge else None),
        seen_note(program, questions),
    ]
    if retrieves(program):
        found.append(None if config.contexts else gold_note(questions, retrieve))
    else:
        found += _closed_book_notes(program, retrieve, questions, config)
    found.append(None if artifact is None else _chosen_note(artifact, questions))
    if config.seed and not config.contexts:
        found.append("The seed chooses fixed contexts: without them it changes nothing.")
    return [text for text in found if text]


def _closed_book_notes(
    program: "dspy.Module", retrieve: "Retriever | None", questions: "Sequence[Question]", config: "RunConfig"
) -> list[str]:
    from optimizers.metrics.metric import Need
    from programs.artifact import program_name

    read = {Need.PASSAGES, Need.TITLES, Need.TEXTS}
    name, notes = program_name(program), []
    if retrieve is not None:
        notes.append(f"{name} searches no corpus: the index is not used.")
    if config.contexts is not None:
        notes.append(f"{name} searches no corpus: the fixed contexts are not used.")
    of_passages = [
        metric.name for metric in config.scored if read.intersection(metric.needs) and Need.ORACLE not in metric.needs
    ]
    if of_passages and any(question.gold_ids for question in questions):
        notes.append(f"{name} reads no passages of a corpus: {', '.join(of_passages)} will be 0.")
    return notes


def seen_note(program: "dspy.Module", questions: "Sequence[Question]", what: str = "Evaluate") -> str | None:
    """Return how many of the questions the demonstrations of a program show, and what to do; None if none is."""
    demos = [demo for predictor in program.predictors() for demo in predictor.demos]
    shown = [demo["question"] for demo in demos if isinstance(demo.get("question"), str)]
    seen = _count_among(shown, questions)
    if not seen:
        return None
    return (
        f"{seen} of {len(questions)} questions are in the demonstrations of the compiled program: their scores are too "
        f"good. {what} on questions that it was not compiled on."
    )


def _chosen_note(artifact: "Artifact", questions: "Sequence[Question]") -> str | None:
    scores = artifact.metric.get("scores")
    known = sum(question.id in scores for question in questions) if isinstance(scores, dict) else 0
    if not known:
        return None
    return (
        f"{known} of {len(questions)} questions are those that candidates of this artifact were scored on: where it "
        "was chosen among several, their scores are too good. Evaluate on questions that did not choose it."
    )


def _count_among(texts: "Sequence[str]", questions: "Sequence[Question]") -> int:
    known = set(map(_words, texts))
    return sum(_words(question.question) in known for question in questions)


def _words(text: str) -> str:
    return " ".join(text.casefold().split())
