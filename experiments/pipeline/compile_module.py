"""Compile any `dspy.Module` on examples and a metric as DSPy has them, with what programs of verihop have.

That is a budget which nothing runs past, an estimate before, a checkpoint with every candidate, and a result that is
kept when the budget is spent or the user presses Ctrl-C. The module runs with the adapter that DSPy would use, as it
will without verihop.
"""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from experiments.pipeline import setup
from experiments.pipeline.compile import GO_ON, CompileProgress, optimize, stopped_text
from experiments.pipeline.compiling.checkpoint import (
    CANDIDATES,
    CandidateLog,
    compile_checkpoint,
    scores_of,
)
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.estimate import CompileEstimate, RunCosts, compile_estimate
from experiments.pipeline.compiling.frozen import freeze_compiled
from experiments.pipeline.compiling.request import described_optimizer, divided, task_on
from experiments.pipeline.setup import connection_of, lm_config, metric_of, other_lm_of
from experiments.runs.config import as_read_back, describe_lm, prompts_hash
from experiments.runs.specs import ModuleSpec
from optimizers.evaluating import Outcome, evaluate_examples, quiet
from optimizers.examples import graded_metric
from optimizers.feedback.given import Values, metric_and_feedback
from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.task import ScoredProgram
from programs.artifact import check_module, freeze_module, load_module, read_artifact
from programs.artifacts.loading import notify
from programs.artifacts.state import module_name
from programs.inference import warm_up
from programs.lms.calls.budget import BudgetExceeded
from signatures.common.errors import UserError, one_line
from signatures.common.files import expanded, sha256_text
from signatures.common.own_code import digest_of_code
from signatures.common.specs import part_of

if TYPE_CHECKING:
    from optimizers.teleprompters.compile import Compiled
    from optimizers.teleprompters.task import Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection

# Those that return the module itself with other instructions and demonstrations.
OPTIMIZERS = ("labeled", "bootstrap", "random_search", "copro", "mipro", "simba", "gepa", "infer_rules")
_MEASURED = 3  # examples that are run for an estimate
_MOST_FAULTS = 5


@dataclass(frozen=True)
class CompiledModule:
    """A module that was compiled, and how.

    Args:
        program: A copy of the module with the best instructions and demonstrations.
        artifact: The record of it; `verihop.load_module(folder, module)` returns the program again.
        candidates: Every program that was scored on all or a part of the validation examples.
    """

    program: dspy.Module
    artifact: "Artifact"
    candidates: list[ScoredProgram]

    @property
    def stopped(self) -> str | None:
        """Why the work ended early; None if it did not."""
        stopped: str | None = self.artifact.optimizer["stopped"]
        return stopped

    @property
    def cost(self) -> dict[str, float]:
        """Calls, tokens and usd of all sessions."""
        return dict(self.artifact.optimizer["cost"])


@dataclass(frozen=True)
class ModuleWork:
    """A compilation of a module that can begin.

    Args:
        task: Of the optimizer, checked.
        connection: The LM, with the adapter that DSPy would use.
        notes: What the user should know of the examples.
        values: For which examples the metric had a value.
    """

    module: dspy.Module
    task: "Task"
    config: CompileConfig
    connection: "Connection"
    notes: tuple[str, ...]
    values: Values

    def estimate(self) -> CompileEstimate:
        """Return what the compilation takes, from runs of the module on a few training examples, which are paid.

        Raises:
            UserError: All of them ended in an error.
            BudgetExceeded: The budget does not suffice for them.
        """
        with self.connection.use(), quiet():
            examples = self.task.trainset[:_MEASURED]
            outcomes = evaluate_examples(self.module, examples, graded_metric(self.task.score), threads=_MEASURED)
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        if len(failed) == len(outcomes):
            raise UserError(f"The module fails on all of the first {len(failed)} training examples: {failed[0]}.")
        return compile_estimate(self.module, self.task, self.config, self.connection, _run_costs(outcomes))

    def run(self, out: Path, *, resume: bool, overwrite: bool, progress: bool) -> CompiledModule:
        """Compile the module into a folder; see `verihop.compile_module`."""
        lms = self.config.lms(self.connection)
        request = self._request()
        with compile_checkpoint(out, request, resume=resume, overwrite=overwrite, lms=lms) as checkpoint:
            if checkpoint is None:
                return CompiledModule(load_module(out, self.module), read_artifact(out), _kept(out, self.module))
            warm_up(self.module, self.connection)
            estimate = self.estimate()
            shown = CompileProgress(estimate, self.config.metric.name, shown=progress)
            compiled = optimize(self.module, self.task, self.config, self.connection, checkpoint, shown)
            scores, stopped = self._scores(compiled)
            log = checkpoint.folder / CANDIDATES
            artifact = freeze_compiled(
                compiled,
                checkpoint,
                request=request,
                estimate=estimate,
                stopped=stopped,
                overwrite=overwrite,
                connection=self.connection,
                data={name: request["data"][name] for name in ("train", "val")},
                metric={**self.config.metric.described, **scores},
                write=partial(freeze_module, files={CANDIDATES: log.read_text("utf-8")} if log.exists() else {}),
            )
        cure = GO_ON if "budget" in (stopped or "") else "Go on with the same arguments and resume=True."
        if text := stopped_text(artifact.optimizer, cure=cure):
            notify([text])
        return CompiledModule(compiled.program, artifact, list(compiled.candidates))

    def _request(self) -> dict[str, Any]:
        """Return what decides the result, which is compared when the work is resumed."""
        described = {
            "program": {
                "name": module_name(self.module),
                "code": digest_of_code(type(self.module)),
                "state_sha256": prompts_hash(self.module),
            },
            "lm": describe_lm(self.connection),
            "optimizer": described_optimizer(self.config, self.task),
            "metric": self.config.metric.described,
            "data": {"train": _described(self.task.trainset), "val": _described(self.task.valset)},
        }
        return as_read_back(described)

    def _scores(self, compiled: "Compiled") -> tuple[dict[str, Any], str | None]:
        """Return the scores of the result on the validation examples, {} without, and what ended the work early."""
        chosen = next((each for each in reversed(compiled.candidates) if each.label == compiled.chosen), None)
        if compiled.stopped or chosen is not None or not self.task.valset:
            return scores_of(chosen, self.values.undefined), compiled.stopped
        score = graded_metric(self.task.score)
        try:
            with self.connection.use():
                outcomes = evaluate_examples(compiled.program, self.task.valset, score, threads=self.config.threads)
        except BudgetExceeded as spent:
            return {}, str(spent)
        scores = {each.id: each.score or 0.0 for each in outcomes}
        errors = sum(each.error is not None for each in outcomes)
        scored = ScoredProgram(compiled.program, scores, 0, "compiled", True, errors=errors)
        return scores_of(scored, self.values.undefined), None


def module_work(module: Any, trainset: Any, valset: Any, spec: ModuleSpec, lm: Any) -> ModuleWork:
    """Return the compilation of a module, checked, without an LM call.

    Args:
        module: It is not changed.
        trainset, valset: Examples with their inputs set.
        spec: How it is compiled; the metric may be a function as DSPy has them.
        lm: A connection, or an id.

    Raises:
        UserError: Examples do not fit the module (all faults are named), the optimizer does not, or something cannot be
            opened.
    """
    if not isinstance(module, dspy.Module):
        raise UserError(f"module must be a dspy.Module, got {one_line(repr(module), 80)}.")
    check_module(module)
    if spec.optimizer not in OPTIMIZERS:
        get_optimizer(spec.optimizer)
        raise UserError(
            f"Optimizer {spec.optimizer} changes the kind of program, which only verihop's programs support: "
            f"choose one of {', '.join(OPTIMIZERS)}."
        )
    training, validation = _examples(module, trainset, valset)
    metric, feedback, values = metric_and_feedback(
        metric_of(spec.metric) if isinstance(spec.metric, str) else spec.metric
    )
    given = setup.open_lm(lm_config(lm)) if isinstance(lm, str) else connection_of("lm", lm)
    if given is None:
        raise UserError("lm must be a connection (verihop.connect) or the id of an LM, got None.")
    connection = _as_dspy(given)
    teacher = other_lm_of(spec, "teacher", connection)
    config = part_of(
        spec,
        CompileConfig,
        metric=metric,
        teacher=None if teacher is None else _as_dspy(teacher),
        prompt=other_lm_of(spec, "prompt", connection),
    )
    examples = divided(training, validation, optimizer=config.optimizer, seed=config.seed)
    task = task_on(module, examples, config, connection, feedback)
    values.expect("validation" if task.valset else "training", task.valset or task.trainset)
    return ModuleWork(module, replace(task, ended_by=(KeyboardInterrupt,)), config, connection, examples.notes, values)


def candidates(out: Path | str, module: dspy.Module) -> list[ScoredProgram]:
    """Return the programs that a compilation into `out` has scored, also one that was killed.

    Raises:
        UserError: There are none.
    """
    folder = expanded(out).absolute()
    found = _kept(folder.parent / f".{folder.name}.compiling", module) or _kept(folder, module)
    if not found:
        raise UserError(f"{out} has no candidates of this module: nothing was compiled into it, or nothing scored.")
    return found


def _kept(folder: Path, module: dspy.Module) -> list[ScoredProgram]:
    return list(CandidateLog(folder, module).read().values())


def _as_dspy(connection: "Connection") -> "Connection":
    """Return a connection with the adapter that DSPy would use."""
    return replace(connection, adapter=dspy.settings.adapter or dspy.ChatAdapter())


def _run_costs(outcomes: Sequence[Outcome]) -> RunCosts:
    n = len(outcomes)
    calls, tokens = (sum(each.cost(name) for each in outcomes) / n for name in ("calls", "tokens"))
    each = tokens / calls if calls else 0.0
    typical = RunCosts(calls)
    return RunCosts(calls, each, min(each, typical.written), measured=n)


def _described(examples: Sequence[dspy.Example]) -> dict[str, Any]:
    """Return the number of examples, and a hash of all they hold."""
    shown = [(sorted(each.inputs().keys()), sorted((name, repr(each[name])) for name in each)) for each in examples]
    return {"n": len(examples), "sha256": sha256_text(repr(shown))}


def _examples(module: dspy.Module, trainset: Any, valset: Any) -> tuple[list[dspy.Example], list[dspy.Example]]:
    """Return training and validation examples; raise UserError with all faults."""
    named = {"trainset": trainset, "valset": valset}
    faults: list[str] = []
    lists: dict[str, list[Any]] = {}
    for name, given in named.items():
        if not isinstance(given, Iterable) or isinstance(given, str | dict):
            raise UserError(f"{name} must be a list of dspy.Example, got {one_line(repr(given), 80)}.")
        lists[name] = list(given)
        faults += [f"{name}[{n}] {why}" for n, each in enumerate(lists[name]) if (why := _fault(module, each))]
    if faults:
        more = len(faults) - _MOST_FAULTS
        shown = "; ".join(faults[:_MOST_FAULTS]) + (f"; and {more} more" if more > 0 else "")
        raise UserError(f"{len(faults)} examples do not fit the module: {shown}.")
    return lists["trainset"], lists["valset"]


def _fault(module: dspy.Module, example: Any) -> str | None:
    if not isinstance(example, dspy.Example):
        return f"is of type {type(example).__name__}, not dspy.Example"
    try:
        inputs = dict(example.inputs().items())
    except ValueError:
        return "has no inputs: call with_inputs(...) on it"
    try:
        inspect.signature(type(module).forward).bind(module, **inputs)
    except TypeError as error:
        return f"has inputs that the module does not take ({one_line(error)})"
    return None
