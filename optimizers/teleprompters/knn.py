"""Demonstrations chosen per question: those of the most similar training questions (`programs/nearest_demos.py`).

Liu et al., "What Makes Good In-Context Examples for GPT-3?", DeeLIO 2022, section 2. https://arxiv.org/abs/2101.06804

DSPy's `KNNFewShot` (3.4.1) bootstraps anew for every question that is asked, and saves nothing. Here every training
question is answered once, at compile time, and the traces of those answered well make the pool.
"""

import dspy

from optimizers.teleprompters.bootstrap import DemoPool
from optimizers.teleprompters.task import Optimizer, Runs, Task, always_fits
from programs.nearest_demos import NearestDemos, PoolQuestion
from signatures.types import Similarity

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
