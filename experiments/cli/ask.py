"""`verihop ask`: one question, its answer, the hops that led there and the cited passages."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli import options
from experiments.cli.console import emit, say

if TYPE_CHECKING:
    import dspy

    from signatures.types import Hop


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    artifact: Annotated[Path | None, typer.Option(help="A compiled program (`verihop compile`).")] = None,
    program: Annotated[str | None, typer.Option(help="An uncompiled program by name.")] = None,
    index: options.Index = None,
    retriever: options.Retriever = None,
    lm: options.FrozenLM = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    model_type: options.ModelType = "chat",
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    context_size: options.ContextSize = None,
    preset: options.Preset = "paper",
    settings: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Answer one question and show the evidence."""
    from experiments.pipeline import setup
    from programs.parts.meter import metered
    from signatures.common.errors import UserError

    try:
        question.encode()
    except UnicodeEncodeError:
        raise UserError("The question holds bytes that are no valid UTF-8. Type it anew.") from None
    if not question.strip():
        raise UserError('The question is empty. Ask something, e.g. verihop ask --artifact DIR "Who ...?"')
    lm_id, index = setup.frozen_defaults(artifact, lm, index, api_base=api_base)
    retrieve = setup.open_retriever(index, retriever)
    connection = setup.open_lm(
        lm_id, setup.LMOptions(api_base, api_key_env, model_type, temperature, max_tokens, context_size)
    )
    ready = setup.open_ready(connection, retrieve, program=program, artifact=artifact, preset=preset, settings=settings)
    with connection.use(), metered() as meter:
        prediction = ready(question=question)
    if as_json:
        emit({"question": question, **_as_dict(prediction), "cost": meter.counts()})
    else:
        show(prediction)


def _as_dict(prediction: "dspy.Prediction") -> dict[str, Any]:
    return {
        **{name: prediction[name] for name in ("answer", "response", "citations", "abstained")},
        "hops": [hop.model_dump() for hop in prediction.hops],
        "passages": [passage.model_dump() for passage in prediction.passages],
        "details": prediction.details,
    }


def show(prediction: "dspy.Prediction") -> None:
    """Print an answer for people: the answer, each hop with what it rests on, the cited passages."""
    say(f"Answer: {prediction.answer or '(none)'}")
    if prediction.response and prediction.response != prediction.answer:
        say(f"Response: {prediction.response}")
    for number, hop in enumerate(prediction.hops, start=1):
        say(f"\nHop {number}: {hop.question}")
        if hop.answer:
            say(f"    {hop.answer}{_check(hop)}")
        if hop.evidence:
            say(textwrap.indent(textwrap.fill(f'"{hop.evidence}"', 100), "    "))
        for candidate in hop.candidates:
            text = textwrap.shorten(candidate.text, 90, placeholder=" ...")
            say(f"    {'kept' if candidate.kept else 'dropped'}: {text} ({candidate.reason})")
    cited = [passage for passage in prediction.passages if passage.id in set(prediction.citations)]
    say(f"\nCited passages: {len(cited)} of {len(prediction.passages)} read")
    for passage in cited:
        say(f"  [{passage.id}] {passage.title}")
        say(textwrap.indent(textwrap.fill(passage.text, 100), "      "))


def _check(hop: "Hop") -> str:
    """Return what the answer of a hop was checked against, and what came of it."""
    if hop.draft is None:
        return f"  ({hop.verdict})" if hop.verdict else ""
    return f"  ({'second answer' if hop.candidates else 'from memory'}: {hop.draft}; {hop.verdict})"
