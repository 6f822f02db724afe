"""Tables that are no scores of runs: each is assembled by what the house has for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.analysis.statistics import Mean, mean_of
from experiments.papers.tables import grid
from experiments.papers.tables.asking import Failed, LMs
from experiments.papers.tables.found import Line, lines_of
from experiments.papers.tables.grid import Grid, GridRow, Order, Value
from experiments.papers.tables.plan import Cell, Request, done_rows, folder_of_lm, id_of, unopened
from experiments.papers.tables.spec import Column, Row, Table, published
from experiments.papers.tables.values import Run, is_judged, needed
from experiments.runs.files import RUN, read_json, read_rows
from experiments.runs.files import Row as Answered
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.text_words import same_words

if TYPE_CHECKING:
    from experiments.annotation.review.results import ReviewResults
    from experiments.pipeline.evaluate import Estimate
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
        made = Grid(table, _headings(table), _published(table), notes=[str(error)])
        failed.append((table.name, str(error)))
    return replace(made, notes=[*made.notes, *table.notes])


def _scores(table: Table, lines: Sequence[Line], *_: object) -> Grid:
    return grid.scores(table, lines)


def _headings(table: Table) -> list[tuple[str, str]]:
    return [("", table.headings.get(name, name)) for name in table.metrics]


def _published(table: Table, known: Sequence[str] = ()) -> list[GridRow]:
    """Return the rows that are published, but not those that have numbers of ours."""
    return [
        GridRow(row.label, [Value(stated=published(row, place)) for place in range(table.width)])
        for row in table.rows
        if row.published and row.label not in known
    ]


def _first_runs(lines: Sequence[Line], request: Request) -> dict[str, Run]:
    """Return the run of each row in its first column, of the LM of the request if there is one of it."""
    found: dict[str, Run] = {}
    for line in lines:
        run = line.runs[0] if line.runs else None
        if run is not None and (line.row.label not in found or run.lm == id_of(request.lm)):
            found[line.row.label] = run
    return found


def _judged(table: Table, lines: Sequence[Line], request: Request, budget: "Budget | None") -> Grid:
    """Ranks or rates of high quality by an LM that compares the answers of the rows (`verihop judge`)."""
    runs = _first_runs(lines, request)
    if request.judge is None or len(runs) < 2:
        return Grid(table, _headings(table), _published(table))
    from corpora.passages import read_passages
    from experiments.annotation.judge_runs import judge_runs
    from experiments.papers.tables.sources import open_source

    source = open_source(table.columns[0], request.data, request.work)
    corpus = {passage.id: passage for passage in read_passages(source.passages)} if source.passages else {}
    folders = {label: run.folder for label, run in runs.items()}
    out = _judgements(runs, request.judge, request)
    if request.only_table and not _all_judged(out):
        return Grid(table, _headings(table), _published(table))
    connection = LMs(budget, request.threads).of(request.judge)
    judgement = judge_runs(
        list(folders.values()),
        corpus,
        connection=connection,
        out=out,
        threads=request.threads,
        resume=out.exists(),
        progress=request.progress,
    )
    labels = dict(zip(judgement.runs, folders, strict=True))
    found = {(labels[each.run], each.criterion): getattr(each, str(table.shown)) for each in judgement.standings}
    by_label = {row.label: row for row in table.rows}
    rows = [
        GridRow(label, [Value(found.get((label, name)), published(by_label[label], place))
                        for place, name in enumerate(table.metrics)])
        for label in folders
    ]  # fmt: skip
    by_run = {run: by_label[label] for run, label in labels.items()}
    orders = _judged_orders(table, by_run, read_rows(out), id_of(request.lm))
    return Grid(
        table,
        _headings(table),
        [*rows, *_published(table, list(folders))],
        orders=orders,
        notes=judgement.notices,
    )


def judging_of(table: Table, cells: Sequence[Cell], request: Request) -> "Estimate":
    """Return what the judge is asked at most; 0 questions without one that can be asked."""
    from experiments.pipeline.evaluate import unmeasured

    if request.judge is None or unopened(request.judge) is not None:
        return unmeasured(0, 0)
    there = [cell for cell in cells if cell.missing is None]
    if table.kind == "judged":
        return unmeasured(*_comparing(table, there, request.judge, request))
    return unmeasured(*((0, 0) if request.shard is not None else _scoring(table, there, request)))


def _comparing(table: Table, cells: Sequence[Cell], judge: LMSpec, request: Request) -> tuple[int, int]:
    """Return how many questions, and LM calls at most, the comparison of the rows takes."""
    from optimizers.metrics.judges.listwise_judge import ListwiseJudge
    from optimizers.metrics.judges.revision_judge import RevisionJudge

    runs = _first_runs(lines_of(table, request), request)
    cells = [cell for cell in cells if cell.column == table.columns[0]]
    sizes = {cell.row.label: cell.asked for cell in cells} | {label: len(run.ids) for label, run in runs.items()}
    if len(sizes) < 2:
        return 0, 0
    asking = any(len(done_rows(cell.folder(request.work))) < cell.asked for cell in cells)
    out = _judgements(runs, judge, request)
    judged = 0 if asking or not (out / RUN).is_file() else len(read_rows(out))
    left = max(0, min(sizes.values()) - judged)
    return left, left * (ListwiseJudge().max_calls() + RevisionJudge().max_calls() * len(sizes))


def _scoring(table: Table, cells: Sequence[Cell], request: Request) -> tuple[int, int]:
    """Return how many answers, and LM calls at most, the judged metrics take."""
    from optimizers.metrics.catalog import get_metric

    wanted: dict[Path, tuple[Cell, set[str]]] = {}
    for cell in cells:
        names = {each for name in table.scored(cell.column) if is_judged(name) for each in needed(name)}
        wanted.setdefault(cell.folder(request.work), (cell, set()))[1].update(names)
    answers = calls = 0
    for folder, (cell, names) in wanted.items():
        rows, asked = done_rows(folder) if names else [], cell.asked * (cell.setting.repeats or 1)
        left = {name: asked - sum(name in row["scores"] for row in rows) for name in names}
        answers += max(left.values(), default=0)
        calls += sum(get_metric(name).judge_calls * n for name, n in left.items())
    return answers, calls


def _judgements(runs: Mapping[str, Run], judge: LMSpec, request: Request) -> Path:
    """Return the folder of the judgements of runs."""
    name = sha256_text("\n".join(f"{run.folder.parent.name}/{run.folder.name}" for run in runs.values()))[:8]
    return request.work / "judgements" / f"{folder_of_lm(judge)}-{name}"


def _all_judged(folder: Path) -> bool:
    """Return whether a folder has a judgement of each question that was to be judged."""
    return (folder / RUN).is_file() and len(read_rows(folder)) == len(read_json(folder / RUN)["questions"])


def _judged_orders(table: Table, by_label: Mapping[str, Row], judged: Sequence[Answered], lm: str) -> list[Order]:
    """Return, for each criterion, whether the judge orders the rows as they are published.

    Args:
        by_label: Label of a judged run -> its row.
        judged: The judgements of questions.
    """
    from experiments.annotation.judgement_results import judged_values

    found = []
    for place, (heading, criterion) in enumerate(zip(_headings(table), table.metrics, strict=True)):
        values = judged_values(criterion, list(by_label), judged)
        shown = {label: own[str(table.shown)] for label, own in values.items()}
        known = [label for label, own in shown.items() if any(value is not None for value in own)]
        both = {label: stated for label in known if (stated := published(by_label[label], place)) is not None}
        if len(both) > 2:
            found.append(grid.order(heading, lm, list(both.values()), [[shown[label]] for label in both]))
    return found


def _groups(table: Table, lines: Sequence[Line], request: Request, *_: object) -> Grid:
    """Scores by groups of questions, as the first row's run records them (`verihop compare --by`)."""
    from experiments.analysis.by_group import compare_by
    from experiments.analysis.compare import compare_runs

    runs = _first_runs(lines, request)
    if len(runs) < 2:
        return Grid(table, _headings(table), _published(table))
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
        return Grid(table, _headings(table), _published(table))
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
    return Grid(table, _headings(table), [*rows, *correlations, *_published(table)])


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
    return Grid(table, _headings(table), [GridRow(row.label, values)])


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

    runs = _first_runs(lines, request)
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
    "judged": _judged,
    "groups": _groups,
    "ratings": _ratings,
    "distillation": _distillation,
    "case": _case,
}
