"""MIPROv2: instructions and demonstrations chosen together by Bayesian search.

Opsahl-Ong et al., "Optimizing Instructions and Demonstrations for Multi-Stage Language Model Programs", EMNLP 2024,
https://arxiv.org/abs/2406.11695, by `dspy.MIPROv2`, with these traps closed:

- `seed=0` is honoured (stanfordnlp/dspy#10321);
- an evaluation that cannot reach the LM ends the work, where DSPy scores 0;
- demonstrations are bootstrapped in parallel, each training example once, and only complete ones are used;
- an instruction that cannot be read is replaced by the present one;
- a study whose combinations are all evaluated goes on, where DSPy fails;
- the validation set is never cut: `auto` sets the number of candidates and trials only.
"""

import contextlib
import io
import math
import random
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import dspy
from dspy.propose import GroundedProposer
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError

from optimizers.examples import bootstrap_metric
from optimizers.teleprompters.bootstrap import DemoPool, with_demos
from optimizers.teleprompters.instructions.prompt_lm import Watch, prompt_lm, watching
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits

AUTO = {"light": 6, "medium": 12, "heavy": 18}  # candidates
_WHOLE = 50  # validation examples up to which every trial is scored on all of them


@dataclass(frozen=True)
class Size:
    """The size of a search.

    Args:
        demo_sets: Sets of demonstrations per predictor, the empty one included.
        instructions: Instructions per predictor, the present one included.
        trials: Combinations tried.
        minibatch: Validation examples of a trial; 0 for all.
        runs: Program runs on validation examples.
    """

    demo_sets: int
    instructions: int
    trials: int
    minibatch: int
    runs: int


def size_of(student: dspy.Module, task: Task) -> Size:
    """Return the size of the search that the options of a task ask for.

    `auto` is DSPy's: 6, 12 or 18 sets of demonstrations, half as many instructions, and trials by the number of
    choices. Without demonstrations there are as many instructions.
    """
    options, n_val = task.options, len(task.valset)
    given = options["num_candidates"]
    sets = given or AUTO[options["auto"]]
    instructions = sets if given or not task.max_demos else sets // 2
    variables = len(student.predictors()) * (2 if task.max_demos else 1)
    trials = options["num_trials"] or int(max(2 * variables * math.log2(sets), 1.5 * sets))
    wanted = n_val > _WHOLE if options["minibatch"] is None else options["minibatch"]
    minibatch = min(options["minibatch_size"], n_val) if wanted else 0
    steps = options["minibatch_full_eval_steps"]
    each = trials * minibatch + n_val * _full_evaluations(trials, steps) if minibatch else trials * n_val
    return Size(sets, instructions, trials, minibatch, n_val + each)


def _full_evaluations(trials: int, steps: int) -> int:
    """Return how many trials are followed by an evaluation on all examples, which takes a trial's number as well."""
    last = trials + trials // steps + (1 if trials % steps else 0)
    number, count = 1, 0
    for _ in range(trials):
        number += 1
        if number % (steps + 1) == 0 or number == last:
            count, number = count + 1, number + 1
    return count


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    """Return why MIPROv2 cannot run: DSPy's asks Optuna, which the base installation lacks."""
    if find_spec("optuna") is None:
        return "it needs Optuna: pip install 'verihop[tune]'"
    return always_fits(student, task)


_DEMOS_SHOWN = 3  # to the proposer; DSPy's number


def mipro(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the student with the combination of instructions and demonstrations that scored best."""
    size = size_of(student, task)
    with watching() as watch:
        search = _Search(task, size, watch)
        program = search.compile(
            student.deepcopy(),
            trainset=list(task.trainset),
            valset=list(task.valset),
            teacher=task.teacher,
            num_trials=size.trials,
            minibatch=size.minibatch > 0,
            minibatch_size=size.minibatch or len(task.valset),
            minibatch_full_eval_steps=task.options["minibatch_full_eval_steps"],
            **{name: task.options[name] for name in _PROPOSER},
        )
    best = task.recording.best()
    return best.program.deepcopy() if best else program


class _Proposer(GroundedProposer):
    """Keeps the present instruction where the prompt LM's reply cannot be read."""

    def propose_instruction_for_predictor(self, program: Any, predictor: Any, **arguments: Any) -> str:
        try:
            return str(super().propose_instruction_for_predictor(program=program, predictor=predictor, **arguments))
        except (AdapterParseError, ContextWindowExceededError):
            return str(predictor.signature.instructions)


class _Search(dspy.MIPROv2):
    """MIPROv2 of one task."""

    def __init__(self, task: Task, size: Size, watch: Watch):
        super().__init__(
            metric=bootstrap_metric(task.score, threshold=task.accept),
            prompt_model=prompt_lm(task, temperature=task.options["init_temperature"]),
            teacher_settings=task.teacher_settings(),
            max_bootstrapped_demos=task.max_demos,
            max_labeled_demos=0,
            auto=None,
            num_candidates=size.demo_sets,
            num_threads=task.threads,
            seed=task.seed,
            init_temperature=task.options["init_temperature"],
            track_stats=False,
        )
        self.num_instruct_candidates = size.instructions
        self.task, self.watch = task, watch

    def _bootstrap_fewshot_examples(
        self, program: dspy.Module, trainset: list[dspy.Example], seed: int, teacher: Any, **settings: Any
    ) -> dict[int, list[list[dspy.Example]]]:
        """Return sets of demonstrations per predictor: none, those of the first examples, and of shuffled ones."""
        most = settings["max_bootstrapped_demos"] or _DEMOS_SHOWN  # with no demonstrations, they inform the proposer
        pool, rng = DemoPool(program, self.task), random.Random(f"demonstrations {seed}")
        sets: list[dict[str, list[dspy.Example]]] = [{}]
        while len(sets) < settings["num_fewshot_candidates"]:
            order, wanted = list(range(len(trainset))), most
            if len(sets) > 1:
                rng.shuffle(order)
                wanted = rng.randint(1, most)
            made = with_demos(program, pool.first(order, wanted))
            sets.append({name: predictor.demos for name, predictor in made.named_predictors()})
        names = [name for name, _ in program.named_predictors()]
        return {number: [each.get(name, []) for each in sets] for number, name in enumerate(names)}

    def _propose_instructions(
        self, program: dspy.Module, trainset: Any, demo_candidates: Any, view_data_batch_size: int, *aware: bool,
        num_instruct_candidates: int,
    ) -> dict[int, list[str]]:  # fmt: skip
        """Return instructions per predictor, the present one first."""
        of_program, of_data, of_tips, of_demos = aware
        settings = {**self.task.prompt_settings(), "trace": []}
        # DSPy prints signatures as it reads the source of the program.
        with dspy.context(**settings), contextlib.redirect_stdout(io.StringIO()):
            proposer = _Proposer(
                program=program,
                trainset=[_told(example) for example in trainset],
                prompt_model=self.prompt_model,
                view_data_batch_size=view_data_batch_size,
                program_aware=of_program,
                use_dataset_summary=of_data,
                use_task_demos=of_demos,
                num_demos_in_context=_DEMOS_SHOWN,
                use_tip=of_tips,
                set_tip_randomly=of_tips,
                use_instruct_history=False,
                set_history_randomly=False,
                rng=self.rng,
                init_temperature=self.init_temperature,
            )
            self.watch.check()
            written = proposer.propose_instructions_for_program(
                trainset=trainset, program=program, demo_candidates=demo_candidates, trial_logs={},
                N=num_instruct_candidates,
            )  # fmt: skip
        for number, predictor in enumerate(program.predictors()):
            written[number] = list(dict.fromkeys([predictor.signature.instructions, *written[number][1:]]))
        return dict(written)

    def _optimize_prompt_parameters(
        self, program: Any, instructions: Any, demos: Any, evaluate: Any, *settings: Any
    ) -> Any:
        """Search with an evaluation that DSPy cannot mistake for a score of 0 when the LM is gone."""
        return super()._optimize_prompt_parameters(
            program, instructions, demos, self.watch.checked(evaluate), *settings
        )

    def _perform_full_evaluation(self, *arguments: Any) -> Any:
        """Evaluate the best combination on all validation examples; go on if all combinations are."""
        try:
            return super()._perform_full_evaluation(*arguments)
        except ValueError:  # "No valid program found": every combination tried was evaluated on all examples
            *_, total, _, best_score, best_program, _, _, _ = arguments
            return best_score, best_program, total


def _told(example: dspy.Example) -> dspy.Example:
    """Return an example as the proposer sees it: with question and answer, not the ids of its gold."""
    fields = {name: example[name] for name in ("question", "answer") if example.get(name)}
    return dspy.Example(**fields).with_inputs("question")


def _estimate(student: dspy.Module, task: Task) -> Runs:
    size = size_of(student, task)
    prompts = size.instructions * len(student.predictors()) * (3 if task.options["program_aware_proposer"] else 1)
    if task.options["data_aware_proposer"]:
        batches = -(-len(task.trainset) // task.options["view_data_batch_size"])
        prompts += min(batches, 10) + 1  # one call for each batch, at most ten, and the summary
    return Runs(student=size.runs, teacher=len(task.trainset), prompt_calls=prompts)


_PROPOSER = (
    "view_data_batch_size",
    "program_aware_proposer",
    "data_aware_proposer",
    "tip_aware_proposer",
    "fewshot_aware_proposer",
)

MIPRO = Optimizer(
    run=mipro,
    summary="Instructions and demonstrations chosen together by Bayesian search (MIPROv2).",
    source="https://arxiv.org/abs/2406.11695",
    fits=_fits,
    estimate=_estimate,
    options={
        "auto": Option("light", "Size of the search where no numbers are given.", choices=tuple(AUTO)),
        "num_candidates": Option(None, "Sets of demonstrations and instructions per predictor.", 2, 1000, kind=int),
        "num_trials": Option(None, "Combinations tried.", 1, 100_000, kind=int),
        "minibatch": Option(None, "Whether trials are scored on a part of the validation set.", kind=bool),
        "minibatch_size": Option(35, "Validation examples of a trial, if on a part.", 1, 10_000),
        "minibatch_full_eval_steps": Option(5, "Trials between evaluations on all.", 1, 1000),
        "init_temperature": Option(1.0, "Temperature of the prompt LM.", 0, 2),
        "view_data_batch_size": Option(10, "Training examples shown at a time, to describe them.", 1, 1000),
        "program_aware_proposer": Option(True, "Whether the prompt LM sees the program's code."),
        "data_aware_proposer": Option(True, "Whether it sees a description of the training examples."),
        "tip_aware_proposer": Option(True, "Whether it gets a tip on style."),
        "fewshot_aware_proposer": Option(True, "Whether it sees demonstrations."),
    },
    compares=True,
)
