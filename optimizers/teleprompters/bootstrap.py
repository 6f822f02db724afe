"""Demonstrations: traces of training questions that are answered well, the nearest of them, or gold decompositions.

Bootstrapping is DSPy's (Khattab et al., "DSPy", ICLR 2024, section 4, https://arxiv.org/abs/2310.03714). `DemoPool`
makes the same demonstrations as `dspy.BootstrapFewShot`, whose loop runs one example at a time and runs it again for
each candidate of a search. Here examples run in parallel, and each runs once, however many candidates draw on it.

`knn` chooses those of the most similar training questions for each question (`programs/nearest_demos.py`; Liu et al.,
"What Makes Good In-Context Examples for GPT-3?", DeeLIO 2022, section 2, https://arxiv.org/abs/2101.06804). DSPy's
`KNNFewShot` (3.4.1) bootstraps again for every question that is asked; here the pool is made once, at compile time.

`labeled` costs no LM call. A benchmark's example contains a question, its sub-questions with answers, and the final
answer. An inner predictor is called in a state: some hops answered, the next one open. Each state of the gold
decomposition that contains all outputs of a predictor becomes a demonstration for it. So does the complexity of a
question, where it is labelled (`optimizers/routes.py`).
"""

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy
from dspy.utils.hasher import Hasher

from optimizers.examples import asks_question, bootstrap_metric
from optimizers.teleprompters.task import Optimizer, Runs, Task, always_fits
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.parts.threads import Ended, run_all
from signatures.common.errors import UserError, user_error_within
from signatures.text_words import same_words
from signatures.types import Hop, Similarity
from signatures.yes_no import parse_yes_no

_MAX_FAILURES = 8  # consecutive
_LARGER = 8
Demos = Mapping[str, dspy.Example]  # name of a predictor -> its demonstration


@dataclass(frozen=True)
class _Try:
    """What became of a training example: the demonstrations it makes, or the error it ended in."""

    accepted: bool = False
    demos: Demos = field(default_factory=dict)
    error: Exception | None = None


class DemoPool:
    """Demonstrations of training examples, made when they are asked for; each example runs at most once."""

    def __init__(self, student: dspy.Module, task: Task):
        self._task = task
        self._teacher = task.teacher or student
        self._metric = bootstrap_metric(task.score, threshold=task.accept)
        self._tries: dict[int, _Try] = {}
        self._seen: set[int] = set()
        _check_teacher(student, self._teacher)

    def first(self, order: Sequence[int], number: int) -> list[Demos]:
        """Return the demonstrations of the first `number` examples, in an order of their indices, that are accepted.

        Raises:
            UserError: The LM cannot be reached.
            Exception: The last error of eight examples in a row that failed.
            BudgetExceeded: The budget is spent.
        """
        found: list[Demos] = []
        failures = 0
        for place, index in enumerate(order):
            if len(found) >= number:
                break
            if index not in self._tries:
                ahead = [each for each in order[place:] if each not in self._tries]
                # Of a block all wait for the slowest, so larger ones where everything is tried anyway.
                self._run(ahead[: self._task.threads * (_LARGER if number >= len(order) else 1)])
            attempt = self._tries[index]
            if attempt.accepted:
                found.append(attempt.demos)
            failures = failures + 1 if attempt.error else 0
            self._note(index, len(found))
            if attempt.error is not None and failures >= _MAX_FAILURES:
                raise attempt.error
        return found

    def everything(self) -> list[tuple[int, Demos]]:
        """Return index and demonstrations of every example that is accepted, all of them being tried."""
        order = range(len(self._task.trainset))
        self.first(order, len(order))
        return [(index, self._tries[index].demos) for index in order if self._tries[index].accepted]

    def _note(self, index: int, accepted: int) -> None:
        """Count an example that was looked at for the first time."""
        if index not in self._seen:
            self._seen.add(index)
            self._task.recording.tried += 1
            self._task.recording.failed += self._tries[index].error is not None
        if self._task.progress is not None:
            self._task.progress(len(self._seen), accepted)

    def _run(self, indices: Sequence[int]) -> None:
        tasks = [partial(self._try, self._task.trainset[index]) for index in indices]
        for index, ended in zip(indices, run_all(tasks, width=self._task.threads, name="bootstrap"), strict=True):
            self._tries[index] = _attempt(ended)

    def _try(self, example: dspy.Example) -> _Try:
        """Let the teacher answer an example, without seeing it as a demonstration."""
        teacher = self._teacher_for(example)
        names = {id(predictor): name for name, predictor in teacher.named_predictors()}
        try:
            with dspy.context(trace=[], **self._task.teacher_settings()):
                prediction = teacher(**example.inputs())
                trace = list(dspy.settings.trace)
            if not self._metric(example, prediction, trace):
                return _Try()
        finally:
            self._task.recording.ran()
        found: dict[str, list[dspy.Example]] = {}
        for predictor, inputs, outputs in trace:
            name = names.get(id(predictor))  # None: of the program's own making, and no demonstration for anybody
            if name is not None:
                fields = predictor.signature.fields
                values = {key: value for key, value in {**inputs, **outputs}.items() if key in fields}
                found.setdefault(name, []).append(dspy.Example(augmented=True, **values))
        # An answer for which no LM was asked shows nothing.
        return _Try(bool(found), {name: _one_of(demos) for name, demos in found.items()})

    def _teacher_for(self, example: dspy.Example) -> dspy.Module:
        asked = {name: same_words(str(value)) for name, value in example.inputs().items()}

        def others(demos: Sequence[Any]) -> list[Any]:
            return [
                demo for demo in demos if any(same_words(str(demo.get(name) or "")) != asked[name] for name in asked)
            ]

        if all(len(others(each.demos)) == len(each.demos) for each in self._teacher.predictors()):
            return self._teacher
        teacher = self._teacher.deepcopy()
        for predictor in teacher.predictors():
            predictor.demos = others(predictor.demos)
        return teacher


def _attempt(ended: Ended[_Try]) -> _Try:
    error = ended.error
    if error is None:
        return ended.result()
    if not isinstance(error, Exception):
        raise error  # a spent budget, or a stop
    if user_error := user_error_within(error):
        raise user_error  # the LM cannot be reached: every further example would fail, too
    logging.getLogger(__name__).info("a training example failed: %s", error)
    return _Try(error=error)


def _one_of(demos: Sequence[dspy.Example]) -> dspy.Example:
    """Return one of a predictor's calls on an example as DSPy draws it: the last in half of the cases."""
    if len(demos) == 1:
        return demos[0]
    rng = random.Random(Hasher.hash(tuple(demos)))
    return rng.choice(demos[:-1]) if rng.random() < 0.5 else demos[-1]


def _check_teacher(student: dspy.Module, teacher: dspy.Module) -> None:
    fields = [
        {name: list(predictor.signature.fields) for name, predictor in program.named_predictors()}
        for program in (student, teacher)
    ]
    if fields[0] != fields[1]:
        raise UserError(
            f"The teacher {type(teacher).__name__} has other predictors than the student {type(student).__name__}, so "
            "its traces are not demonstrations for it: name a teacher of the same program, or another teacher LM."
        )


def with_demos(student: dspy.Module, demos: Sequence[Demos]) -> dspy.Module:
    """Return a copy of the student whose predictors show these demonstrations, and no others."""
    program = student.reset_copy()
    for name, predictor in program.named_predictors():
        predictor.demos = [each[name].copy() for each in demos if name in each]
    return program


def shuffled(number: int, seed: object) -> list[int]:
    """Return the integers below `number` in a random order, the same for the same seed."""
    order = list(range(number))
    random.Random(seed).shuffle(order)  # type: ignore[arg-type]
    return order


def bootstrap(student: dspy.Module, task: Task) -> dspy.Module:
    """Show every predictor the traces of examples that the teacher answered well enough."""
    pool = DemoPool(student, task)
    return with_demos(student, pool.first(shuffled(len(task.trainset), task.seed), task.max_demos))


BOOTSTRAP = Optimizer(
    run=bootstrap,
    summary="Demonstrations from the traces of training questions that the program (or a teacher) answers well.",
    source="https://arxiv.org/abs/2310.03714",
    fits=always_fits,
    estimate=lambda student, task: Runs(teacher=len(task.trainset)),
)


_MOST = 16  # training questions per question


def knn(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the student with a pool of demonstrations; a copy of the student if no example was answered well."""
    pool = DemoPool(student, task)
    accepted = [
        PoolQuestion(task.trainset[index].question, {name: [demo] for name, demo in demos.items()})
        for index, demos in pool.everything()
    ]
    if not accepted or not task.max_demos:
        return student.deepcopy()
    return NearestDemos(student.deepcopy(), accepted, _similarity(student, task), k=min(task.max_demos, _MOST))


def _similarity(student: dspy.Module, task: Task) -> Similarity:
    """Return the similarity of the task, else that of the student, else that of the embedded embedder."""
    found: Similarity | None = task.similarity or getattr(student, "similarity", None)
    if found is None:
        from corpora.retrievers.embedder import Embedder, EmbedderSimilarity

        found = EmbedderSimilarity(Embedder())
    return found


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    if isinstance(student, NearestDemos):
        return "its demonstrations are chosen per question already"
    return always_fits(student, task)


KNN = Optimizer(
    run=knn,
    summary="For each question the traces of the most similar training questions, from a pool made once.",
    source="https://arxiv.org/abs/2101.06804",
    fits=_fits,
    estimate=lambda student, task: Runs(teacher=len(task.trainset)),
)


_LABELS = {"answer", "complexity", "finished", "sub_question"}  # outputs that gold may have
_OF_THE_QUESTION = ("question", "answer", "complexity")


def gold_states(example: dspy.Example) -> Iterator[dict[str, Any]]:
    """Yield the known fields in each state of an example's gold decomposition.

    Without sub-questions there is one state, the final one. `finished`, `sub_question` and `hops` are fields of the
    signatures.
    """
    hops: list[Hop] = []
    steps = [dict(step) for step in example.get("sub_questions") or []]
    if steps and all(step.get("answer") for step in steps):
        for step in steps:
            yield {
                "question": example.question,
                "hops": list(hops),
                "finished": False,
                "sub_question": step["question"],
                "answer": step["answer"],
            }
            hops.append(Hop(question=step["question"], answer=step["answer"]))
    end = {"question": example.question, "answer": example.get("answer")}
    if example.get("complexity"):
        end["complexity"] = example.complexity
    if end["answer"]:
        yield {**end, "hops": hops, "finished": True, "sub_question": example.question} if hops else end


def labeled_demos(signature: type[dspy.Signature], examples: list[dspy.Example]) -> list[list[dspy.Example]]:
    """Return the demonstrations of each example: its gold states that contain all outputs of `signature`.

    Examples without such a state are omitted: those without gold decomposition if the signature has hops, and those
    whose gold is neither yes nor no if it has a bool output. A demonstration contains only fields of the signature.
    """
    inputs, outputs = signature.input_fields, signature.output_fields
    by_example = []
    for example in examples:
        demos = [
            dspy.Example(**{name: value for name, value in state.items() if name in inputs or name in outputs})
            for state in (_typed(outputs, state) for state in _states(signature, example))
            if all(name in state for name in outputs)
        ]
        if demos:
            by_example.append(demos)
    return by_example


def _typed(outputs: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the state with the texts of bool fields as bools; a text that is neither yes nor no is removed."""
    for name, output in outputs.items():
        if output.annotation is bool and isinstance(state.get(name), str):
            value = parse_yes_no(state[name])
            rest = {other: state[other] for other in state if other != name}
            state = rest if value is None else {**rest, name: value}
    return state


def _states(signature: type[dspy.Signature], example: dspy.Example) -> list[dict[str, Any]]:
    """Return the states in which a predictor can be called; a predictor without hops only sees the final one.

    An example without a question and its answer, as those of other modules are, is such a state by itself.
    """
    if not asks_question(example) or not {"answer", "answers"} & {*example.keys()}:
        return [example.toDict()]
    states = list(gold_states(example))
    if "hops" not in signature.input_fields:
        return [{name: value for name, value in states[-1].items() if name in _OF_THE_QUESTION}] if states else []
    if "finished" not in signature.output_fields:
        states = states[-1:]
    return [state for state in states if "hops" in state]


def labeled(student: dspy.Module, task: Task) -> dspy.Module:
    """Give each predictor demonstrations from the gold decompositions of training examples."""
    task.recording.tried = len(task.trainset)
    return labeled_program(student, task)


def labeled_program(student: dspy.Module, task: Task) -> dspy.Module:
    """Return a copy of the student with labelled demonstrations for those of its predictors that have labels."""
    program = student.reset_copy()
    for predictor in program.predictors():
        by_example = labeled_demos(predictor.signature, list(task.trainset))
        random.Random(task.seed).shuffle(by_example)  # the demonstrations of one example stay together
        predictor.demos = [demo for demos in by_example for demo in demos][: task.max_demos]
    return program


def _fits_labeled(student: dspy.Module, task: Task | None) -> str | None:
    """Return why no predictor of the student can have a labelled demonstration; without a task, whatever is asked."""
    outputs = [{*predictor.signature.output_fields} for predictor in student.predictors()]
    needed = ", ".join(sorted(set().union(*outputs)))
    if task is None:
        possible = any(names <= _LABELS for names in outputs)
        return None if possible else f"questions have no labels for the outputs of its predictors ({needed})"
    if not task.max_demos or any(labeled_demos(each.signature, list(task.trainset)) for each in student.predictors()):
        return None
    return (
        f"the training examples contain no predictor's outputs ({needed}), so there are no demonstrations; use the "
        "optimizer bootstrap"
    )


LABELED = Optimizer(
    run=labeled,
    summary="Demonstrations from the gold decompositions of training questions; no LM call.",
    source="https://dspy.ai/api/optimizers/LabeledFewShot",
    fits=_fits_labeled,
    estimate=lambda student, task: Runs(),
    needs=("labels",),
)
