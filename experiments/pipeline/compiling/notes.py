"""What a user of a compilation has to know: on its questions before, and on what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.questions import divided
from experiments.pipeline.corpus_notes import gold_note, retrieves, simulated_note

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from programs.artifact import Artifact

ACCEPT_MORE = "Try the metric f1[hotpot] with accept=0.5, more questions, the optimizer labeled or another LM."
NONE_WANTED = "max_demos is 0."
GO_ON = "Resume with the same arguments, resume=True and a larger budget."


def notes_on_questions(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    lm_id: str,
) -> list[str]:
    """Return notes on gold passages that the index lacks, on questions that are held out, left out, or unknown to the
    LM.

    Raises:
        UserError: See `divided`.
    """
    retrieve = getattr(student, "retrieve", None) if retrieves(student) else None
    found = {"Training": gold_note(trainset, retrieve), "Validation": gold_note(valset, retrieve)}
    notes = [f"{what} questions: {text}" for what, text in found.items() if text]
    notes += divided(trainset, valset, optimizer=config.optimizer, seed=config.seed).notes
    return notes + [text for text in (simulated_note(lm_id, trainset),) if text]


def note_without_demonstrations(
    artifact: "Artifact",
    trainset: "Sequence[Question]",
    *,
    cure: str = ACCEPT_MORE,
    none_wanted: str = NONE_WANTED,
) -> str | None:
    """Return a note if the compiled program has no demonstrations; None if it has.

    Args:
        artifact: The result.
        trainset: The training questions.
        cure: What to try, in words of the caller.
        none_wanted: The reason if none were asked for.
    """
    optimizer = artifact.optimizer
    if any(optimizer["accepted"].values()) or optimizer["stopped"] or optimizer["candidates"]:
        return None
    accept, failed = optimizer["arguments"]["accept"], optimizer["failed"]
    errors = f" ({failed} ended in an error)" if failed else ""
    cause = (
        f"no answer to the {optimizer['tried']} training questions{errors} reached {artifact.metric['name']} >= "
        f"{accept:g}. The LM may be too weak for them, the index may be of another corpus, or the metric too strict. "
        f"{cure}"
    )
    if unanswered := sum(not question.answers for question in trainset):
        cause = f"{unanswered} of {len(trainset)} training questions have no gold answer; {cause}"
    if not optimizer["arguments"]["max_demos"]:
        cause = none_wanted
    return (
        "The compiled program has no demonstrations: it is the uncompiled program with its knobs stored, and answers "
        f"the same. Reason: {cause}"
    )


def stopped_text(optimizer: dict[str, Any], *, cure: str = GO_ON) -> str | None:
    """Return what a compilation hands back whose budget was spent; None if it was not.

    Args:
        optimizer: Of the artifact.
        cure: How to go on, in words of the caller.
    """
    if not optimizer["stopped"]:
        return None
    complete = sum(each["complete"] for each in optimizer["candidates"])
    race = optimizer["details"].get("race")
    frozen = (
        "No optimizer has won the race yet: the uncompiled program is frozen"
        if race and race["winner"] == "uncompiled"
        else f"The best of {complete} candidates scored so far is frozen: {optimizer['chosen']}"
        if optimizer["chosen"]
        else "No candidate was scored completely: the uncompiled program is frozen"
        if not any(optimizer["accepted"].values())
        else "The compiled program is frozen without its scores"
    )
    return f"{optimizer['stopped']} {frozen}. {cure}"
