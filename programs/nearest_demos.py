"""Demonstrations chosen per question: those of the most similar training questions.

Liu et al., "What Makes Good In-Context Examples for GPT-3?", DeeLIO 2022, section 2 (KATE: the k nearest neighbours of
the question by sentence embeddings, cosine). https://arxiv.org/abs/2101.06804

DSPy's `KNNFewShot` bootstraps again for every question that is asked, at three LM calls and more, and saves nothing.
Here every demonstration is made once, at compile time, and kept in a pool.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import dspy

from programs.parts.knobs import Range, set_knobs
from programs.parts.prediction import restore_originals, stand_in
from programs.parts.threads import sequential_calls
from signatures.common.errors import UserError, unknown
from signatures.text import normalize_answer
from signatures.types import Passage, Retriever, Similarity

Demos = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class PoolQuestion:
    """A training question and the demonstrations made of it.

    Args:
        question: The question.
        demos: Name of a predictor (as `named_predictors` of the program names it) -> its demonstrations.
    """

    question: str
    demos: Mapping[str, Demos]


class NearestDemos(dspy.Module):
    """Show each predictor of a program the demonstrations of the k training questions nearest to the question.

    The nearest question comes first, so that it is kept longest where a prompt exceeds the context. A predictor for
    which these questions have no demonstration shows its own. A question of the pool never demonstrates itself, so that
    scores on training questions are not those of copied answers. The program is not changed, so that many threads can
    use it; predictions, trace and counts are those of the program.

    Args:
        program: A program of the catalog, or any other.
        pool: Training questions with their demonstrations.
        similarity: Compares the question with those of the pool. It is called once per question with all of them, so it
            should remember their vectors, as `EmbedderSimilarity` does.
        k: Training questions per question.

    Raises:
        UserError: The pool is empty, or has demonstrations for a predictor that the program does not have.
    """

    def __init__(
        self,
        program: dspy.Module,
        pool: Sequence[PoolQuestion],
        similarity: Similarity,
        *,
        k: Annotated[int, Range(1, 16)] = 4,
    ):
        super().__init__()
        set_knobs(self, locals())
        if not pool:
            raise UserError("The pool of demonstrations is empty: it needs at least one training question.")
        names = {name for name, _ in program.named_predictors()}
        for entry in pool:
            for name in entry.demos:
                if name not in names:
                    raise unknown("predictor of the pool", name, names)
        self.program = program
        self.pool = tuple(pool)
        self.similarity = similarity

    @property
    def retrieve(self) -> Retriever | None:
        """The retriever of the program."""
        return getattr(self.program, "retrieve", None)

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the program's prediction, made with the demonstrations of the nearest training questions."""
        program = _showing(self.program, self.demos_for(question))
        try:
            return program(question=question, passages=passages)
        finally:
            restore_originals()

    def demos_for(self, question: str) -> dict[str, list[Any]]:
        """Return for each predictor the demonstrations that are shown for a question; it makes no LM call."""
        chosen: dict[str, list[Any]] = {}
        for entry in self._nearest(question):
            for name, demos in entry.demos.items():
                chosen.setdefault(name, []).extend(demos)
        return {name: demos for name, demos in chosen.items() if demos}

    def _nearest(self, question: str) -> list[PoolQuestion]:
        asked = normalize_answer(question)
        others = [entry for entry in self.pool if normalize_answer(entry.question) != asked]
        if not others:
            return []
        (row,) = self.similarity([question], [entry.question for entry in others])
        cosines = [float(value) for value in row]
        order = sorted(range(len(others)), key=lambda index: -cosines[index])  # stable: of equals the earlier
        return [others[index] for index in order[: self.k]]

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question: those of the program."""
        return self.program.max_calls()

    def max_sequential_calls(self) -> int:
        """Return the most LM calls in sequence for one question: those of the program."""
        return sequential_calls(self.program)


def _showing(program: dspy.Module, demos: Mapping[str, list[Any]]) -> dspy.Module:
    """Return a copy of a program whose predictors show `demos`; retrievers, signatures and LMs are shared."""
    shown = {id(predictor): demos[name] for name, predictor in program.named_predictors() if name in demos}
    return _copied(program, shown, {})


def _copied(part: Any, shown: Mapping[int, list[Any]], done: dict[int, Any]) -> Any:
    """Return a copy of the modules within `part`, a module or a list of modules; anything else is returned as it is."""
    if isinstance(part, list | tuple):
        return type(part)([_copied(item, shown, done) for item in part])
    if not isinstance(part, dspy.Module):
        return part
    if id(part) not in done:
        done[id(part)] = made = stand_in(part) if isinstance(part, dspy.Predict) else copy.copy(part)
        if id(part) in shown:
            made.demos = shown[id(part)]
        for name, value in _modules_of(part):
            setattr(made, name, _copied(value, shown, done))
    return done[id(part)]


def _modules_of(module: dspy.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, dspy.Module) or (
            isinstance(value, list | tuple) and any(isinstance(item, dspy.Module) for item in value)
        ):
            yield name, value
