"""What withholding unsure answers is worth: calibration before and after, and whether a promised precision holds.

    python -m experiments.papers.selective sets --limit 300 --out selective.json

`sets/SET/` has `questions.jsonl` and `index/` of each question set. A program is asked every question once (replies are
cached), and what follows costs no LM call. Within each set, five parts: the probability is fitted on four and looked at
on the fifth. The precision: in each of `DRAWS` draws, two thirds of the questions fit and test a threshold as `verihop
artifact selective --precision` does, and the other third is answered with it. `--transfer A:B` fits on all of A and
looks at B.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.papers.command import help_of, rounded, run_command, say
from signatures.common.errors import UserError

PRECISIONS = (0.5, 0.6, 0.7, 0.8, 0.9)
DRAWS, DELTA = 200, 0.1
_TEST = 3  # a third

Answers = Sequence[Any]  # of `optimizers.selective.Graded`


def calibrated(answers: Answers, probabilities: Sequence[float]) -> dict[str, float | None]:
    """Return calibration error and AUROC of probabilities, and accuracy of the surest half and of all answers."""
    from experiments.analysis.summary import auroc, calibration_error, selective_accuracy

    right = [float(each.right) for each in answers]
    return {
        "n": len(right),
        "ece": rounded(calibration_error(probabilities, right)),
        "auroc": rounded(auroc(probabilities, right)),
        "@50": rounded(selective_accuracy(probabilities, right, 0.5)),
        "@100": rounded(selective_accuracy(probabilities, right, 1.0)),
    }


def within(answers: Answers) -> dict[str, Any]:
    """Return the calibration of the stated confidence, and of the probability that is fitted on other questions."""
    from optimizers.logistic import folds
    from optimizers.selective import Asked, fit
    from programs.parts.logistic import score

    fitted, rules = [0.0] * len(answers), []
    for train, held in folds(len(answers)):
        found = fit(Asked([answers[place] for place in train]))
        rules.append(found.rule)
        for place in held:
            fitted[place] = score(answers[place].features, found.weights)
    known = [place for place, each in enumerate(answers) if "confidence" in each.features]
    stated = [answers[place].features["confidence"] for place in known]
    some = [answers[place] for place in known]
    return {
        "stated": calibrated(some, stated) if some else None,
        "fitted, where stated": calibrated(some, [fitted[place] for place in known]) if some else None,
        "fitted": calibrated(answers, fitted),
        "rules": rules,
    }


def promised(answers: Answers, abstained: int, precision: float) -> dict[str, Any]:
    """Return how often a threshold is found, and on other questions the share answered and right with it.

    `missed` is the share of all draws in which less than `precision` of the other answers were right; these are few, so
    that chance adds to the `DELTA` that is promised.

    Args:
        answers: Of a set.
        abstained: Questions that the program did not answer; they count as not answered.
        precision: That is asked for.
    """
    from optimizers.selective import Asked, fit
    from programs.parts.logistic import score

    draw, found, answered, right, below, tested = random.Random(0), 0, 0, 0, 0, 0
    for number in range(DRAWS):
        # Other ids, so that the split into a part that fits and one that tests is drawn, too.
        order = [replace(each, id=f"{number}-{each.id}") for each in draw.sample(list(answers), len(answers))]
        cut = len(order) // _TEST
        try:
            rule = fit(Asked(order[cut:]), precision=precision, delta=DELTA)
        except UserError:
            continue
        given = [each.right for each in order[:cut] if score(each.features, rule.weights) >= rule.least]
        found, answered, right, tested = found + 1, answered + len(given), right + sum(given), tested + cut
        below += bool(given) and sum(given) < precision * len(given)
    share = len(answers) / (len(answers) + abstained)
    return {
        "found": found / DRAWS,
        "answered": rounded(share * answered / tested) if tested else None,
        "precision": rounded(right / answered) if answered else None,
        "missed": rounded(below / DRAWS),
    }


def measured(sets: Mapping[str, Any], transfers: Sequence[str]) -> dict[str, Any]:
    """Return what is known of each set, and of those that another was fitted on.

    Args:
        sets: Name -> what the program made of its questions (`optimizers.selective.Asked`).
        transfers: Each as "A:B".

    Raises:
        UserError: A transfer names no set.
    """
    from optimizers.selective import fit
    from programs.parts.logistic import score

    found: dict[str, Any] = {}
    for name, asked in sets.items():
        found[name] = {
            "abstained": asked.abstained,
            **within(asked.answers),
            "promised": {f"{each:g}": promised(asked.answers, asked.abstained, each) for each in PRECISIONS},
        }
    moved: dict[str, Any] = {}
    for pair in transfers:
        fitted_on, _, looked_at = pair.partition(":")
        if not {fitted_on, looked_at} <= sets.keys():
            raise UserError(f"--transfer {pair} must be A:B of {', '.join(sets)}.")
        rule, answers = fit(sets[fitted_on]), sets[looked_at].answers
        moved[pair] = calibrated(answers, [score(each.features, rule.weights) for each in answers])
    return {"sets": found, "transfer": moved}


def ask_sets(folder: Path, program: str, preset: str, rerank: str, lm: str, limit: int | None) -> dict[str, Any]:
    """Return what a program makes of the questions of each set (`optimizers.selective.Asked`).

    Raises:
        UserError: There is no set, or the program cannot be opened or asked.
    """
    from experiments.pipeline.opened import AnswererSpec
    from experiments.pipeline.setup import open_questions
    from experiments.runs.specs import ProgramSpec
    from optimizers import selective
    from optimizers.examples import to_examples
    from optimizers.metrics.typed.opened import typed_metric
    from programs.lms.spec import LMSpec

    asked = {}
    for place in sorted(each for each in folder.glob("*") if (each / "questions.jsonl").is_file()):
        spec = ProgramSpec(program=program, preset=preset, index=place / "index", rerank=rerank)
        opened = AnswererSpec(spec, LMSpec(id=lm), None).with_defaults()[0].open()
        questions = open_questions(place / "questions.jsonl", split=None, limit=limit)
        with opened.connection.use():
            examples = to_examples(questions)
            asked[place.name] = selective.ask(selective.Selective(opened.program), examples, typed_metric("em"))
        say(f"{place.name}: {len(asked[place.name].answers)} answers of {len(questions)} questions")
    if not asked:
        raise UserError(f"{folder} has no set: a folder with questions.jsonl and index for each.")
    return asked


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def main(
    sets: Annotated[Path, typer.Argument(help="Folder of question sets, each with questions.jsonl and index.")],
    out: Annotated[Path, typer.Option(help="JSON file to write.")],
    program: Annotated[str, typer.Option(help="Name of the program.")] = "rag",
    preset: Annotated[str, typer.Option(help="Of the program.")] = "small",
    rerank: Annotated[str, typer.Option(help="own, own-light or none.")] = "own",
    lm: Annotated[str, typer.Option(help="Answers.")] = "embedded",
    limit: Annotated[int | None, typer.Option(help="Most questions of a set, drawn by a hash of their ids.")] = None,
    transfer: Annotated[
        list[str] | None, typer.Option(help="A:B fits on set A and looks at set B; repeatable.")
    ] = None,
) -> None:
    """Ask, fit, and write what was found."""
    from experiments.runs.config import machine, portable
    from experiments.runs.files import git_revision, write_json

    asked = ask_sets(sets, program, preset, rerank, lm, limit)
    words = [f"--program {program} --preset {preset} --rerank {rerank} --lm {lm}", f"--limit {limit}" if limit else ""]
    words += [f"--transfer {pair}" for pair in transfer or ()]
    command = " ".join(filter(None, [f"python -m {MODULE} {sets.name}", *words, f"--out {out.name}"]))
    values = {name: _values(of.answers) for name, of in asked.items()}
    found = {"delta": DELTA, "draws": DRAWS, **measured(asked, transfer or ()), "values": values}
    write_json(out, portable({"command": command, "revision": git_revision(), "machine": machine(), **found}))
    say(f"Written: {out}")


def _values(answers: Answers) -> dict[str, list[Any]]:
    stated = [each.features.get("confidence") for each in answers]
    return {
        "id": [each.id for each in answers],
        "right": [int(each.right) for each in answers],
        "confidence": [None if value is None else rounded(value) for value in stated],
    }


MODULE = "experiments.papers.selective"

if __name__ == "__main__":
    run_command(app, "selective")
