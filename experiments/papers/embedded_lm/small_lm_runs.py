"""Runs of programs that are in no catalog, and of prompts in another form, on the sets of the student."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.papers.embedded_lm import student_tables as tables
from experiments.papers.embedded_lm.student_sets import Runs
from programs.lms.adapter import JsonForm
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.runs.fixed_contexts import FixedContexts
    from signatures.types import Retriever

EM, F1, ALL_GOLD = "em", "f1[hotpot]", "all_gold@20"
METRICS = (EM, F1, "acc[substring]", ALL_GOLD)


@dataclass(frozen=True)
class Variant:
    """A run.

    Args:
        name: Of its folder, unique among the variants of an LM.
        program: Builds the program around a retriever, None if the passages are given.
        lm: "trained" or "untrained".
        form: Builds the adapter from that of the LM; None keeps the LM's own.
        rerank: Reranker in front of the retriever; see `corpora.retrievers.rerank.open_reranker`.
        given: Questions and the passages given with each; None retrieves passages for all questions of the set.
    """

    name: str
    program: "Callable[[Retriever | None], dspy.Module]"
    lm: str = "trained"
    form: Callable[[JsonForm], Any] | None = None
    rerank: str = "own"
    given: "tuple[Sequence[Question], FixedContexts] | None" = None


def ask(runs: Runs, variant: Variant) -> dict[str, Any]:
    """Return the scores and costs of a variant, after asking what is not answered yet.

    Raises:
        UserError: The LM does not reply in JSON, so that its adapter has no other forms.
    """
    from corpora.retrievers.rerank import open_reranker
    from experiments.analysis.statistics import mean_of
    from experiments.runs.files import read_rows

    connection = runs.lms[variant.lm]
    if variant.form is not None:
        if not isinstance(connection.adapter, JsonForm):
            raise UserError(f"The LM {connection.id!r} does not reply in JSON: name an embedded one.")
        connection = replace(connection, adapter=variant.form(connection.adapter))
    questions, contexts = variant.given or (runs.of.questions, None)
    retrieve = open_reranker(runs.of.retrieve, variant.rerank) if contexts is None else None
    folder = runs.folder_of(variant.lm, variant.name)
    scores = runs.measure(folder, variant.program(retrieve), connection, questions, contexts)
    if contexts is not None:  # nothing was retrieved
        del scores[ALL_GOLD]
    rows = read_rows(folder)
    return {
        "lm": variant.lm,
        "passages": f"retrieved, rerank {variant.rerank}" if contexts is None else f"given, at most {contexts.n}",
        **scores,
        "prompt_tokens": mean_of([row["prompt_tokens"] for row in rows]).as_dict(),
        "unparsed": mean_of([float(row["parse_failures"] > 0) for row in rows]).as_dict(),  # share of the questions
    }


def difference(runs: Runs, old: Variant, new: Variant) -> dict[str, Any]:
    """Return the paired difference of each score, new minus old, on the questions that both runs answered."""
    return tables.run_differences(runs.folder_of(old.lm, old.name), runs.folder_of(new.lm, new.name))


def json_form(cls: type[JsonForm], adapter: JsonForm) -> JsonForm:
    """Return an adapter of a subclass with the settings of another."""
    return cls(
        context_size=adapter.context_size,
        reply_tokens=adapter.reply_tokens,
        count_tokens=adapter.count_tokens,
        probability_mode=adapter.probability_mode,
        short_replies=adapter.short_replies,
        thinking=adapter.thinking,
    )
