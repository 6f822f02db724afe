"""Tables that are no scores of runs: each is assembled by what the house has for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.analysis.statistics import Mean, mean_of
from experiments.papers.tables import grid, judging
from experiments.papers.tables.asking import Failed
from experiments.papers.tables.found import Line, first_runs
from experiments.papers.tables.grid import Grid, GridRow, Value, headings_of, published_only, published_rows
from experiments.papers.tables.plan import Request, folder_of_lm
from experiments.papers.tables.spec import Column, Table, published
from experiments.papers.tables.values import Run
from signatures.common.errors import UserError
from signatures.text_words import same_words

if TYPE_CHECKING:
    from experiments.annotation.review.results import ReviewResults
    from optimizers.distill.examples import Example
    from programs.lms.calls.budget import Budget


def assemble(table: Table, lines: Sequence[Line], request: Request, budget: "Budget | None", failed: Failed) -> Grid:
    """Return what a table came to.

    Args:
        failed: Receives why there are no numbers of ours, if that is so: what is published is still printed.
    """
    try:
        made = KINDS[table.kind](table, lines, request, budget)
    except UserError as error:  # e.g. a judge that cannot compare
        made = published_only(table, notes=[str(error)])
        failed.append((table.name, str(error)))
    return replace(made, notes=[*made.notes, *table.notes])


def _scores(table: Table, lines: Sequence[Line], *_: object) -> Grid:
    return grid.scores(table, lines)


def _groups(table: Table, lines: Sequence[Line], request: Request, *_: object) -> Grid:
    """Scores by groups of questions, as the first row's run records them (`verihop compare --by`)."""
    from experiments.analysis.by_group import compare_by
    from experiments.analysis.compare import compare_runs

    runs = first_runs(lines, request)
    if len(runs) < 2:
        return published_only(table)
    groups = compare_by(compare_runs([run.folder for run in runs.values()]), str(table.by))
    headings = [
        (f"{table.by} = {group} (n = {size})", table.headings.get(name, name))
        for group, size in groups.sizes.items()
        for name in table.metrics
    ]
    rows = [
        GridRow(
            label, [Value(groups.scores[group][name][place].mean) for group in groups.sizes for name in table.metrics]
        )
        for place, label in enumerate(runs)
    ]
    return Grid(table, headings, rows, notes=groups.notices)


def _ratings(table: Table, lines: Sequence[Line], request: Request, *_: object) -> Grid:
    """Grades by people, beside scores of the same runs and the correlation of both over systems (`verihop review`)."""
    if not request.reviews:
        return published_only(table)
    from experiments.analysis.compare import labels_of
    from experiments.annotation.review.results import review_results
    from experiments.annotation.review.review_folder import read_review

    means: dict[Path, dict[str, Mean | None]] = {}
    rated_by: dict[tuple[Path, str], Path] = {}
    correlations: list[GridRow] = []
    for review in map(read_review, request.reviews):
        results = review_results(review)
        for rated, source in zip(results.runs, review.description.sources, strict=True):
            run = Run(Path(source.path).resolve())
            if (first := rated_by.setdefault((run.folder, results.scale), review.folder)) != review.folder:
                raise UserError(f"{first} and {review.folder} rate {run.folder} on the same scale: name one of them.")
            own = means.setdefault(run.folder, {name: run.mean(name) for name in table.metrics})
            own[f"rating[{results.scale}]"] = rated.mean
        correlations += _correlations(table, results)
    rows = [
        GridRow(label, [Value(own[name]) for name in table.metrics])
        for label, own in zip(labels_of(list(means)), means.values(), strict=True)
    ]
    return Grid(table, headings_of(table), [*rows, *correlations, *published_rows(table)])


def _correlations(table: Table, results: "ReviewResults") -> list[GridRow]:
    """Return the correlation of metrics with a rating; [] if the table has none."""
    found = {each.metric: each for each in results.metrics if table.shown == "correlation"}
    rows = []
    for over in ("systems", "answers") if found else ():
        coefficients = [getattr(found[name], over)["pearson"] if name in found else None for name in table.metrics]
        values = [Value(each and Mean(each.value, None, None, each.n, 0), plain=True) for each in coefficients]
        rows.append(GridRow(f"Pearson over {over}, {results.scale}", values))
    return rows


def _distillation(table: Table, lines: Sequence[Line], request: Request, budget: "Budget | None") -> Grid:
    """Statistics of training examples, of a folder that is named or made by the recipe of the paper."""
    from optimizers.distill.examples import read_examples

    folder = request.examples or _synthesized(table, request, budget)
    examples = read_examples(folder / "examples.jsonl")
    prompts = [float(len(each.messages[-1].content.split())) for each in examples]
    replies = [float(len(each.completion.split())) for each in examples]
    questions = [(each.source, each.question_id) for each in examples]
    ours = {
        "examples": Mean(float(len(examples)), None, None, len(examples), 0),
        "questions": Mean(float(len(set(questions))), None, None, len(examples), 0),
        "words of the prompt": mean_of(prompts),
        "words of the reply": mean_of(replies),
        **_gold_documents(table.columns[0], request, examples),
    }
    row = table.rows[0]
    values = [Value(ours.get(name), published(row, place)) for place, name in enumerate(table.metrics)]
    return Grid(table, headings_of(table), [GridRow(row.label, values)])


def _gold_documents(column: Column, request: Request, examples: "Sequence[Example]") -> dict[str, Mean]:
    """Return how many gold passages of its question an example shows, and their words; {} without the questions."""
    from corpora.passages import read_passages
    from corpora.questions import read_questions
    from experiments.papers.tables.sources import dataset_of, open_source

    try:
        source = open_source(column, request.data, request.work)
    except UserError:  # the examples were named, and may be of other questions
        return {}
    asked = {each.question_id for each in examples if each.source == dataset_of(source) and source.passages}
    gold_ids = {each.id: set(each.gold_ids) for each in read_questions(source.questions) if each.id in asked}
    wanted = set().union(*gold_ids.values())
    found = read_passages(source.passages) if source.passages and wanted else ()
    texts = {passage.id: passage.text for passage in found if passage.id in wanted}
    shown = [
        _shown(each, [texts[id] for id in gold_ids[each.question_id] & texts.keys()])
        for each in examples
        if each.question_id in gold_ids
    ]
    words = [float(len(text.split())) for golds in shown for text in golds]
    numbers = {"gold documents": [float(len(golds)) for golds in shown], "words of a gold document": words}
    return {name: mean_of(values) for name, values in numbers.items() if values}


def _shown(example: "Example", texts: Sequence[str]) -> list[str]:
    prompt = same_words(example.messages[-1].content)
    return [text for text in texts if same_words(text) in prompt]


def _synthesized(table: Table, request: Request, budget: "Budget | None") -> Path:
    from experiments.papers.tables.sources import dataset_of, indexed, open_source
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis
    from experiments.runs.specs import ProgramSpec

    column, recipe = table.columns[0], str(table.setting.program)
    source = open_source(column, request.data, request.work)
    if source.passages is None:
        raise UserError(f"{source.name} has no passages: name a folder of examples with --examples.")
    limit = request.limit or column.questions
    out = request.work / "examples" / folder_of_lm(request.lm) / f"{source.name}-{limit}-{recipe}"
    if (out / "manifest.json").is_file():
        return out
    if request.only_table:
        raise UserError(
            f"There are no examples in {out}: make them without --only-table, or name them with --examples."
        )
    index = indexed(source, progress=request.progress)
    asked = SynthesisRequest(
        files=[(dataset_of(source), source.questions)],
        program=ProgramSpec(program=recipe, index=index),
        teacher=request.lm.for_threads(request.threads),
        recipe=recipe,
        student="json",
        passages=source.passages,
        limit=limit,
        threads=request.threads,
    )
    open_synthesis(asked, budget).run(out, resume=out.exists(), progress=request.progress)
    return out


def _case(table: Table, lines: Sequence[Line], request: Request, *_: object) -> Grid:
    """The traces of the question on which the first row is furthest ahead of the mean of the others."""
    from experiments.analysis.traces import traces
    from signatures.common.terminal import open_console

    runs = first_runs(lines, request)
    if not runs:
        return Grid(table, [], [])
    metric = table.metrics[0]
    first, *others = (dict(zip(run.ids, run.values(metric), strict=True)) for run in runs.values())
    shared = [id for id in first if all(id in own for own in others)]
    if not shared:
        return Grid(table, [], [], notes=["The runs share no question."])

    def ahead(id: str) -> float:
        return (first[id] or 0) - sum(own[id] or 0 for own in others) / max(1, len(others))

    chosen = max(shared, key=ahead)  # the first of equals: ids are in order
    found = traces([run.folder for run in runs.values()], chosen)
    console = open_console()
    with console.capture() as shown:
        console.print(found.as_table(), width=max(80, 40 * len(runs)))
    named = ", ".join(f"{label} ({run.folder.name})" for label, run in runs.items())
    return Grid(table, [], [], texts={f"{found.text} In order: {named}": shown.get()})


Assembled = Callable[[Table, Sequence[Line], Request, "Budget | None"], Grid]
KINDS: dict[str, Assembled] = {
    "scores": _scores,
    "judged": judging.judged,
    "groups": _groups,
    "ratings": _ratings,
    "distillation": _distillation,
    "case": _case,
}
