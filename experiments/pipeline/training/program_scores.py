"""EM and F1 of a program on the weights of a training run, which say more than single replies of its predictors.

A program asks the LM several times, searches with what it replies, and ends early or late: replies that are right one
by one may still lead nowhere.
"""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.lms.connect import MAX_TOKENS, Connection, ModelTraits, local_connection
from programs.lms.embedded import EmbeddedEngine
from signatures.common.errors import UserError, one_line

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.config import RunConfig
    from experiments.runs.specs import ProgramSpec
    from optimizers.distill.examples import Example


METRICS = {"program_em": "em", "program_f1": "f1[hotpot]"}  # by their names among the metrics of a training run
ERRORS = "program_errors"  # share of the questions that ended in an error, beside them


@dataclass(frozen=True)
class ProgramScores:
    """Asks a program questions on the weights in a folder; an `evaluate` of `optimizers.distill.training.train`.

    Index, program and LM are opened anew each time, and closed: while weights are trained, they need no memory.

    Args:
        config: The program; what it does not name is chosen as for the embedded LM.
        questions: Questions with answers that nothing is trained on.
        name: Of the questions, where several sets are asked; part of the names of the values.
    """

    config: "ProgramSpec"
    questions: "Sequence[Question]"
    name: str = ""

    def __str__(self) -> str:
        """Return what is asked, for a line of progress."""
        return f"{self.config.program} is asked {len(self.questions)} questions{self.name and f' of {self.name}'}"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the values: `program_em` and `program_f1`, with the name of the questions in brackets."""
        return tuple(map(self._named, METRICS))

    def _named(self, metric: str) -> str:
        return f"{metric}[{self.name}]" if self.name else metric

    def __call__(self, folder: Path) -> dict[str, float]:
        """Return `program_em`, `program_f1` and `program_errors` of the weights in a folder, each in [0, 1].

        A question that ends in an error scores 0, and a notice says so. What is written meanwhile is in the folder.

        Raises:
            UserError: The program or the index cannot be opened, or the LM does not answer.
            KeyboardInterrupt: After Ctrl-C.
        """
        from experiments.pipeline.evaluate import evaluate

        with tempfile.TemporaryDirectory(dir=folder, prefix=".asked-") as name:
            lm, run = connect_once(folder, Path(name) / "converted"), Path(name) / "run"
            try:
                program = self._program(lm)
                summary = evaluate(program, self.questions, self._config(), connection=lm, folder=run, progress=False)
            finally:
                lm.close()
            if summary.errors:
                self._tell(run, summary.errors)
        scores = {self._named(name): summary.metrics[metric].mean or 0.0 for name, metric in METRICS.items()}
        return {**scores, self._named(ERRORS): summary.errors / len(self.questions)}

    def _tell(self, run: Path, errors: int) -> None:
        from experiments.runs.files import read_rows
        from programs.artifacts.loading import notify

        first = next(row["error"] for row in read_rows(run) if row["error"])
        notify([f"{self}: {errors} ended in an error and score 0, the first in {one_line(first, 200)}."])

    def open(self) -> tuple[dict[str, Any], list[str]]:
        """Open what is asked without its LM; return what a measurement depends on, and notes on what to know of it.

        Raises:
            UserError: A question has no answer, or the program or the index cannot be opened.
        """
        from experiments.pipeline.corpus_notes import run_notes
        from experiments.runs.config import describe_questions
        from programs.artifact import program_name, retrieves
        from programs.lms.connect import connect
        from programs.parts.knobs import knob_values

        if unanswered := [question.id for question in self.questions if not question.answers]:
            raise UserError(
                f"{len(unanswered)} of {len(self.questions)} questions have no gold answer (e.g. {unanswered[0]!r}), "
                "so that EM and F1 cannot be computed. Name questions with answers."
            )
        program = self._program(connect("embedded:base"))
        retrieve = getattr(program, "retrieve", None)
        described = {
            "program": program_name(program),
            "program_knobs": knob_values(program),
            "program_corpus": retrieve.fingerprint if retrieve is not None and retrieves(program) else None,
            "program_questions": describe_questions(self.questions)["sha256"],
        }
        described = {self._named(name): value for name, value in described.items()}
        return described, run_notes(program, retrieve, self.questions, self._config())

    def check(self, examples: "Iterable[Example]") -> None:
        """Check that no training example asks one of the questions.

        Raises:
            UserError: One does.
        """
        from optimizers.distill.leakage import Evaluation, asks_any

        evaluation = Evaluation.of(self.questions)
        learnt = [example for example in examples if example.split == "train" and asks_any(example, evaluation)]
        if learnt:
            raise UserError(
                f"Training examples ask questions that the program would be scored on: {len(learnt)} of them, the "
                f"first of question {learnt[0].question_id!r}. Exclude these questions where the examples are made or "
                "mixed, or name others."
            )

    def _config(self) -> "RunConfig":
        from experiments.runs.config import RunConfig
        from optimizers.metrics.catalog import get_metric

        return RunConfig(metrics=[get_metric(name) for name in METRICS.values()])

    def _program(self, lm: "Connection") -> "dspy.Module":
        from experiments.pipeline.opened import AnswererSpec
        from programs.lms.spec import LMSpec

        return AnswererSpec(self.config, LMSpec(id="embedded"), connection=lm).with_defaults()[0].open().program


def connect_once(folder: Path, converted: Path) -> Connection:
    """Return a connection that shares nothing with others and keeps nothing: no reply is cached, no model is kept.

    Args:
        folder: An adapter, or merged weights.
        converted: A folder that is not there yet, for the model in the format of the runtime (145 MB for an adapter of
            the embedded LM); to be deleted after the connection has been closed.

    Raises:
        UserError: The folder has no weights that can be served.
    """
    engine = EmbeddedEngine(source=str(folder), converted=converted)
    settings = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}
    return local_connection(f"embedded:{folder}", engine, settings, ModelTraits())
