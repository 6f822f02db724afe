"""What a run is: everything that can change its numbers, by name, value and hash."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from experiments.runs.files import SCHEMA, Json, git_revision
from experiments.runs.fixed_contexts import References
from optimizers.metrics.catalog import Metric
from signatures.common.files import sha256_file, sha256_text
from signatures.common.versions import ANSWERING, installed_versions

if TYPE_CHECKING:
    import dspy

_SETTINGS = ("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed")


class Connected(Protocol):
    """What a run needs of a connection (`programs.lms.connect.Connection` is one)."""

    @property
    def id(self) -> str:
        """The id the LM was asked for by."""
        ...

    @property
    def lm(self) -> Any:
        """The `dspy.LM`."""
        ...

    @property
    def adapter(self) -> Any:
        """The `dspy.Adapter`."""
        ...

    @property
    def weights_hash(self) -> str | None:
        """The SHA-256 of the weights; None where they are not at hand."""
        ...

    @property
    def probability_mode(self) -> str:
        """How P(yes) is read from this LM."""
        ...


def describe_program(program: "dspy.Module", artifact: Path | None = None) -> Json:
    """Return name, knobs and a hash of instructions and demonstrations; with its folder, the artifact's hash, too."""
    from programs.artifact import program_name
    from programs.parts.knobs import knob_values

    state = json.dumps(program.dump_state(), sort_keys=True, ensure_ascii=False, default=str)
    return {
        "name": program_name(program),
        "knobs": knob_values(program),
        "state_sha256": sha256_text(state),  # instructions and demonstrations
        "artifact_sha256": sha256_file(artifact / "artifact.json") if artifact else None,
    }


def describe_lm(connection: Connected) -> Json:
    """Return what decides an LM's answers; the model string holds a hash of the weights, or of the server's address."""
    settings = getattr(connection.lm, "kwargs", {})
    return {
        "id": connection.id,
        "model": connection.lm.model,
        "weights_hash": connection.weights_hash,
        "adapter": type(connection.adapter).__name__,
        "probability_mode": connection.probability_mode,
        "settings": {name: settings[name] for name in _SETTINGS if settings.get(name) is not None},
    }


def _describe_questions(questions: Sequence[Any]) -> Json:
    fields = [question.model_dump(mode="json") for question in questions]
    return {
        "n": len(questions),
        "sha256": sha256_text(json.dumps(fields, sort_keys=True, ensure_ascii=False)),
        "split_sha256": sha256_text("\n".join(question.id for question in questions)),
    }


def describe_run(
    program: "dspy.Module",
    questions: Sequence[Any],
    *,
    connection: Connected,
    metrics: Sequence[Metric],
    threads: int,
    seed: int = 0,
    artifact: Path | None = None,
    questions_path: Path | None = None,
    judge: Connected | None = None,
    repeats: int = 1,
    given: References | None = None,
) -> Json:
    """Return what `run.json` holds: program, LM, metrics, questions, corpus, and the sitting (revision, versions).

    Args:
        program: What is asked.
        questions: What it is asked, in order.
        connection: The LM and its adapter.
        metrics: What is scored; their definitions are stored.
        threads: Questions answered side by side.
        seed: Seed of whatever the caller draws at random.
        artifact: Folder the program was loaded from.
        questions_path: File the questions were read from.
        judge: The LM that decides judged metrics; it stands in the description where there is one.
        repeats: How often each question is asked; it stands there from 2 on.
        given: References the questions are asked with; they stand there where there are some.
    """
    paths = {
        "artifact": str(artifact) if artifact else None,
        "questions": str(questions_path) if questions_path else None,
        "questions_file_sha256": sha256_file(questions_path) if questions_path else None,
    }
    description = {
        "schema": SCHEMA,
        "program": describe_program(program, artifact),
        "lm": describe_lm(connection),
        **({} if judge is None else {"judge": describe_lm(judge)}),
        **({} if repeats == 1 else {"repeats": repeats}),
        **({} if given is None else {"given": given.describe()}),
        "metrics": {metric.name: metric.definition for metric in metrics},
        "questions": _describe_questions(questions),
        "corpus": {"fingerprint": getattr(getattr(program, "retrieve", None), "fingerprint", None)},
        "seed": seed,
        "threads": threads,
        "paths": paths,
        "git_revision": git_revision(),
        "versions": installed_versions(ANSWERING),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.loads(json.dumps(description, default=str))  # as it will be read back, so that comparing is fair
