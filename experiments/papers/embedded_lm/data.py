"""Write the training examples of the embedded LM from gold annotations.

    python -m experiments.papers.embedded_lm.data --data ../shared/data --out ../embedded-lm/examples

Each source gives examples of all programs; `PLAN` says how many of which predictor are drawn from which source. Where
real data gives fewer than planned, examples of the generated world are left out until they are at most half of each
predictor's. Distractors are what the reranker of our own returns; no example shows a gold passage of an evaluation.
"""

import multiprocessing
import random
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import ujson

from corpora.retrievers.rerank import OWN, open_reranker
from experiments.papers.command import names, run_command
from experiments.papers.embedded_lm.sources import SOURCES, Prepared, prepare
from optimizers.distill.examples import Example, write_examples
from optimizers.distill.gold.catalog import gold_examples, material_for
from optimizers.distill.leakage import without_shown
from optimizers.distill.mixture import counts_of, limit_made
from programs.lms.adapter import JsonForm
from signatures.common.files import atomic_write

# (program, predictor) -> source -> number of examples at most. Where a source has fewer, all are taken.
PLAN: dict[tuple[str, str], dict[str, int]] = {
    ("rag", "reading"): {
        "hotpotqa": 300,
        "hotpotqa-evidence": 500,
        "2wikimultihopqa": 800,
        "musique": 240,
        "nq_open": 1100,
        "qed": 100,
        "strategyqa": 250,
        "world": 350,
    },
    ("genground", "deduction"): {"2wikimultihopqa": 1000, "musique": 240, "world": 500},
    ("genground", "grounding"): {
        "2wikimultihopqa": 600,
        "musique": 160,
        "nq_open": 500,
        "qed": 250,
        "world": 200,
    },
    ("genground", "conclusion"): {"2wikimultihopqa": 200, "musique": 70, "world": 50},
    ("genground", "truth"): {"2wikimultihopqa": 100},
    ("multihop", "querying.predict"): {"hotpotqa": 200, "2wikimultihopqa": 350, "musique": 120, "world": 60},
    ("multihop", "reading.predict"): {
        "hotpotqa": 100,
        "hotpotqa-evidence": 300,
        "2wikimultihopqa": 300,
        "musique": 70,
        "nq_open": 100,
        "world": 80,
    },
    ("cov_rag", "answering"): {"hotpotqa": 60, "2wikimultihopqa": 120, "nq_open": 150, "qed": 150, "musique": 30},
    ("cov_rag", "verifying"): {"hotpotqa": 100, "2wikimultihopqa": 250, "nq_open": 200, "musique": 80},
    ("cov_rag", "revising"): {"2wikimultihopqa": 40, "musique": 20},
    ("cov_rag", "reading"): {"hotpotqa": 40, "2wikimultihopqa": 80, "nq_open": 60, "musique": 20},
    ("self_completion", "reflecting"): {"hotpotqa": 80, "2wikimultihopqa": 150, "nq_open": 120, "musique": 50},
    ("self_completion", "searching"): {"hotpotqa": 30, "2wikimultihopqa": 70, "musique": 30},
    ("retro_rag", "naming"): {"hotpotqa": 40, "2wikimultihopqa": 60},
    ("retro_rag", "weighing"): {"hotpotqa": 40, "2wikimultihopqa": 60, "nq_open": 40},
    ("retro_rag", "answering.predict"): {"hotpotqa": 40, "2wikimultihopqa": 60, "musique": 20},
    ("retro_rag", "concluding.predict"): {"hotpotqa": 20, "2wikimultihopqa": 20},
    ("retro_rag", "monitoring"): {"hotpotqa": 60, "2wikimultihopqa": 60, "nq_open": 60},
    ("retro_rag", "agreement"): {"hotpotqa": 30, "2wikimultihopqa": 40, "nq_open": 40},
    ("retro_rag", "assessing"): {"hotpotqa": 20, "2wikimultihopqa": 20},
    ("retro_rag", "inferring"): {"hotpotqa": 50, "2wikimultihopqa": 80, "musique": 20},
    ("retro_rag", "relevance"): {"hotpotqa": 40, "2wikimultihopqa": 60, "nq_open": 30},
    ("retro_rag", "attribution"): {"hotpotqa": 40, "2wikimultihopqa": 60, "nq_open": 60},
    ("retro_rag", "searching"): {"hotpotqa": 30, "2wikimultihopqa": 50, "musique": 20},
}
PROGRAMS = tuple(dict.fromkeys(program for program, _ in PLAN))
# Numbers of passages in a prompt: all from 1 to 5, and those most often that the trained LM is to read, 2 and 3.
SIZES = (1, 2, 2, 3, 3, 4, 5)
WORLD_SHARE = 0.5  # largest share of a predictor's examples that is of the generated world
VALIDATION = 30  # one question in so many is held back to measure the loss

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def examples_of(prepared: Prepared, seed: int, programs: Sequence[str] = PROGRAMS) -> list[Example]:
    """Return the planned examples of a source.

    Args:
        prepared: The source.
        seed: Of the contexts, the wrong drafts and the selection.
        programs: Those whose predictors are trained.
    """
    name = prepared.source.name
    material = material_for(open_reranker(prepared.retrieve, OWN), prepared.questions, seed)
    material.sizes = SIZES
    adapter = JsonForm()  # of the embedded LM; without a context size nothing is cut
    found: list[Example] = []
    for (program, predictor), plan in PLAN.items():
        wanted = plan.get(name, 0) if program in programs else 0
        made: list[Example] = []
        questions = list(prepared.questions)
        random.Random(f"{seed} {name} {program} {predictor}").shuffle(questions)
        for question in questions:
            if len(made) >= wanted:
                break
            examples = gold_examples(
                program,
                question,
                prepared.corpus,
                material,
                adapter,
                predictors=(predictor,),
                source=name,
                licence=prepared.source.licence,
                labels="gold" if prepared.source.dataset else "made",
                split="validation" if zlib.crc32(question.question.encode()) % VALIDATION == 0 else "train",
            )
            made += without_shown(examples, prepared.evaluation)[0]
        found += made[:wanted]
    return found


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
    kept = {id(example) for group in groups.values() for example in limit_made(group, WORLD_SHARE, seed=seed)}
    return [example for example in examples if id(example) in kept]


@app.command()
def main(
    data: Annotated[Path, typer.Option(help="Folder with the official files of the benchmarks.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.")],
    work: Annotated[
        Path | None, typer.Option(help="Folder for converted files and indexes; default: OUT/work.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of contexts, wrong drafts and selection.")] = 0,
    programs: Annotated[
        str, typer.Option(help="Programs whose predictors are trained, separated by commas.")
    ] = ",".join(PROGRAMS),
    processes: Annotated[int | None, typer.Option(help="Sources at a time; by default one per core.", min=1)] = None,
) -> None:
    """Write the examples."""
    wanted = names("program", programs, PROGRAMS)
    examples: list[Example] = []
    dropped: dict[str, dict[str, int]] = {}
    folder = work or out / "work"
    for _ in prepare(data, folder):  # converts and indexes, once for all processes
        pass
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, made, left_out, questions in pool.map(partial(_make, data, folder, seed, wanted), SOURCES):
            examples += made
            dropped[name] = left_out
            print(f"{name}: {len(made)} examples of {questions} questions", file=sys.stderr)
    distinct = {example.key: example for example in examples}
    examples = limit_world(list(distinct.values()), seed)
    random.Random(seed).shuffle(examples)
    digest = write_examples(out / "examples.jsonl", examples)
    manifest = {
        "command": f"python -m experiments.papers.embedded_lm.data --seed {seed} --programs {','.join(wanted)}",
        "seed": seed,
        "programs": wanted,
        "sha256": digest,
        "licences": {example.source: example.licence for example in examples},
        "questions_left_out": dropped,
        **counts_of(examples),
    }
    with atomic_write(out / "manifest.json") as file:
        ujson.dump(manifest, file, indent=1, ensure_ascii=False, escape_forward_slashes=False)
    print(f"Written: {out / 'examples.jsonl'} ({len(examples)} examples)")


def _make(
    data: Path, work: Path, seed: int, programs: Sequence[str], name: str
) -> tuple[str, list[Example], dict[str, int], int]:
    """Return the examples of a source, and which of its questions were left out; runs in a process of its own."""
    (prepared,) = prepare(data, work, [name])
    return name, examples_of(prepared, seed, programs), prepared.dropped, len(prepared.questions)


if __name__ == "__main__":
    run_command(app, "data")
