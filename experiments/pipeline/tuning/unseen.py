"""Refuses programs that have seen the questions of a study: their scores on these are those of copied answers.

Trials are compared on the study's questions, and the gain of the best is estimated on a part of them. A program whose
demonstrations contain such a question, or that was compiled or tuned on them, would win by what it has been shown.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.config import describe_questions
from signatures.common.errors import UserError
from signatures.text_words import same_words

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question

_SETS = {"train": "compiled on", "val": "compared with others on", "tuned": "tuned on"}


def check_unseen(
    student: "dspy.Module",
    artifacts: Sequence[Path],
    questions: "Sequence[Question]",
    *given: "Sequence[Question]",
) -> None:
    """Raise UserError if the program or one of the artifacts has seen a question of the study.

    Args:
        artifacts: Folders of compiled versions of it.
        questions: Those of the trials.
        given: The same or more questions in other orders, in which an artifact's record may know them.
    """
    from corpora.questions import split_hash

    ids = {same_words(question.question): question.id for question in questions}
    _check_shown(student, "The program", ids)
    hashes = {text for each in (questions, *given) for text in (describe_questions(each)["sha256"], split_hash(each))}
    for folder in artifacts:
        program, data = open_version(student, folder)
        _check_shown(program, str(folder), ids)
        for name, how in _SETS.items():
            known = data.get(name)
            if isinstance(known, dict) and known.get("sha256") in hashes:
                raise UserError(
                    f"{folder} was {how} the questions of the study: its scores on them would be meaningless. Tune on "
                    "other questions, or leave the artifact out."
                )


def open_version(student: "dspy.Module", folder: Path) -> "tuple[dspy.Module, dict[str, Any]]":
    """Return the program of an artifact, and what its record says of its data.

    Raises:
        UserError: It is of another program than the student.
    """
    from programs.artifact import load, program_name, read_artifact

    name = program_name(student)
    record = read_artifact(folder)
    if record.program != name:
        raise UserError(
            f"{folder} contains the program {record.program}, the study is of {name}: name artifacts of {name}."
        )
    return load(folder, getattr(student, "retrieve", None)), record.data


def _check_shown(program: "dspy.Module", name: str, ids: dict[str, str]) -> None:
    for text in _shown(program):
        if (found := ids.get(same_words(text))) is not None:
            raise UserError(
                f"{name} has question {found!r} of the study among its demonstrations: its scores would be those of "
                "copied answers. Tune on questions that it was not compiled on."
            )


def _shown(program: "dspy.Module") -> Iterator[str]:
    """Yield every text of the program's demonstrations, and the questions of a pool it chooses them from."""
    from programs.artifact import all_parts

    for part in all_parts(program):
        for entry in getattr(part, "pool", ()):
            yield entry.question
    for _, predictor in program.named_predictors():
        for demo in predictor.demos:
            yield from (value for _, value in demo.items() if isinstance(value, str))
