"""Compiling on the simulated world: demonstrations are not read, so no gain from compiling can be measured with it."""

from corpora.passages import read_passages
from corpora.questions import Question, read_questions
from experiments.world.generate import generate
from optimizers.examples import to_examples
from optimizers.metrics.catalog import get_metric
from optimizers.teleprompters.compile import compile as optimize
from optimizers.teleprompters.task import Task
from programs.single_step.rag import RAG
from signatures.types import Passage


class Gold:
    """Gives each question its gold passages, so that nothing but reading decides."""

    fingerprint = "gold"

    def __init__(self, folder, questions: list[Question]):
        passages = {passage.id: passage for passage in read_passages(folder / "passages.jsonl")}
        self.found = {item.question: [passages[id] for id in item.gold_ids] for item in questions}

    def __call__(self, query: str, k: int) -> list[Passage]:
        return self.found[query]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo: dict) -> "Gold":
        return self


def test_compiling_changes_no_answer(running, tmp_path):
    questions = read_questions(generate(tmp_path, questions=100, seed=0, dev_share=0.6)[1])
    train, dev = (to_examples(item for item in questions if item.split == split) for split in ("train", "dev"))
    program = RAG(Gold(tmp_path, questions))
    with running():
        task = Task(trainset=train, score=get_metric("em"), max_demos=4, threads=1)
        compiled = optimize(program, task, optimizer="bootstrap")
        answers = [[each(question=item.question).answer for item in dev] for each in (program, compiled.program)]
    assert compiled.accepted == {"reading": 4}
    assert answers[0] == answers[1]
