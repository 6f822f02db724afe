"""A program of verihop in Inspect (extra `inspect`): `inspect eval verihop/questions -T questions=dev.jsonl ...`.

The task asks each question of a file and scores the answer with our metrics. Solver and scorers stand alone, too: the
solver answers the samples of any task, and the scorers score what any solver answers. The program calls its LM itself,
so that Inspect needs none (`--model none`). https://inspect.aisi.org.uk
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.analysis.export.inspect_log import kept_metadata
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from programs.parts.meter import metered
from programs.parts.prediction import make_prediction
from signatures.common.errors import UserError, needing
from signatures.common.files import expanded
from signatures.types import Hop, make_passage

with needing("inspect", "A task of Inspect"):
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ModelOutput
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver

METRICS = "em,f1[hotpot]"
_ANSWER = "verihop_answer"  # in the store of a sample: the whole prediction, for the scorers
_GOLD = "verihop_question"  # in its metadata: the question with its gold


@task
def questions(
    questions: str,
    artifact: str | None = None,
    program: str | None = None,
    index: str | None = None,
    retriever: str | None = None,
    lm: str | None = None,
    api_base: str | None = None,
    split: str | None = None,
    metrics: str | list[str] = METRICS,
    budget: str | list[str] | None = None,
) -> Task:
    """Ask the questions of a file, and score the answers.

    Args:
        questions: A `questions.jsonl`; `--limit` of Inspect takes the first ones.
        artifact: Folder of a compiled program.
        program: Name of the catalog, or `module:Class` of your own.
        index: Folder of an index; by default the artifact's.
        retriever: Another one of the index, or your own as `module:name`.
        lm: Id of an LM; by default the artifact's, else embedded.
        api_base: URL of its server.
        split: Ask only questions of this split.
        metrics: Names (`verihop metrics`) that need neither judge nor oracle; own ones as `module:name`.
        budget: Limits that all calls share, such as calls=500,usd=0.2.

    Raises:
        UserError: A file is missing or broken, or a name is unknown.
    """
    from experiments.pipeline.setup import open_questions

    asked = open_questions(questions, split=split)
    answers = answering(
        artifact=artifact,
        program=program,
        index=index,
        retriever=retriever,
        lm=lm,
        api_base=api_base,
        budget=budget,
    )
    samples = [
        Sample(
            id=each.id,
            input=each.question,
            target=each.answers or "",
            metadata={**({"type": each.type} if each.type else {}), _GOLD: each.model_dump(mode="json")},
        )
        for each in asked
    ]
    dataset = MemoryDataset(samples, name=Path(questions).name, location=questions)
    return Task(dataset=dataset, solver=answers, scorer=[scoring(name) for name in _listed(metrics)])


@solver
def answering(
    artifact: str | None = None,
    program: str | None = None,
    index: str | None = None,
    retriever: str | None = None,
    lm: str | None = None,
    api_base: str | None = None,
    budget: str | list[str] | None = None,
) -> Solver:
    """Answer with a program of verihop; what it read, its hops and its costs are metadata of the sample.

    Args:
        artifact, program, index, retriever, lm, api_base, budget: As for `questions`.

    Raises:
        UserError: A name is unknown; what cannot be opened is the error of the first sample.
    """
    from experiments.pipeline.opened import AnswererSpec
    from experiments.pipeline.setup import limits_of, parse_limits

    named = ProgramSpec(
        program=program,
        artifact=None if artifact is None else expanded(artifact).absolute(),
        index=None if index is None else expanded(index).absolute(),
        retriever=retriever,
    )
    limits = limits_of(parse_limits(budget, "budget"))
    spec, _ = AnswererSpec(named, LMSpec(id=lm, api_base=api_base), limits).with_defaults()
    opened = functools.cache(spec.open)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        from experiments.service.answering import as_answer
        from programs.lms.calls.budget import BudgetExceeded

        answerer = opened()
        try:
            with metered() as meter:
                answer = await answerer.acall(state.input_text)
        except BudgetExceeded as spent:  # no Exception: it would end Inspect instead of the sample
            raise UserError(str(spent)) from spent
        shown = as_answer(answer)
        state.store.set(_ANSWER, {**shown, "details": answer.details})
        state.metadata |= kept_metadata({**shown, **meter.counts(), "details": answer.details})
        state.messages.append(ChatMessageAssistant(content=shown["response"] or shown["answer"]))
        state.output = ModelOutput.from_content(answerer.connection.id, shown["answer"])
        state.completed = True
        return state

    return solve


def scoring(name: str) -> Scorer:
    """Return the scorer of a metric; a sample without the gold that it needs has no score.

    Args:
        name: Of the metric; its name in Inspect, too.

    Raises:
        UserError: There is none of that name, or it needs a judge.
    """
    from experiments.pipeline.setup import metric_of

    metric = metric_of(name)
    if metric.judged:
        raise UserError(f"{name} is decided by a judge LM, which this task lacks: name other metrics.")

    def made() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score | None:
            prediction = _prediction(state)
            value = metric(_example(state, target), prediction)
            return None if value is None else Score(value=value, answer=prediction.answer)

        return score

    found: Scorer = scorer(metrics=[mean(), stderr()], name=name)(made)()
    return found


def _listed(names: str | Sequence[str]) -> list[str]:
    """Return names; Inspect makes a list of what has commas."""
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]


def _prediction(state: TaskState) -> Any:
    """Return what our solver has answered, or what another solver has written."""
    answer = state.store.get(_ANSWER)
    if answer is None:
        return make_prediction(state.output.completion)
    fields = {name: answer[name] for name in ("response", "citations", "abstained", "details", "stop_reason")}
    hops, passages = map(Hop.model_validate, answer["hops"]), map(make_passage, answer["passages"])
    return make_prediction(answer["answer"], hops=list(hops), passages=list(passages), **fields)


def _example(state: TaskState, target: Target) -> Any:
    """Return the question with its gold; of a task of others, the target is the gold answers."""
    from corpora.questions import Question
    from optimizers.examples import to_examples

    gold = state.metadata.get(_GOLD) or {
        "id": str(state.sample_id),
        "question": state.input_text,
        "answers": list(target.target),
    }
    (example,) = to_examples([Question.model_validate(gold)])
    return example
