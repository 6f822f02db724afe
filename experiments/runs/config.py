"""The configuration of a run, and what its `run.json` records: everything that can change its numbers."""

import functools
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.files import SCHEMA, Json, git_revision
from experiments.runs.shards import Shard
from experiments.runs.specs import RunSpec
from optimizers.metrics.metric import Metric
from optimizers.metrics.typed.opened import typed_metric
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text
from signatures.common.specs import deciding
from signatures.common.versions import ANSWERING, installed_versions
from signatures.common.work import json_line

if TYPE_CHECKING:
    import dspy

    from programs.lms.connect import Connection


# At the start of a text, or after a space, a quote, "=" or ":" (but not in an address, where a second slash follows);
# in quotes, which may be those of a shell around an apostrophe ('"'"'), with its spaces.
_ABSOLUTE = re.compile(
    r"""(?<=['"])(?P<before>[^\s'"]{0,100}[=:])?(?:file://[^\s/'"]*)?(?:/(?:[^/'"]|'"'"')+){2,}(?=['"])"""
    r"""|(?:(?<=^)|(?<=[\s=:'"]))(?:file://[^\s/'"]*)?(?:/[^\s/'"]+){2,}"""
)


def portable(value: Any) -> Any:
    """Return a JSON value with absolute paths in its texts shortened to their last part."""
    if isinstance(value, dict):
        return {name: portable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    return _ABSOLUTE.sub(_last_part, value) if isinstance(value, str) else value


def _last_part(path: re.Match[str]) -> str:
    return (path["before"] or "") + path[0].rsplit("/", 1)[1]


def provenance(module: str) -> dict[str, Any]:
    """Return the current command (`python -m MODULE`), revision and machine, for the head of a result file."""
    return {
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
        "revision": git_revision(),
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Return the cores, Python and system of this machine, without its name."""
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}


def prompts_hash(program: "dspy.Module") -> str:
    """Return the SHA-256 of the instructions and demonstrations of a program."""
    from programs.artifact import shown_state

    return sha256_text(json.dumps(shown_state(program), sort_keys=True, ensure_ascii=False, default=str))


_SETTINGS = ("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "reasoning_effort")


def check_metrics(metrics: Sequence[Metric], judge: "Connection | None") -> None:
    """Raise UserError if there is no metric, a judged one lacks its judge, or a judge has nothing to decide."""
    if not metrics:
        raise UserError("No metric is named. Name at least one, e.g. em.")
    judged = [metric.name for metric in metrics if metric.judged]
    if judged and judge is None:
        raise UserError(f"{judged[0]} is decided by an LM: name a judge LM, or omit the metric.")
    if judge is not None and not judged:
        named = "acc[judge] or hallucination[halluqa]"
        raise UserError(f"The judge LM has nothing to decide: add the metric {named}, or name no judge.")


@dataclass(frozen=True, kw_only=True)
class RunConfig(RunSpec):
    """A run with all that its specification names opened.

    Args:
        metrics: At least one. Progress shows the first.
        processes: Among which the threads are divided, at least 1 (`experiments.pipeline.parallel.process_pool`).
        judge: The LM that decides judged metrics.
        shard: Which of the questions are asked; None means all.
        artifact: Folder the program was loaded from.
        artifact_sha256: Of its `artifact.json` when it was loaded; None reads the file now.
        questions_path: File the questions were read from.

    Raises:
        UserError: A metric is unknown or lacks its judge, a judge has no metric, or a number is below 1.
    """

    metrics: Sequence[str | Metric] = ()
    processes: int = 1
    judge: "Connection | None" = None
    shard: Shard | None = None
    artifact: Path | None = None
    artifact_sha256: str | None = None
    questions_path: Path | None = None

    def __post_init__(self) -> None:
        for name, value in (("threads", self.threads), ("processes", self.processes), ("repeats", self.repeats)):
            if value < 1:
                raise UserError(f"{name} must be at least 1, got {value}.")
        check_metrics(self.scored, self.judge)

    @functools.cached_property  # every question of a run reads it
    def scored(self) -> list[Metric]:
        """The metrics, with names resolved."""
        return [typed_metric(item) if isinstance(item, str) else item for item in self.metrics]

    def asked(self, questions: Sequence[Any]) -> Sequence[Any]:
        """Return those of the questions that are asked: all, or the shard's."""
        return questions if self.shard is None else self.shard.select(questions)

    def check_sampling(self, connection: "Connection") -> None:
        """Raise UserError if questions are repeated but the LM always gives the same reply."""
        settings = getattr(connection.lm, "kwargs", None) or {}
        if self.repeats > 1 and settings.get("temperature") == 0:
            raise UserError(
                f"{self.repeats} repeats need an LM that samples: at temperature 0 every repeat is the same answer. "
                "Set a temperature, e.g. 0.7."
            )


def describe_program(program: "dspy.Module", artifact: Path | None = None, digest: str | None = None) -> Json:
    """Return name, knobs, a hash of the prompts, that of the artifact (`digest`, or read now), and all parts."""
    from programs.artifact import children_of, program_name
    from programs.catalog import own_code
    from programs.parts.knobs import knob_values
    from signatures.common.own_code import is_own

    children = {name: describe_program(child) for name, child in children_of(program).items()}
    name = program_name(program)
    return {
        "name": name,
        **({"code": own_code(type(program))} if is_own(name) else {}),  # its author may change it between two sessions
        "knobs": knob_values(program),
        **({"children": children} if children else {}),
        "state_sha256": prompts_hash(program),
        "artifact_sha256": digest or (sha256_file(artifact / "artifact.json") if artifact else None),
    }


def describe_server(connection: "Connection") -> Json | None:
    """Return what is known of an LM's server: dialect, version, context, slots, thinking; None without a server.

    It is recorded, but not compared when a run is resumed: a server may be updated or started with other slots. What
    decides the replies is compared with `describe_lm`.
    """
    server = getattr(connection, "server", None)
    return None if server is None else asdict(server)


def describe_lm(connection: "Connection") -> Json:
    """Return what decides an LM's replies; the model string contains a hash of its weights or its server's address."""
    settings = getattr(connection.lm, "kwargs", {})
    return {
        "id": connection.id,
        "model": connection.lm.model,
        "weights_hash": connection.weights_hash,
        "adapter": type(connection.adapter).__name__,
        "probability_mode": connection.probability_mode,
        "settings": {name: settings[name] for name in _SETTINGS if settings.get(name) is not None},
    }


def describe_questions(questions: Sequence[Any]) -> Json:
    """Return number and hashes of the questions of a run."""
    return {
        "n": len(questions),
        "sha256": _hash_of(question.model_dump(mode="json") for question in questions),
        "split_sha256": sha256_text("\n".join(question.id for question in questions)),
    }


def rows_hash(asked: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of ids, texts and golds of questions in any order, of which rows of a run say as much."""
    lists = [[row["id"], row["question"], row.get("answers") or [], row.get("gold_ids") or []] for row in asked]
    lines = {json_line(each).decode() for each in lists}  # as in the file: with keys hidden; of repeats one
    return _hash_of(sorted(lines))


def _hash_of(values: Iterable[Any]) -> str:
    return sha256_text(json.dumps([*values], sort_keys=True, ensure_ascii=False))


def describe_shard(questions: Sequence[Any], shard: Shard) -> Json:
    """Return number, question ids in order, and what all shards together were asked, so that they can be merged."""
    ids = [question.id for question in shard.select(questions)]
    return {"index": shard.index, "of": shard.of, "ids": ids, "questions": describe_questions(questions)}


def request_of(program: "dspy.Module", connection: "Connection", **parts: Any) -> Json:
    """Return what decides the results of work with a program, which is stored, and compared when it is resumed.

    Args:
        parts: What else decides them (`signatures.common.specs.deciding`), and hashes of questions.
    """
    described = {"program": describe_program(program), "lm": describe_lm(connection), "corpus": corpus_of(program)}
    return as_read_back({**described, **parts})


def corpus_of(program: "dspy.Module") -> str | None:
    """Return the fingerprint of the corpus that a program retrieves from; None without one."""
    return getattr(getattr(program, "retrieve", None), "fingerprint", None)


def describe_index(program: "dspy.Module") -> Json | None:
    """Return the hash of the corpus behind the index that a program retrieves from; None without an index of ours."""
    folder = _index_folder(program)
    if folder is None:
        return None
    from corpora.index.manifest import read_info

    info = read_info(Path(folder))
    return {"corpus_hash": info.corpus_hash, "passages": info.passages}


def _index_folder(program: "dspy.Module") -> str | None:
    folder = getattr(getattr(program, "retrieve", None), "folder", None)
    return None if folder is None else str(folder)


def as_read_back(request: Json) -> Json:
    """Return a request as read back from its file, so that both can be compared."""
    return dict(json.loads(json.dumps(request, default=str)))


def describe_session() -> Json:
    """Return what may change between the sessions of one run: code revision, library versions, start time (UTC)."""
    return {
        "git_revision": git_revision(),
        "versions": installed_versions(ANSWERING),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_run(
    program: "dspy.Module", questions: Sequence[Any], config: RunConfig, *, connection: "Connection"
) -> Json:
    """Return what `run.json` contains: program, LM, metrics, questions, corpus, and the session.

    Args:
        questions: All questions, also where the run is a shard.
    """
    path, artifact, server = config.questions_path, config.artifact, describe_server(connection)
    index = describe_index(program)
    description = {
        "schema": SCHEMA,
        "program": describe_program(program, artifact, config.artifact_sha256),
        "lm": describe_lm(connection),
        **deciding(
            RunSpec,
            config,
            judge=config.judge and describe_lm(config.judge),
            given=config.contexts and config.contexts.describe(),
            shard=config.shard and describe_shard(questions, config.shard),
        ),
        **({"server": server} if server is not None else {}),
        **({"notes": list(config.notes)} if config.notes else {}),
        "metrics": {metric.name: metric.definition for metric in config.scored},
        "questions": describe_questions(config.asked(questions)),
        "corpus": {"fingerprint": corpus_of(program)},
        **({"index": index} if index is not None else {}),
        "threads": config.threads,
        "processes": config.processes,
        "paths": {
            "artifact": str(artifact) if artifact else None,
            "questions": str(path) if path else None,
            "index": _index_folder(program),
            "questions_file_sha256": sha256_file(path) if path else None,
            "questions_set_sha256": _hash_of(sorted(_hash_of([each.model_dump(mode="json")]) for each in questions)),
            "rows_sha256": rows_hash(each.model_dump(mode="json") for each in questions),
        },
        "machine": machine(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **describe_session(),
    }
    return as_read_back(description)
