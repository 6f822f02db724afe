"""The study of programs on fixed contexts: all conditions, the sweep over noise, and abstaining; see `knowledge.py`."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.statistics import Mean
    from experiments.runs.files import Row
    from optimizers.metrics.metric import Metric
    from programs.lms.connect import Connection
    from signatures.types import Passage

    Scores = Mapping[str | int, Mapping[str, Mean]]  # condition or number of references -> metric -> mean

CONDITIONS = ("closed", "partial", "complete")
REFLECTING = ("self_completion", "reflection")  # the program that abstains, and its preset without completion


@dataclass(frozen=True)
class StudyConfig:
    """The configuration of a study, without its questions and passages.

    Args:
        name: Part of the name of the result file, knowledge_NAME_LM.json.
        lm: LM id.
        programs: Names of the programs, each with a preset or not ("self_completion:control").
        metrics: Names of the metrics, separated by commas; the picture shows the first.
        oracle: Id of the entailment oracle; None for the default.
        n: References of a question.
        sizes: Numbers of references in the sweep over noise.
        out: Folder of the runs.
        results: Folder of the result file and the picture.
        threads: Questions asked in parallel.
        resume: Resume an interrupted study in `out`.
    """

    name: str
    lm: str
    programs: tuple[str, ...]
    metrics: str
    oracle: str | None
    n: int
    sizes: tuple[int, ...]
    out: Path
    results: Path
    threads: int
    resume: bool


class ConditionRuns:
    """Runs programs with fixed contexts and returns their scores.

    Args:
        config: Configuration of the study.
        questions: Questions with gold ids.
        passages: The corpus, which contains gold and noise.
        connection: The LM.
        metrics: The metrics to score.
    """

    def __init__(
        self,
        config: StudyConfig,
        questions: "list[Question]",
        passages: "list[Passage]",
        connection: "Connection",
        metrics: "list[Metric]",
    ):
        self._config, self._questions, self._passages = config, questions, passages
        self._connection, self._metrics = connection, metrics

    def score(self, program: str, condition: str, n: int) -> "dict[str, Mean]":
        """Return the mean scores of a program (`NAME` or `NAME:PRESET`) under one condition, by metric name."""
        return self._run(*_name_and_preset(program), condition, n)[0]

    def reflection(self, n: int) -> dict[str, Any]:
        """Return accuracy and F1 of abstaining (positive: abstain) on balanced groups, with the four counts."""
        from experiments.runs.fixed_contexts import abstention_scores

        return abstention_scores(self._run(*REFLECTING, "balanced", n)[1])

    def _run(self, program: str, preset: str, condition: str, n: int) -> "tuple[dict[str, Mean], list[Row]]":
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.config import RunConfig
        from experiments.runs.files import read_rows
        from experiments.runs.fixed_contexts import choose_contexts
        from programs.catalog import build

        questions, contexts, excluded = choose_contexts(self._questions, self._passages, knowledge=condition, n=n)
        _say(f"\n== {program} ({preset}), {condition}, n={n}; {excluded} questions excluded")
        folder = self._config.out / f"{program}-{preset}-{condition}-{n}"
        summary = evaluate(
            build(program, preset=preset),
            questions,
            RunConfig(metrics=self._metrics, threads=self._config.threads, contexts=contexts),
            connection=self._connection,
            folder=folder,
            resume=self._config.resume,
        )
        return summary.metrics, read_rows(folder)


def run_study(config: StudyConfig, questions: "list[Question]", passages: "list[Passage]") -> None:
    """Run all conditions, write the result file and the picture, and print the table.

    Raises:
        UserError: A program or preset is unknown, or a metric cannot score its short answers.
    """
    from experiments.pipeline.setup import open_lm, open_metrics
    from experiments.runs.config import portable, provenance
    from experiments.runs.files import write_json
    from programs.lms.spec import LMSpec

    connection = open_lm(LMSpec(id=config.lm))
    metrics, oracle_note = open_metrics(config.metrics, config.oracle)
    if oracle_note:
        print(f"Entailment: {oracle_note}")
    for program in config.programs:
        _check_form(program, metrics)
    runs = ConditionRuns(config, questions, passages, connection, metrics)
    conditions: dict[str, Scores] = {}
    sweep: dict[str, Scores] = {}
    for program in config.programs:
        conditions[program] = {condition: runs.score(program, condition, config.n) for condition in CONDITIONS}
        measured = {config.n: conditions[program]["complete"]}
        sweep[program] = {size: measured.get(size) or runs.score(program, "complete", size) for size in config.sizes}
    reflection = runs.reflection(config.n)
    record = {
        **provenance("experiments.papers.knowledge", connection),
        "metrics": {metric.name: metric.definition for metric in metrics},
        "n": config.n,
        "conditions": _as_json(conditions),
        "sweep": _as_json(sweep),
        "reflection": reflection,
    }
    path = config.results / f"knowledge_{config.name}_{re.sub('[/:]', '_', portable(connection.id))}.json"
    write_json(path, portable(record))
    picture = _draw(sweep, metrics[0].name, path.with_suffix(".png"))
    _print_table(conditions, sweep, reflection)
    _say(f"Written: {path} and {picture}")


def _name_and_preset(program: str) -> tuple[str, str]:
    name, _, preset = program.partition(":")
    return name, preset or "paper"


def _check_form(program: str, metrics: "list[Metric]") -> None:
    """Raise UserError if key facts are to be found in the answers of a program that writes no full sentences."""
    from programs.catalog import build

    name, preset = _name_and_preset(program)
    predictors = build(name, preset=preset).named_predictors()
    of_key_facts = [metric.name for metric in metrics if metric.name.startswith("keyfacts")]
    if of_key_facts and not any("response" in predictor.signature.output_fields for _, predictor in predictors):
        raise UserError(
            f"Program {name!r} answers in a few words, which {of_key_facts[0]} cannot score. Choose a program that "
            "writes full sentences, such as self_completion, or other metrics."
        )


def _draw(sweep: "Mapping[str, Scores]", metric: str, path: Path) -> Path:
    """Draw one curve per program over the numbers of references and return the path of the picture."""
    from experiments.analysis.report.plots import curves

    return curves(
        {program: {int(size): means[metric] for size, means in by_size.items()} for program, by_size in sweep.items()},
        path,
        title="All gold, increasing noise",
        x_label="references, two or more of them gold",
        y_label=f"{metric}, %",
    )


def _as_json(scores: "Mapping[str, Scores]") -> dict[str, Any]:
    return {
        program: {
            str(place): {name: mean.as_dict() for name, mean in means.items()} for place, means in by_place.items()
        }
        for program, by_place in scores.items()
    }


def _print_table(conditions: "Mapping[str, Scores]", sweep: "Mapping[str, Scores]", reflection: dict[str, Any]) -> None:
    from experiments.analysis.summary import interval, percent
    from experiments.runs.fixed_contexts import abstention_text

    for program, by_condition in conditions.items():
        lines = {str(condition): means for condition, means in by_condition.items()}
        lines |= {f"n = {size}": means for size, means in sweep[program].items()}
        for label, means in lines.items():
            for name, mean in means.items():
                value = f"{percent(mean.mean)} [{interval(mean)}] (n = {mean.n})"
                print(f"{program:24} {label:9} {name:20} {value}")
    print(abstention_text(reflection))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
