"""Mix several folders of examples into one, with a manifest that contains those of its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from corpora.questions import Question, read_questions
from experiments.pipeline.synthesis.sources import gold_passages, held_of
from experiments.pipeline.synthesis.synthesize import MANIFEST
from experiments.runs.config import describe_session, portable
from experiments.runs.files import SCHEMA, Json, read_json, write_json
from optimizers.distill.examples import Example, read_examples, write_examples
from optimizers.distill.leakage import drop_leaked, without_asked, without_shown
from optimizers.distill.mixture import counts_of, is_made, mix
from optimizers.distill.specs import Mixture
from signatures.common.errors import UserError
from signatures.common.files import sha256_file
from signatures.types import Passage

EXAMPLES = "examples.jsonl"


def mix_folders(
    folders: Sequence[Path],
    mixture: Mixture,
    *,
    out: Path,
    exclude: Sequence[Path] = (),
    asked: Sequence[Path] = (),
    overwrite: bool = False,
) -> Json:
    """Write the mixture of several folders to `out` and return its manifest.

    Args:
        folders: Each with `examples.jsonl` and, if it was synthesized, `manifest.json`.
        mixture: Counts or weights of skills, limits, splits, seed.
        exclude: Questions of evaluations; examples that ask one of them are left out.
        overwrite: Replace examples in it.

    Raises:
        UserError: A folder has no examples, `out` is one of them or has examples, or a skill has none.
    """
    if out.resolve() in {folder.resolve() for folder in folders}:
        raise UserError(f"{out} is one of the folders to mix: name another folder for the mixture.")
    if (out / EXAMPLES).exists() and not overwrite:
        raise UserError(f"{out} already contains examples. Overwrite them, or choose another folder.")
    examples = [example for folder in folders for example in read_examples(folder / EXAMPLES)]
    allowed, leaked = _allowed(examples, exclude, asked)
    _check_left(examples, allowed, mixture, leaked)
    mixed = mix(allowed, mixture)
    if not mixed.examples:
        raise UserError(
            f"The mixture is empty: of {len(examples)} examples are left out {_listed({**mixed.dropped, **leaked})}"
            + (", and all are of the generated world." if all(map(is_made, examples)) else ".")
        )
    sha256 = write_examples(out / EXAMPLES, mixed.examples)
    manifest: Json = portable(
        {
            "schema": SCHEMA,
            "kind": "mixture",
            "mixture": asdict(mixture),
            "parts": [_part(folder) for folder in folders],
            "exclude": [{"file": path.name, "sha256": sha256_file(path)} for path in exclude],
            "asked": [{"file": path.name, "sha256": sha256_file(path)} for path in asked],
            "dropped": {**mixed.dropped, **leaked},
            "counts": counts_of(mixed.examples),
            "files": {EXAMPLES: sha256},
            **describe_session(),
        }
    )
    write_json(out / MANIFEST, manifest)
    return manifest


def _allowed(
    examples: Sequence[Example], exclude: Sequence[Path], asked: Sequence[Path]
) -> tuple[list[Example], dict[str, int]]:
    """Return the examples without those of evaluations, and how many these were."""
    held = held_of(exclude)
    kept, asking = without_asked(examples, held)
    leaked = {"evaluation_question_is_asked": asking}
    if exclude and asked:
        questions: dict[str, Question] = {}
        passages: dict[str, Passage] = {}
        for path in asked:
            read = read_questions(path)
            questions |= {question.id: question for question in read}
            passages |= gold_passages(path, read)
        kept, refused = drop_leaked(kept, questions, held, passages)
        leaked |= refused
    elif held.gold_texts:
        kept, leaked["evaluation_gold_is_shown"] = without_shown(kept, held)
    return kept, leaked


def _check_left(
    examples: Sequence[Example], allowed: Sequence[Example], mixture: Mixture, leaked: Mapping[str, int]
) -> None:
    """Check that the evaluations leave examples, of each skill that the mixture names, too."""
    left = {example.skill for example in allowed}
    gone = {example.skill for example in examples} & {*mixture.counts, *mixture.weights} - left
    if left and not gone:
        return
    skill = f" of {min(gone)!r}" if left else ""
    raise UserError(
        f"The evaluations leave no example{skill} to mix: of {len(examples)} examples are left out {_listed(leaked)}. "
        "Make examples of other questions, or exclude fewer evaluations."
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)


def _part(folder: Path) -> Json:
    path = folder / MANIFEST
    return {
        "folder": folder.name,
        "examples_sha256": sha256_file(folder / EXAMPLES),
        "manifest": read_json(path) if path.exists() else None,
    }
