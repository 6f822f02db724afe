"""Programs on fixed contexts: none, some or all gold passages, and all gold with more and more noise passages.

    python -m experiments.papers.knowledge world --lm simulated
    python -m experiments.papers.knowledge files questions.jsonl passages.jsonl --lm embedded --limit 50

After "How Credible Is an Answer From Retrieval-Augmented LLMs?", sections 6.3 (Table 3, Figure 3) and 6.4 (Table 4):
closed book, partial and complete references; gold with noise up to n references; and how well abstaining separates
partial from complete references, on as many of each. One JSON file under experiments/results contains the numbers, one
picture of the same name the curves.

The scores are those of answers in full sentences, so the programs must write them: by default the paper's, with the
preset `control` (one answer, the plain LM of Table 3; closed book, it answers from memory) and as it is. Programs that
answer in a few words, such as `rag`, cannot be scored on key facts. `cov_rag` has no closed-book prompt.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.papers.command import run_command
from experiments.papers.knowledge_study import StudyConfig, run_study
from signatures.common.errors import UserError

RESULTS = Path("experiments/results")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the different numbers of `--sizes`, ascending.

    Raises:
        UserError: The text is not a list of whole numbers separated by commas.
    """
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise UserError(f"--sizes {text!r} must be whole numbers separated by commas, e.g. 2,5,10.") from None


def _at_least(low: int) -> Callable[[str], int]:
    """Return the type of an option whose value is a whole number from `low`."""

    def number(text: str) -> int:
        if int(text) < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, got {text}")
        return int(text)

    return number


def _shared_options(*, lm: str, sizes: str, out: str) -> argparse.ArgumentParser:
    """Return the options of both commands, with the defaults in which they differ."""
    parser = argparse.ArgumentParser(add_help=False)
    add = parser.add_argument
    metrics = "keyfacts_recall,keyfacts_precision,acc[substring]"
    add("--lm", default=lm, help="LM id")
    programs = "self_completion:control,self_completion"
    add("--programs", default=programs, help="names, or NAME:PRESET, separated by commas; they write full sentences")
    add("--metrics", default=metrics, help="names, separated by commas; the picture shows the first")
    add("--oracle", help="entailment oracle of keyfacts_* and the groundedness metrics")
    add("--n", type=_at_least(2), default=5, help="references of a question")
    add("--sizes", default=sizes, help="numbers of references of the sweep, separated by commas")
    add("--out", type=Path, default=Path(out), help="folder for the runs")
    add("--results", type=Path, default=RESULTS, help="folder for the result file and the picture")
    add("--threads", type=_at_least(1), default=8, help="questions asked in parallel")
    add("--resume", action="store_true", help="resume an interrupted study")
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    with_defaults = argparse.ArgumentDefaultsHelpFormatter
    shared = _shared_options(lm="simulated", sizes="2,5,10,20", out="runs/knowledge-world")
    text = "run on two-hop questions of the simulated world"
    world = commands.add_parser("world", parents=[shared], formatter_class=with_defaults, help=text)
    world.add_argument("--dev", type=_at_least(2), default=200, help="number of questions")
    world.set_defaults(run=_on_world)
    shared = _shared_options(lm="embedded", sizes="2,5,10", out="runs/knowledge")
    text = "run on your own questions and passages"
    files = commands.add_parser("files", parents=[shared], formatter_class=with_defaults, help=text)
    files.add_argument("questions", type=Path, help="questions.jsonl with gold ids")
    files.add_argument("passages", type=Path, help="passages.jsonl with gold and noise")
    files.add_argument("--name", default="files", help="part of the name of the result file, knowledge_NAME_LM.json")
    files.add_argument("--limit", type=_at_least(2), default=50, help="use the first N questions")
    files.set_defaults(run=_on_files)
    return parser


def _config(arguments: argparse.Namespace, name: str) -> StudyConfig:
    return StudyConfig(
        name=name,
        lm=arguments.lm,
        programs=tuple(program.strip() for program in arguments.programs.split(",") if program.strip()),
        metrics=arguments.metrics,
        oracle=arguments.oracle,
        n=arguments.n,
        sizes=parse_sizes(arguments.sizes),
        out=arguments.out,
        results=arguments.results,
        threads=arguments.threads,
        resume=arguments.resume,
    )


def _on_world(arguments: argparse.Namespace) -> None:
    """Run on questions of the simulated world with two gold passages."""
    from corpora.passages import read_passages
    from corpora.questions import read_questions
    from experiments.world.generate import generate

    config = _config(arguments, "world")
    passages, questions = generate(config.out / "data", questions=2 * arguments.dev)
    two_hop = [question for question in read_questions(questions) if len(question.gold_ids) == 2]
    run_study(config, two_hop[: arguments.dev], list(read_passages(passages)))


def _on_files(arguments: argparse.Namespace) -> None:
    """Run on the questions and passages of two files."""
    from corpora.passages import read_passages
    from corpora.questions import read_questions

    questions = read_questions(arguments.questions)[: arguments.limit]
    run_study(_config(arguments, arguments.name), questions, list(read_passages(arguments.passages)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command of `argv`, by default that of the command line.

    Raises:
        UserError: An option, a file or the LM is unusable.
    """
    arguments = _parser().parse_args(argv)
    arguments.run(arguments)


if __name__ == "__main__":
    run_command(main, "knowledge")
