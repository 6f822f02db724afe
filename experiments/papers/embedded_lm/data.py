"""Write the training examples of the embedded LM from gold annotations.

    python -m experiments.papers.embedded_lm.data --data ../shared/data --more-data ../shared/training_data --out FOLDER

Each source gives examples of all programs; `plan.py` says how many of which predictor are drawn from which source.
Where real data gives fewer than planned, examples of the generated world are left out until they are at most half of
each predictor's. Distractors are what the reranker of our own returns; no example shows gold of an evaluation, and
none is of data whose licence is not stated.
"""

import functools
import multiprocessing
import random
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import ujson

from corpora.questions import Question
from corpora.retrievers.rerank import OWN, open_reranker
from experiments.papers.command import names, run_command
from experiments.papers.embedded_lm import plan
from experiments.papers.embedded_lm.licences import check_licence
from experiments.papers.embedded_lm.plan import EVIDENCE_FIRST, PLAN, PROGRAMS, READINGS
from experiments.papers.embedded_lm.sources import PLAIN, RETRIEVERS, SOURCES, Prepared, prepare, present
from experiments.papers.embedded_lm.varied import (
    Draft,
    Variation,
    plain_example,
    render_drafts,
    share_with_demos,
    tokens_of,
)
from optimizers.distill.balance import balanced_within
from optimizers.distill.examples import Example, Split, write_examples
from optimizers.distill.gold.annotation import plain
from optimizers.distill.gold.calls import Material
from optimizers.distill.gold.catalog import gold_calls, material_for, signature_of
from optimizers.distill.leakage import gold_of, without_shown
from optimizers.distill.mixture import counts_of, limit_made, one_split_each
from programs.lms.adapter import JsonForm
from signatures.common.errors import unknown
from signatures.common.files import atomic_write
from signatures.types import Passage

SHOWN = "shows_evaluation_gold"
CountTokens = Callable[[str], int]
WORDINGS = Path(__file__).with_name("instructions.toml")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def wordings_of(signature: Any) -> tuple[str, ...]:
    """Return other wordings of a signature's instruction, without its own, so that an LM learns none by heart."""
    return _wordings().get(signature.instructions.strip(), ())


@functools.cache
def _wordings() -> dict[str, tuple[str, ...]]:
    entries = tomllib.loads(WORDINGS.read_text("utf-8"))["instruction"]
    return {entry["original"].strip(): tuple(text.strip() for text in entry["wordings"]) for entry in entries}


def variation_of(count_tokens: CountTokens) -> Variation:
    """Return how the prompts of the plan vary, given what counts the tokens of a text."""
    return Variation(plan.DEMO_SHARE, plan.REWORDED_SHARE, wordings_of, count_tokens, longest=plan.LONGEST)


def base_tokens() -> CountTokens:
    """Return what counts tokens as the base LM does; needs its weights file."""
    from programs.lms.weights.export import tokenizer

    made = tokenizer()
    return lambda text: len(made.encode(text, add_special_tokens=False).ids)


def examples_of(
    prepared: Prepared,
    seed: int,
    variation: Variation,
    programs: Sequence[str] = PROGRAMS,
    reading: str = "answer",
) -> tuple[list[Example], Counter[str]]:
    """Return the planned examples of a source, and how many drafts were left out by reason.

    Args:
        prepared: The source.
        seed: Of the contexts, the wrong drafts and the selection.
        variation: How the prompts vary.
        programs: Those whose predictors are trained.
        reading: One of `READINGS`: what the reading examples of `rag` reply.
    """
    name, adapter = prepared.source.name, JsonForm()  # of the embedded LM; without a context size nothing is cut
    material = _material(prepared, seed)
    found: list[Example] = []
    left_out: Counter[str] = Counter()
    for row, counts in PLAN.items():
        wanted = counts.get(name, 0) if row[0] in programs else 0
        if not wanted:
            continue
        program, predictor = EVIDENCE_FIRST.get(row, row) if reading == "evidence" else row
        signature = signature_of(program, predictor)
        about = {
            "program": program,
            "predictor": predictor,
            "source": name,
            "licence": prepared.source.licence,
            "labels": "made" if name == "world" else "gold",
        }
        # The row, not what is asked, seeds: both variants of reading have the same questions and passages.
        key = f"{seed} {name} {' '.join(row)}"
        drafts: list[Draft] = []
        seen: set[str] = set()
        for draft in _drafts(prepared, material, program, predictor, key):
            if len(drafts) == wanted:
                break
            example = plain_example(draft, signature, adapter, **about)
            if example.key in seen:
                continue
            seen.add(example.key)
            if without_shown([example], prepared.evaluation)[1]:
                left_out[SHOWN] += 1
            else:
                drafts.append(draft)
        made, counted = render_drafts(drafts, signature, adapter, variation, key, **about)
        left_out += counted
        found += made
    return found, left_out


def _material(prepared: Prepared, seed: int) -> Material:
    """Return the material of a source, with the queries of all its questions searched for."""
    articles: dict[str, list[Passage]] = {}
    if prepared.source.pool == "squad":
        for record in prepared.corpus.values():
            if record.title:
                articles.setdefault(record.title, []).append(plain(record))
    retrieve = prepared.retrieve
    if prepared.source.pool not in PLAIN:
        retrieve = open_reranker(retrieve, OWN)
    material = material_for(retrieve, prepared.questions, seed, articles, plan.LONGEST_PASSAGE)
    material.sizes, material.cut = plan.SIZES, plan.CUT_SHARE
    asked = [one for one in prepared.questions if not articles or not _titled(one, prepared)]
    material.contexts.search(
        text for one in asked for text in (one.question, *(sub.question for sub in one.sub_questions))
    )
    return material


def _titled(question: Question, prepared: Prepared) -> bool:
    return any(prepared.corpus[name].title for name in question.gold_ids if name in prepared.corpus)


def _drafts(prepared: Prepared, material: Material, program: str, predictor: str, key: str) -> Iterator[Draft]:
    """Yield the calls of a predictor for the questions of a source in a random order, in several rounds."""
    questions = list(prepared.questions)
    random.Random(key).shuffle(questions)
    whole = prepared.source.name in plan.WHOLE
    for turn in range(plan.ROUNDS):
        for question in questions:
            material.rng = random.Random(f"{key} {turn} {question.id}")
            split: Split = "validation" if zlib.crc32(question.question.encode()) % plan.VALIDATION == 0 else "train"
            gold = frozenset(gold_of(question))
            for call in gold_calls(program, predictor, question, prepared.corpus, material):
                if whole and call.inputs.get("question", question.question) != question.question:
                    continue
                answer = question.answers[0] if question.answers else ""
                yield Draft(call, question.id, question.question, answer, gold, split)


def limit_world(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the examples in their order, of the generated world at most as many of each predictor as of real data.

    The plan says so already, but sources may have fewer examples than it draws from them.

    Args:
        examples: Of all sources.
        seed: Of the choice among those of the world.
    """
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        groups.setdefault((example.program, example.predictor), []).append(example)
    kept = {id(example) for group in groups.values() for example in limit_made(group, plan.WORLD_SHARE, seed=seed)}
    return [example for example in examples if id(example) in kept]


def mixed(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the examples as they are written: each once, balanced, with at most so many of the world, shuffled.

    Raises:
        UserError: The licence of one is not stated, or not one that shipped weights may be trained on.
    """
    distinct = list({example.key: example for example in examples}.values())
    for licence, source in {(example.licence, example.source) for example in distinct}:
        check_licence(licence, source)
    chosen = one_split_each(balanced_within(distinct, seed, lambda even: limit_world(even, seed)))
    random.Random(seed).shuffle(chosen)
    return chosen


@app.command()
def main(
    data: Annotated[Path, typer.Option(help="Folder with the official files of the benchmarks.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.")],
    more_data: Annotated[
        Path | None, typer.Option(help="Folder with further training data; what is absent is skipped and said.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder for converted files and indexes; default: OUT/work.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of contexts, wrong drafts and selection.")] = 0,
    programs: Annotated[
        str, typer.Option(help="Programs whose predictors are trained, separated by commas.")
    ] = ",".join(PROGRAMS),
    reading: Annotated[
        str, typer.Option(help="Replies of the reading examples of rag: answer, or evidence before the answer.")
    ] = READINGS[0],
    retriever: Annotated[
        str,
        typer.Option(help="In front of the reranker that finds distractors: hybrid, or bm25, which is faster."),
    ] = RETRIEVERS[0],
    processes: Annotated[int | None, typer.Option(help="Sources at a time; by default one per core.", min=1)] = None,
) -> None:
    """Write the examples."""
    wanted = names("program", programs, PROGRAMS)
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)
    if retriever not in RETRIEVERS:
        raise unknown("retriever", retriever, RETRIEVERS)
    folder = work or out / "work"
    found = present(data, more_data)
    absent = [name for name in SOURCES if name not in found]
    if absent:
        print(f"Skipped, since their files are not at hand: {', '.join(absent)}", file=sys.stderr)
    for _ in prepare(data, folder, more=more_data, retriever=retriever):  # converts and indexes, once for all processes
        pass
    work_on = functools.partial(make, data, folder, more_data, seed, tuple(wanted), reading, retriever)
    made: list[Made] = []
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for one in pool.map(work_on, found):
            made.append(one)
            print(f"{one.source}: {len(one.examples)} examples of {one.questions} questions", file=sys.stderr)
    command = f"python -m experiments.papers.embedded_lm.data --seed {seed} --programs {','.join(wanted)}"
    command += f" --reading {reading} --retriever {retriever}"
    about = {"command": command, "programs": wanted, "reading": reading, "retriever": retriever}
    count = write(out, made, seed, {**about, "sources_absent": absent}, base_tokens())
    print(f"Written: {out / 'examples.jsonl'} ({count} examples)")


class Made(NamedTuple):
    """What one source gave: its examples, what was left out by reason, and the number of its questions."""

    source: str
    examples: list[Example]
    questions_left_out: dict[str, int]
    examples_left_out: dict[str, int]
    questions: int


def make(
    data: Path,
    work: Path,
    more: Path | None,
    seed: int,
    programs: Sequence[str],
    reading: str,
    retriever: str,
    name: str,
) -> Made:
    """Return the examples of a source, and what was left out; runs in a process of its own."""
    (prepared,) = prepare(data, work, [name], more, retriever)
    examples, left_out = examples_of(prepared, seed, variation_of(base_tokens()), programs, reading)
    return Made(name, examples, prepared.dropped, dict(left_out), len(prepared.questions))


def write(out: Path, made: Sequence[Made], seed: int, about: Mapping[str, object], count_tokens: CountTokens) -> int:
    """Write examples.jsonl and manifest.json of all sources, and return the number of examples.

    Raises:
        UserError: The licence of an example is not one that shipped weights may be trained on; nothing is written.
    """
    examples = [example for one in made for example in one.examples]
    chosen = mixed(examples, seed)
    digest = write_examples(out / "examples.jsonl", chosen)
    manifest = {
        **about,
        "seed": seed,
        "sha256": digest,
        "questions": {one.source: one.questions for one in made},
        "questions_left_out": {one.source: one.questions_left_out for one in made},
        "examples_left_out": {one.source: one.examples_left_out for one in made},
        "examples_left_out_by_balance": len(examples) - len(chosen),
        **counts_of(chosen),
        **figures_of(chosen, count_tokens),
    }
    with atomic_write(out / "manifest.json") as file:
        ujson.dump(manifest, file, indent=1, ensure_ascii=False, escape_forward_slashes=False)
    return len(chosen)


def figures_of(examples: Sequence[Example], count_tokens: Callable[[str], int]) -> dict[str, Any]:
    """Return the figures of the examples."""
    tokens = [tokens_of(example, count_tokens) for example in examples]
    by_predictor: dict[str, Counter[str]] = {}
    for example in examples:
        if example.verdict:
            by_predictor.setdefault(f"{example.program}.{example.predictor}", Counter())[example.verdict] += 1
    return {
        "by_licence": dict(sorted(Counter(example.licence for example in examples).items())),
        "licences": dict(sorted({example.source: example.licence for example in examples}.items())),
        "share_with_demos": round(share_with_demos(examples), 4),
        "by_number_of_demos": dict(sorted(Counter(_demos(example) for example in examples).items())),
        "share_reworded": round(sum(map(_reworded, examples)) / len(examples), 4),
        "tokens": sum(tokens),
        "tokens_mean": round(sum(tokens) / len(tokens), 1),
        "tokens_longest": max(tokens),
        "tokens_of_replies": sum(count_tokens(example.completion) for example in examples),
        "verdicts": dict(sorted(Counter(example.verdict for example in examples if example.verdict).items())),
        "verdicts_by_predictor": {name: dict(sorted(counts.items())) for name, counts in sorted(by_predictor.items())},
    }


def _demos(example: Example) -> str:
    return str(sum(message.role == "assistant" for message in example.messages))


def _reworded(example: Example) -> bool:
    wordings = wordings_of(signature_of(example.program, example.predictor))
    return example.messages[0].content.startswith(wordings) if wordings else False


if __name__ == "__main__":
    run_command(app, "data")
