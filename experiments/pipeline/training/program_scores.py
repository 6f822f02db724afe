"""EM and F1 of a program on the weights of a training run, which say more than single replies of its predictors.

A program asks the LM several times, searches with what it replies, and ends early or late: replies that are right one
by one may still lead nowhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.pipeline.setup import ProgramConfig
    from optimizers.distill.examples import Example
    from programs.lms.connect import Connection

METRICS = {"program_em": "em", "program_f1": "f1[hotpot]"}  # by their names among the metrics of a training run


@dataclass(frozen=True)
class ProgramScores:
    """Asks a program questions on the weights in a folder; an `evaluate` of `optimizers.distill.training.train`.

    Index and program are opened anew each time: nothing of them is in memory while weights are trained.

    Args:
        config: The program; what it does not name is chosen as for the embedded LM.
        questions: Questions with answers that nothing is trained on.
        threads: Questions in progress at a time.
    """

    config: "ProgramConfig"
    questions: "Sequence[Question]"
    threads: int = 8

    def __str__(self) -> str:
        """Return what is asked, for a line of progress."""
        return f"{self.config.program} is asked {len(self.questions)} questions"

    def __call__(self, folder: Path) -> dict[str, float]:
        """Return `program_em` and `program_f1` of the weights in a folder, each in [0, 1].

        A question that ends in an error scores 0. The model in the format of the runtime is deleted afterwards.

        Raises:
            UserError: The program or the index cannot be opened, or the LM does not answer.
            KeyboardInterrupt: After Ctrl-C.
        """
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig
        from optimizers.metrics.catalog import get_metric
        from programs.lms.weights.choice import weights

        lm_id = f"embedded:{folder}"
        program, lm = self._opened(lm_id)
        config = RunConfig(metrics=[get_metric(name) for name in METRICS.values()], threads=self.threads)
        try:
            with weights(str(folder)).passing():
                summary = evaluate(
                    program, self.questions, config, connection=lm, folder=folder / "asked", progress=False
                )
        finally:
            lm.close()
        return {name: summary.metrics[metric].mean or 0.0 for name, metric in METRICS.items()}

    def check(self, examples: "Iterable[Example]") -> dict[str, Any]:
        """Return what is asked, for the description of a training run, after what can be checked before it.

        Args:
            examples: Of the training run.

        Raises:
            UserError: A question has no answer, or is asked by a training example; or program or index cannot be
                opened.
        """
        if unanswered := [question.id for question in self.questions if not question.answers]:
            raise UserError(
                f"{len(unanswered)} of {len(self.questions)} questions have no gold answer "
                f"(e.g. {unanswered[0]!r}), so that "
                "EM and F1 cannot be computed. Name questions with answers."
            )
        self._refuse_trained_on(examples)
        return self._described(self._opened("embedded:base")[0])  # opens all but its weights

    def _refuse_trained_on(self, examples: "Iterable[Example]") -> None:
        from optimizers.distill.leakage import Evaluation, asks_any

        evaluation = Evaluation.of(self.questions)
        learnt = [example for example in examples if example.split == "train" and asks_any(example, evaluation)]
        if learnt:
            raise UserError(
                f"{len(learnt)} training examples ask a question that the program would be scored on (e.g. that of "
                f"{learnt[0].question_id!r}). Exclude its file where the examples are made or mixed, or name other "
                "questions."
            )

    def _opened(self, lm_id: str) -> "tuple[dspy.Module, Connection]":
        from experiments.pipeline.defaults import with_defaults
        from experiments.pipeline.setup import open_lm, open_program, open_retriever
        from experiments.runs.config import LMConfig

        program, lm, _ = with_defaults(self.config, LMConfig(lm_id))
        connection = open_lm(lm)
        return open_program(program, open_retriever(program), connection), connection

    def _described(self, program: "dspy.Module") -> dict[str, Any]:
        from experiments.runs.config import describe_questions
        from programs.artifact import program_name
        from programs.parts.knobs import knob_values

        retrieve = getattr(program, "retrieve", None)
        return {
            "program": program_name(program),
            "knobs": knob_values(program),
            "corpus": None if retrieve is None else retrieve.fingerprint,
            "questions": describe_questions(self.questions),
        }
