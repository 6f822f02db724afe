"""Make a folder of training examples: ask the teacher every question, keep what the recipe makes of it.

The folder contains `examples.jsonl`, `manifest.json` and `questions/`, a row per question as soon as it is done, so
that a stopped synthesis can be resumed: the examples of the finished one are the same.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from experiments.pipeline.evaluate import unmeasured
from experiments.pipeline.map_rows import map_rows
from experiments.pipeline.synthesis.sources import Seed, Seeds
from experiments.runs.calls import added
from experiments.runs.config import describe_lm, describe_questions, describe_session, portable
from experiments.runs.files import RUN, SCHEMA, Json, Row, read_rows, write_json
from experiments.runs.specs import SynthesisSpec
from optimizers.distill.examples import Example, write_examples
from optimizers.distill.leakage import without_asked
from optimizers.distill.mixture import counts_of, split_by_question, without_repeats
from optimizers.distill.recipes import Recipe
from programs.parts.meter import metered
from signatures.common.errors import UserError, one_line, user_error_within
from signatures.common.terminal import open_console

if TYPE_CHECKING:
    from optimizers.distill.student import Made
    from programs.lms.connect import Connection


MANIFEST, EXAMPLES, QUESTIONS = "manifest.json", "examples.jsonl", "questions"
KIND = "distillation"


@dataclass(frozen=True)
class Synthesized:
    """What was written."""

    folder: Path
    examples: list[Example]
    manifest: Json


@dataclass(frozen=True, kw_only=True)
class OpenedSynthesis:
    """A synthesis that can be run; nothing has been asked yet.

    Args:
        recipe: Makes the examples of one question on the teacher.
        decided: What decides the examples beside LMs and questions: program, recipe, arguments, form of the student.
        lms: Those that take part, by their role.
        spec: Seed, threads, and the share of the questions that is held back.
        notes: For the user.
    """

    seeds: Seeds
    recipe: Recipe
    teacher: "Connection"
    decided: Json
    lms: Mapping[str, "Connection"]
    spec: SynthesisSpec
    notes: list[str]

    def run(self, out: Path, *, resume: bool = False, progress: bool = True) -> Synthesized:
        """Make examples of all questions and write them to `out`, with a manifest.

        What was finished is also written when a budget or Ctrl-C ends it; resume to continue.

        Args:
            out: The folder; created if missing.
            resume: Continue a stopped synthesis with the same settings.
            progress: Show an estimate of the calls and a bar on stderr.

        Raises:
            UserError: `out` contains something else, the LM does not answer, or no question gave an example.
            BaseException: Ctrl-C or a spent budget, after writing what is finished.
        """
        rows_folder = out / QUESTIONS
        _check_folder(out, resume=resume)
        description = self._description()
        asked = threading.Event()  # the folder is that of this synthesis, and locked

        def work(item: Seed) -> Row:
            asked.set()
            return _row(item, self.recipe)

        if calls := sum(self.recipe.max_calls(item.question) for item in self.seeds.seeds):
            shown = open_console(stderr=True, quiet=not progress)
            shown.print(str(unmeasured(len(self.seeds.seeds), calls)), highlight=False)
        try:
            rows = map_rows(
                self.seeds.seeds,
                work,
                id_of=lambda item: item.id,
                description=description,
                connection=self.teacher,
                out=rows_folder,
                threads=self.spec.threads,
                resume=resume,
                progress=progress,
            )
        except BaseException:
            # A refused folder is of another synthesis, or another process writes it.
            if asked.is_set() and (kept := read_rows(rows_folder)):
                self._write(out, kept, description)
            raise
        made = self._write(out, rows, description)
        if not made.examples:
            cure = _cure(made.manifest)
            raise UserError(f"No example was made: {_reasons(made.manifest)}. See {out / MANIFEST}.{cure}")
        return made

    def _description(self) -> Json:
        """Return `run.json` of the rows: all that decides them, so that only the same synthesis is resumed."""
        return {
            "schema": SCHEMA,
            "kind": KIND,
            **self.decided,
            "lms": {role: describe_lm(lm) for role, lm in self.lms.items()},
            "questions": describe_questions([item.question for item in self.seeds.seeds]),
            "sources": [
                {"source": name, "questions": count}
                for name, count in Counter(item.source.name for item in self.seeds.seeds).items()
            ],
            "seed": self.spec.seed,
            **describe_session(),
        }

    def _write(self, out: Path, rows: Sequence[Row], description: Json) -> Synthesized:
        """Write examples and manifest in the order of the questions, whatever order they were finished in."""
        by_id = {row["id"]: row for row in rows}
        ordered = [by_id[item.id] for item in self.seeds.seeds if item.id in by_id]
        made = [Example.model_validate(example) for row in ordered for example in row["examples"]]
        distinct = without_repeats(made)
        allowed, asked = without_asked(distinct, self.seeds.held)
        examples = split_by_question(allowed, self.spec.validation, seed=self.spec.seed)
        sha256 = write_examples(out / EXAMPLES, examples)
        left_out = {"repeats": len(made) - len(distinct), "evaluation_question_is_asked": asked}
        lost = [*(row["rejected_examples"] for row in ordered), {why: n for why, n in left_out.items() if n}]
        errors = [row["error"] for row in ordered if row["error"] is not None]
        kinds = _added_up(row["kinds"] for row in ordered)
        manifest: Json = portable(
            {
                **description,
                "sources": self.seeds.files,
                "refused_questions": dict(self.seeds.refused),
                "complete": len(ordered) == len(self.seeds.seeds),
                "asked": len(ordered),
                "trajectories": sum(row["trajectories"] for row in ordered),
                "overridden_replies": sum(row["overridden"] for row in ordered),
                "rejected": {
                    "trajectories": _added_up(row["rejected_trajectories"] for row in ordered),
                    "examples": _added_up(lost),
                },
                "errors": len(errors),
                "first_error": errors[0] if errors else None,
                "validation": self.spec.validation,
                "counts": counts_of(examples),
                **({"kinds": kinds} if kinds else {}),
                "cost": added(ordered),
                "files": {EXAMPLES: sha256},
            }
        )
        write_json(out / MANIFEST, manifest)
        return Synthesized(out, examples, manifest)


def _added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name, in the order of the names."""
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(sorted(found.items()))


CURES = {
    "gold_is_complete": "Gold replies need what the predictors of the program are asked for: answer, gold passages "
    "in the corpus, and for hops gold sub-questions with their answers. Name questions that have it, their corpus, "
    "or another program.",
    "one_gold_passage": "A draft is grounded in one gold passage: that of the question, or of each gold sub-question. "
    "Name questions that have it, or another recipe.",
    "gold_passage_in_corpus": "The gold passages are not in the corpus: name that of the questions.",
    "gold_is_read": "A trajectory is kept if it read all gold passages of its question: name questions that have them, "
    "the index of their corpus and a program that searches it, or leave out gold_read.",
}
"""Rule -> what to do if it leaves nothing."""


def _check_folder(out: Path, *, resume: bool) -> None:
    """Raise UserError if the folder has files that a synthesis would replace."""
    if not any((out / name).exists() for name in (EXAMPLES, MANIFEST)):
        return
    if not resume:
        raise UserError(f"{out} already contains examples. Resume it, or choose another folder.")
    if not (out / QUESTIONS / RUN).exists():
        raise UserError(f"{out} contains examples that no synthesis wrote, e.g. a mixture. Choose another folder.")


def _row(item: Seed, recipe: Recipe) -> Row:
    """Return the row of a question; an error of the recipe is recorded, unless the user can cure it."""
    made: Made | None = None
    error: str | None = None
    with metered() as meter:
        try:
            made = recipe(item.question, item.source)
        except Exception as cause:
            if user_error_within(cause):
                raise
            error = f"{type(cause).__name__}: {one_line(cause)}"
    return {
        "id": item.id,
        "question": item.question.question,
        "examples": [example.model_dump(mode="json") for example in made.examples] if made else [],
        "trajectories": made.trajectories if made else 0,
        "overridden": made.overridden if made else 0,
        "kinds": dict(made.kinds) if made else {},
        "rejected_trajectories": dict(made.rejected_trajectories) if made else {},
        "rejected_examples": dict(made.rejected_examples) if made else {},
        **meter.counts(),
        "error": error,
    }


def _reasons(manifest: Json) -> str:
    rejected = {**manifest["rejected"]["trajectories"], **manifest["rejected"]["examples"]}
    if manifest["errors"]:
        rejected["errors"] = manifest["errors"]
    return ", ".join(f"{rule} {count}" for rule, count in rejected.items()) or "the program made no predictor call"


def _cure(manifest: Json) -> str:
    """Return what to do about the rule that rejected most."""
    rejected = manifest["rejected"]["trajectories"]
    cure = CURES.get(max(rejected, key=rejected.__getitem__, default=""))
    return f" {cure}" if cure else ""


GOLD_TEACHER = "gold"


@dataclass(frozen=True)
class Annotations:
    """Stands in the place of a connection."""

    adapter: Any
    id: str = GOLD_TEACHER
    lm: Any = field(default_factory=lambda: SimpleNamespace(model="gold annotations", kwargs={}))
    weights_hash: str | None = None
    probability_mode: str = "none"
