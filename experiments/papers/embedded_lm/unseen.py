"""Which questions of a file the embedded LM was not trained on: a score on others flatters it."""

from pathlib import Path
from typing import Annotated

import typer

from corpora.questions import Question, read_questions, write_questions
from experiments.papers.command import run_command
from experiments.papers.embedded_lm.sources import prepare
from optimizers.distill.leakage import Evaluation

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def unseen(questions: list[Question], data: Path, work: Path, more: Path | None = None) -> list[Question]:
    """Return the questions that no source of the training data asks, in their order.

    A source asks all questions that it keeps, of which the plan draws some: which, an earlier revision may have drawn
    otherwise. Case, punctuation and articles do not count.

    Args:
        questions: Of an evaluation.
        data: Folder with the official files.
        work: Folder for converted files and indexes.
        more: Folder with further training data; None for none.
    """
    trained = [each for made in prepare(data, work, more=more, retriever="bm25") for each in made.questions]
    asked = Evaluation.of(trained, parts=True)
    return [question for question in questions if not asked.asks(question.question)]


@app.command()
def main(
    questions: Annotated[Path, typer.Argument(help="Converted questions, a .jsonl file.")],
    data: Annotated[Path, typer.Option(help="Folder with the official files of the benchmarks.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the questions not trained on.")],
    more_data: Annotated[Path | None, typer.Option(help="Folder with further training data.")] = None,
    work: Annotated[Path, typer.Option(help="Folder for converted files and indexes.")] = Path("training_work"),
) -> None:
    """Write the questions of a file that the embedded LM was not trained on."""
    asked = read_questions(questions)
    found = unseen(asked, data, work, more_data)
    write_questions(out, found)
    print(f"Written: {out} ({len(found)} of {len(asked)} questions)")


if __name__ == "__main__":
    run_command(app, "unseen")
