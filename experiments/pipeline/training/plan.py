"""A training plan: several stages, one after the other, each from the adapter of the one before, in one file.

    base = "embedded"                 # of all stages; any setting of `verihop distill train` may stand here
    rank = 64

    [[stages]]
    name = "reading"
    examples = "examples/reading"     # relative to the plan
    epochs = 2

    [[stages]]
    name = "steps"
    examples = "examples/steps"
    learning_rate = 5e-4
    weights = { verification = 2 }

    [[asked]]                         # a program that is asked at each measurement; as many as there are sets
    name = "hotpotqa"
    program = "rag"
    questions = "hotpotqa/questions.jsonl"
    index = "hotpotqa/index"
    rerank = "own"
    limit = 50

A stage is an ordinary training run in a folder of its own, and is resumed as one. What is finished is not done again;
what was done by another plan is refused.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ujson

from experiments.analysis.training_curves import PLOT, draw_curves, read_curves
from experiments.pipeline.training.opened import open_training
from optimizers.distill.training.checkpoints import newest
from optimizers.distill.training.data import open_examples
from optimizers.distill.training.scoring import check_metric
from optimizers.distill.training.settings import TrainingSettings, make_settings
from programs.artifacts.record import RETRIEVAL
from programs.lms.weights.adapter import TENSORS
from programs.lms.weights.choice import DESCRIPTION
from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, sha256_file
from signatures.common.specs import deciding, fields_of
from signatures.common.work import locked_folder

if TYPE_CHECKING:
    from experiments.pipeline.training.program_scores import ProgramScores
    from optimizers.distill.training.train import Training

PLAN = "plan.json"
_ADAPTER = "resume_adapter"  # of a stage after the first it is the stage before
_OF_STAGE = ("name", "examples")
_STAGE = re.compile(r"\d+-[\w-]+\Z")  # names of the folders of stages
_ASKED = 50  # questions of a set, drawn by a hash of their ids


@dataclass(frozen=True)
class Stage:
    """One stage of a plan.

    Args:
        name: Of its folder: letters, digits, hyphens and underscores.
        examples: Folder with examples.jsonl, or the file.
        settings: What differs from the defaults of `make_settings`, by name.
    """

    name: str
    examples: Path
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """A plan as it was read.

    Args:
        stages: In their order.
        asked: Programs that are asked at each measurement, with their questions.
    """

    stages: list[Stage]
    asked: "list[ProgramScores]"


def read_plan(path: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Return a plan; of what it names, only questions are opened.

    Args:
        path: A TOML file.
        overrides: Settings that take precedence in every stage, such as the base.

    Raises:
        UserError: The file is missing or no TOML, a key or value is not allowed, two stages have one name, or
            questions cannot be read.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"No plan {str(path)!r} ({error.strerror}): name a TOML file with [[stages]].") from None
    except ValueError as error:  # not UTF-8, or no TOML
        raise UserError(f"{path} is not a TOML file: {error}.") from None
    asked = [_asked(path, each) for each in _tables(path, "asked", content.pop("asked", []))]
    _check_names(path, "[[asked]]", [each.name for each in asked])
    stated = _tables(path, "stages", content.pop("stages", []))
    if not stated:
        raise UserError(f"{path} has no stages: write [[stages]] with a name and examples.")
    stages = [_stage(path, number, {**content, **each, **(overrides or {})}) for number, each in enumerate(stated, 1)]
    _check_names(path, "[[stages]]", [stage.name for stage in stages])
    _check_same_adapter(path, stages)
    return Plan(stages, asked)


def _tables(path: Path, key: str, stated: Any) -> list[dict[str, Any]]:
    if not isinstance(stated, list) or not all(isinstance(each, dict) for each in stated):
        raise UserError(f"{path}: {key} must be tables: write [[{key}]] before each.")
    return stated


def _check_names(path: Path, key: str, names: list[str]) -> None:
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UserError(f"{path} has two {key} named {min(repeated)!r}: give each its own name.")


def _check_same_adapter(path: Path, stages: list[Stage]) -> None:
    """Check that each stage can start from the adapter of the one before."""
    if len(stages) == 1:
        return
    settings = [make_settings(**stage.settings) for stage in stages]
    for name in ("base", "method", "rank", "alpha"):
        if len(values := {getattr(each, name) for each in settings}) > 1:
            raise UserError(
                f"{path}: stages have several values of {name} ({', '.join(sorted(map(str, values)))}). Set one for "
                "all, since each stage continues the adapter of the previous one."
            )
    if settings[0].method != "lora":
        raise UserError(f"{path}: each stage continues an adapter: use method lora, or one stage.")


def _text(path: Path, key: str, stated: Mapping[str, Any], name: str) -> str:
    value = stated.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{path}: {key} needs {name}, a text, got {value!r}.")
    return value


def _place(path: Path, text: str) -> Path:
    """Return a path of the plan, which is relative to its folder."""
    try:
        return path.parent / Path(text).expanduser()
    except RuntimeError:  # no home folder
        raise UserError(f"{path}: no folder is known for {text!r}: write the path in full.") from None


def _asked(path: Path, stated: Any) -> "ProgramScores":
    from experiments.pipeline.setup import open_questions
    from experiments.pipeline.training.program_scores import ProgramScores
    from experiments.runs.specs import ProgramSpec

    known = {"name", "questions", "limit", "program", "preset", "knobs", "index", *RETRIEVAL}
    name, questions, _ = (_text(path, "[[asked]]", stated, each) for each in ("name", "questions", "program"))
    if strange := stated.keys() - known:
        raise unknown(f"key of [[asked]] in {path}", min(strange), sorted(known))
    program = {key: value for key, value in stated.items() if key not in ("name", "questions", "limit")}
    for each in {"preset", "index", "retriever", "rerank"} & program.keys():
        _text(path, "[[asked]]", program, each)
    if not isinstance(program.get("knobs", {}), dict):
        raise UserError(f"{path}: knobs of [[asked]] must be a table, such as {{ k = 4 }}.")
    if "index" in program:
        program["index"] = _place(path, program["index"])
    limit = stated.get("limit", _ASKED)
    if type(limit) is not int or limit < 1:
        raise UserError(f"{path}: limit of [[asked]] must be a whole number from 1, got {limit!r}.")
    asked = open_questions(_place(path, questions), split=None, limit=limit)
    return ProgramScores(ProgramSpec(**program), asked, name=name)


def _stage(path: Path, number: int, stated: dict[str, Any]) -> Stage:
    known = [*_OF_STAGE, *(name for name in fields_of(TrainingSettings) if name != "given")]
    for name in stated:
        if name not in known:
            raise unknown(f"setting of stage {number} in {path}", name, known)
    if number > 1 and _ADAPTER in stated:
        raise UserError(f"{path}: stage {number} starts from the stage before it; {_ADAPTER} is only for the first.")
    name, examples = (_text(path, f"stage {number}", stated, each) for each in _OF_STAGE)
    if not name.replace("-", "").replace("_", "").isalnum():
        raise UserError(f"{path}: the name {name!r} of stage {number} may contain only letters, digits, - and _.")
    settings = {key: value for key, value in stated.items() if key not in _OF_STAGE}
    try:
        make_settings(**settings)  # a wrong value is refused before anything is trained
    except (TypeError, AttributeError) as error:
        raise UserError(f"{path}: stage {number} has a setting of another type than it takes: {error}.") from None
    return Stage(name, _place(path, examples), settings)


@dataclass(frozen=True)
class PlanRun:
    """A plan that is run in a folder.

    Args:
        plan: Its stages, and what is asked.
        out: Folder for the stages, plan.json and the plot.
        metric_examples: Examples of each skill answered at each measurement.
        note: Is told what a user should know.
        quiet: Leaves out notes of what is being done, and progress.
    """

    plan: Plan
    out: Path
    metric_examples: int = 20
    note: Callable[[str], None] = lambda text: None
    quiet: bool = True

    @property
    def stages(self) -> list[Stage]:
        """The stages, in their order."""
        return self.plan.stages

    def folder(self, number: int) -> Path:
        """Return the folder of a stage, counted from 1."""
        return self.out / f"{number}-{self.stages[number - 1].name}"

    @property
    def folders(self) -> list[Path]:
        """The folders of all stages, in their order."""
        return [self.folder(number) for number in range(1, len(self.stages) + 1)]

    def run(self, *, resume: bool) -> dict[str, Any]:
        """Train what is not finished, write plan.json after each stage, and return what it holds.

        Args:
            resume: Go on with what the folder holds.

        Raises:
            UserError: The folder holds something else, another process works in it, or a stage cannot be opened; see
                `Training.run` for others.
        """
        busy = f"Another process trains into {str(self.out)!r}. Wait for it, or choose another folder."
        with locked_folder(self.out, ".lock", busy):
            return self._run(resume)

    def _run(self, resume: bool) -> dict[str, Any]:
        others = [each for each in sorted(self.out.iterdir()) if _STAGE.match(each.name) and each not in self.folders]
        if others:
            raise UserError(f"{str(others[0])!r} is a stage of another plan. Choose another folder.")
        if not resume and any(map(Path.exists, self.folders)):
            raise UserError(f"{str(self.out)!r} holds stages of a plan already. Resume it, or choose another folder.")
        self._check_what_follows()
        done: list[dict[str, Any]] = []
        for number, stage in enumerate(self.stages, 1):
            done.append(self._finished(number, stage) or self._train(number, stage))
            self._write(done)
        return {"stages": done}

    def _check_what_follows(self) -> None:
        """Check examples, metrics and questions of the stages after the next one, which needs no LM.

        The next one is checked when it is opened.

        Raises:
            UserError: A stage could not be trained after those before it.
        """
        unfinished = [
            stage
            for stage, folder in zip(self.stages, self.folders, strict=True)
            if not (folder / DESCRIPTION).is_file()
        ]
        for stage in unfinished[1:]:
            settings = make_settings(**stage.settings)
            opened = open_examples(stage.examples, settings)
            for each in self.plan.asked:
                each.check(opened.examples)
            if settings.keep_best:
                names = [name for each in self.plan.asked for name in each.metrics]
                check_metric(settings.keep_best, opened.held_back, self.metric_examples, names)

    def _settings(self, number: int, stage: Stage) -> TrainingSettings:
        before = {_ADAPTER: str(self.weights(number - 1))} if number > 1 else {}
        return make_settings(**stage.settings, **before)

    def _finished(self, number: int, stage: Stage) -> dict[str, Any] | None:
        """Return the description of a finished stage; None if it is not finished."""
        if not (self.folder(number) / DESCRIPTION).is_file():
            return None
        description = _description(self.folder(number))
        examples = stage.examples / "examples.jsonl" if stage.examples.is_dir() else stage.examples
        settings = deciding(TrainingSettings, self._settings(number, stage))
        # The adapter of the stage before is compared by its weights: the folder may have been moved.
        changed = [
            name
            for name, value in settings.items()
            if name != _ADAPTER or number == 1
            if _plain(description["settings"].get(name)) != _plain(value)
        ]
        if number > 1 and description["resume_adapter_sha256"] != sha256_file(self.weights(number - 1) / TENSORS):
            changed.append(f"weights of stage {self.stages[number - 2].name!r}")
        if not examples.is_file() or description["data_sha256"] != sha256_file(examples):
            changed.append("examples")
        if changed:
            raise UserError(
                f"Stage {stage.name!r} in {str(self.out)!r} was trained with other {', '.join(sorted(changed))}. "
                "Choose another folder, or restore the plan."
            )
        return _summary(stage, description)

    def weights(self, number: int) -> Path:
        """Return the folder with the weights that a finished stage leaves: the best ones, if they were kept."""
        folder = self.folder(number)
        description = _description(folder)
        return folder / description["best"]["folder"] if "best" in description else folder

    def _train(self, number: int, stage: Stage) -> dict[str, Any]:
        folder = self.folder(number)
        if not self.quiet:
            self.note(f"Stage {number} of {len(self.stages)}: {stage.name}")
        run = open_training(
            stage.examples,
            self._settings(number, stage),
            folder,
            metric_examples=self.metric_examples,
            asked=self.plan.asked,
            note=self.note,
            quiet=self.quiet,
        )
        plotted = partial(self._plot, folder, run.training)
        return _summary(stage, run.run(resume=newest(folder) is not None, shown=not self.quiet, plotted=plotted))

    def _plot(self, folder: Path, training: "Training") -> None:
        """Draw the curves of all stages up to the one in this folder."""
        done = self.folders[: self.folders.index(folder)]
        measured = {each: _description(each)["validation"] for each in done} | {folder: training.measured}
        names = [stage.name for stage in self.stages[: len(done) + 1]]
        draw_curves(read_curves([*done, folder], measured), names, self.out / PLOT)

    def _write(self, done: list[dict[str, Any]]) -> None:
        text = ujson.dumps({"stages": done}, indent=1, ensure_ascii=False, escape_forward_slashes=False)
        with atomic_write(self.out / PLAN) as file:
            file.write(text + "\n")


def _description(folder: Path) -> dict[str, Any]:
    """Return the description of the finished run in a folder.

    Raises:
        UserError: It is none.
    """
    try:
        found = ujson.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not {*_RECORDED, "resume_adapter_sha256"} <= found.keys():
        raise UserError(f"{str(folder / DESCRIPTION)!r} does not describe a stage of a plan: choose another folder.")
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return ujson.loads(ujson.dumps(str(value) if isinstance(value, Path) else value))


_RECORDED = (
    *("examples", "sources", "data_sha256", "settings", "steps", "tokens", "hours", "device", "validation", "files"),
    "served",
)


def _summary(stage: Stage, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plan.json and a model card say of a stage: its data, its settings, its cost and what was measured."""
    best = {"best": description["best"]} if "best" in description else {}
    return {"name": stage.name, **{name: description[name] for name in _RECORDED}, **best}
