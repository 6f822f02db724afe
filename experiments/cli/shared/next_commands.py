"""The commands printed as "Next:": they run as printed, with the options that were used."""

import dataclasses
import getpass
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli.shared.options import Option, options_of, parsed_value
from experiments.cli.shared.settings.known import named_file, setting_of, to_type
from experiments.runs.specs import StudySpec
from signatures.common.errors import UserError
from signatures.common.own_code import is_own
from signatures.common.secrets import without_keys
from signatures.text_words import same_words

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.summary import RunSummary
    from experiments.runs.shards import Shard
    from experiments.runs.specs import RunSpec

QUESTION = "your question"


def command(*words: object) -> str:
    """Return a line for the shell; words with spaces or other special characters are quoted.

    A path that begins with a dash is written with ./ before it, which distinguishes it from an option. What runs
    verihop names the settings file that this command was named.
    """
    if words[:1] == ("verihop",) and (named := named_file.get()):
        words = ("verihop", "--config", named, *words[1:])
    return " ".join(shlex.quote(_word(word)) for word in words)


def _word(value: object) -> str:
    dashed = isinstance(value, Path) and str(value).startswith("-") and str(value) != "-"  # that is standard input
    return f"./{value}" if dashed else str(value)


def used(group: Any, *names: str) -> list[str]:
    """Return the options of a group (see `with_option_groups`) that differ from their defaults, as words of a command.

    An option that settings give the same value is left out, one that differs from a setting is not.

    Args:
        group: A frozen dataclass of options.
        names: The options to return; all by default.
    """
    options = options_of(group)
    settings = {option.name: setting for option in options if (setting := setting_of(option.info)) is not None}
    values = {option.name: getattr(group, option.field) for option in options}
    beyond_settings = to_type({setting: values[name] for name, setting in settings.items()})
    words: list[str] = []
    for option in options:
        value, setting = values[option.name], settings.get(option.name)
        as_without = value == option.default if setting is None else setting not in beyond_settings
        if (names and option.name not in names) or as_without or value is None:
            continue
        on, off = _flags(option)
        if isinstance(value, Mapping):
            value = [f"{name}={typed_value(each)}" for name, each in value.items()]
        for one in value if isinstance(value, list) else [value]:
            words += [on if one else off] if isinstance(one, bool) else [on, _without_credentials(_word(one))]
    return words


def search_options(group: Any, *more: str) -> list[str]:
    """Return the options, as `used` does, that say how an index is searched, and `more` of them."""
    return used(group, *more, "retriever", "rerank", "sentences", "precision")


def typed_value(value: Any) -> str:
    """Return a value as it is typed, so that it is parsed to the same."""
    as_it_is = isinstance(value, str) and parsed_value(value) == value
    return str(value) if as_it_is else json.dumps(value, ensure_ascii=False)


def naming(*programs: str | None) -> list[str]:
    """Return the options that name those programs of an artifact that are the user's own: no artifact names them."""
    return [word for name in programs if name is not None and is_own(name) for word in ("--program", name)]


def _flags(option: Option) -> tuple[str, str]:
    """Return the names of an option that sets and, for a switch, unsets it."""
    info = option.info
    # In an annotation, Typer's first argument is a name, although its parameter is called default.
    names = (info.default, *(info.param_decls or ())) if info else ()
    declared = [flag for flag in names if isinstance(flag, str) and flag.startswith("--")]
    on, _, off = (declared[0] if declared else f"--{option.name.replace('_', '-')}").partition("/")
    return on, off


def _without_credentials(value: str) -> str:
    """Return a URL with placeholders for user, password and keys in it, and any other value unchanged."""
    if not value.startswith(("http://", "https://")):
        return value
    return without_keys(re.sub(r"^(https?://)[^/@]*@", r"\1USER:PASSWORD@", value), "KEY")


def new_path(path: Path) -> Path:
    """Return a path that does not exist: this one, else with -2, -3, ... appended."""
    candidates = (path, *(path.with_name(f"{path.name}-{number}") for number in range(2, 1000)))
    return next((candidate for candidate in candidates if not candidate.exists()), path)


def training(examples: Path) -> str:
    """Return a command that trains an LM on a folder of examples."""
    out = new_path(examples.with_name(f"{examples.name}-lm"))
    return command("verihop", "distill", "train", examples, "-o", out)


def index_here() -> Path | None:
    """Return an index where commands usually write one, relative to the working folder; None if there is none."""
    usual = (Path("index"), Path("runs/index"), Path("runs/demo/index"))
    return next((folder for folder in usual if (folder / "index.json").is_file()), None)


def asking(program: str, *, lm: str | None = None, index: Path | None = None, closed_book: bool = False) -> str:
    """Return a command that asks, on an index of the working folder; the demo, which makes one, if there is none.

    Args:
        program: What is asked.
        lm: Id of the LM that is to answer; None for that of the settings.
        index: The index to ask on; None for one where commands usually write it.
        closed_book: It reads no passages.
    """
    answering = () if lm is None else ("--lm", lm)
    index = None if closed_book else index or index_here()
    if index is None and not closed_book:
        return command("verihop", "demo", *answering)
    searched = () if index is None else ("--index", index)
    return command("verihop", "ask", "--program", program, *answering, *searched, QUESTION)


def reviewer() -> str:
    """Return the name of the user, as the reviewer of a suggested command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user, as in some containers
        return "me"


def other_run(run: Path) -> Path | None:
    """Return the run beside `run` that was written last and has the same questions; None if there is none."""
    from experiments.runs.files import ROWS, RUN, read_json

    def questions(folder: Path) -> Any:
        try:
            description = read_json(folder / RUN)
            return None if "kind" in description else description["questions"]["sha256"]
        except (UserError, KeyError, TypeError):
            return None

    own = questions(run)
    siblings = [path.parent for path in run.resolve().parent.glob(f"*/{ROWS}") if path.parent != run.resolve()]
    same = [folder for folder in siblings if own is not None and questions(folder) == own]
    newest = max(same, key=lambda folder: (folder / ROWS).stat().st_mtime, default=None)
    return None if newest is None else run.parent / newest.name


def sibling_shards(run: Path) -> dict[int, Path]:
    """Return the shards of the same run in the folders beside `run`, and itself, by their number."""
    from experiments.runs.files import RUN, as_asked, difference, read_json

    def described(folder: Path) -> tuple[int | None, dict[str, Any]]:
        try:
            asked = as_asked(read_json(folder / RUN))
            shard = dict(asked["shard"])
            whole = {name: shard.get(name) for name in ("of", "questions")}
            return shard["index"], {**asked, "shard": whole, "questions": None}
        except (UserError, KeyError, TypeError, ValueError):
            return None, {}

    own = described(run)[1]
    folders = [*(path.parent for path in sorted(run.resolve().parent.glob(f"*/{RUN}"))), run]  # the last one counts
    found = [(folder, *described(folder)) for folder in folders]
    return {
        index: run.parent / folder.name
        for folder, index, asked in found
        if index is not None and difference(own, asked) is None
    }


def _answered(run: Path) -> bool:
    """Return whether a run has all its answers; one that was killed has no summary."""
    from experiments.runs.files import SUMMARY, read_json

    try:
        return read_json(run / SUMMARY)["complete"] is True
    except (UserError, KeyError, TypeError):
        return False


def after_run(
    summary: "RunSummary", questions: Path, groups: list[Any], program: Any, index: Path | None, *, fixed: bool
) -> str:
    """Return the comparison with another run on the same questions, else the evaluation of a baseline to compare."""
    run = Path(summary.folder)
    if other := other_run(run):
        return command("verihop", "compare", other, run)
    baseline = "rag" if (index is not None or fixed) and summary.program != "rag" else "cot"
    baseline = "standard" if baseline == summary.program else baseline
    words = [word for group in groups for word in used(group)] + ["--program", baseline]
    if baseline == "rag" and index is not None:
        words += ["--index", str(index), *search_options(program)]
    return command("verihop", "eval", questions, *words, "--out", new_path(run.parent / baseline))


def studied(metrics: Iterable[str], asked: "Iterable[Question]", *, fixed: bool) -> list[str] | None:
    """Return the words that name what a study of a recorded run can search by; None if there can be no study.

    Args:
        metrics: Those recorded.
        asked: The questions recorded: no optimizer may see one of a test split.
        fixed: Whether they had fixed contexts, which a study does not.
    """
    from optimizers.metrics.catalog import find_metric
    from optimizers.metrics.groundedness import ORACLE_METRICS
    from optimizers.teleprompters.task import is_test_split

    if fixed or any(is_test_split(each.split or "") for each in asked):
        return None
    known = {name: find_metric(name) for name in metrics if name not in ORACLE_METRICS}
    found = [name for name, metric in known.items() if metric is None or metric.higher_is_better]
    return None if not found else [] if StudySpec.metric in found else ["--metric", found[0]]


def after_record(questions: Path, groups: list[Any], spec: "RunSpec", metric: list[str], run: Path) -> str:
    """Return the study that searches what a run has recorded, by the metric that these words name."""
    words = [word for group in groups for word in used(group)] + used(spec, "split", "limit") + metric
    return command("verihop", "tune", questions, *words, "--replay", run, "--out", new_path(run.parent / "tuned"))


def after_shard(
    shard: "Shard", questions: Path, spec: "RunSpec", before: list[Any], after: list[Any], run: Path
) -> str:
    """Return the evaluation of the next shard that is not beside `run` or not finished there, or the merge of all."""
    shards = sibling_shards(run)
    missing = [index for index in range(1, shard.of + 1) if index not in shards]
    missing = missing or [index for index in sorted(shards) if not _answered(shards[index])]
    if not missing:
        runs = [shards[index] for index in sorted(shards)]
        return command("verihop", "merge", *runs, "--out", new_path(run.parent / "merged"))
    groups = [*before, dataclasses.replace(spec, shard=f"{missing[0]}/{shard.of}"), *after]
    words = [word for group in groups for word in used(group)]
    if begun := shards.get(missing[0]):
        resumed = [] if "--resume" in words else ["--resume"]
        return command("verihop", "eval", questions, *words, *resumed, "--out", begun)
    return command("verihop", "eval", questions, *words, "--out", new_path(run.parent / f"shard-{missing[0]}"))


def after_freezing(
    artifact: Path, out: Path, words: list[str], held_out: list[str], scored: "list[str] | tuple[()]" = ()
) -> list[str]:
    """Return the commands that ask what was frozen, and that score it on questions that it was not made from."""
    found = [command("verihop", "ask", "--artifact", artifact, *words, QUESTION)]
    if held_out:
        run = new_path(out.with_name(f"{out.name}-eval"))
        found.append(command("verihop", "eval", *held_out, "--artifact", artifact, *words, *scored, "--out", run))
    return found


def other_split(path: Any, split: str | None, seen: "Iterable[Question]" = ()) -> list[str]:
    """Return the words that select questions of a file outside `split`; empty if the file has no other split.

    Args:
        path: The file, as a command names it; None has no questions.
        split: The one that was used; None means that it was the whole file.
        seen: A split that has one of these questions, by id or by its words, is not selected either.
    """
    from corpora.questions import read_questions

    if path is None or split is None:
        return []
    used_up = [*seen]
    ids, texts = {each.id for each in used_up}, {same_words(each.question) for each in used_up}
    splits, taken = set[str](), {split}
    for each in read_questions(path):
        splits.add(each.split or "")
        if each.id in ids or same_words(each.question) in texts:
            taken.add(each.split or "")
    splits -= {"", *taken}
    names = [name for name in ("dev", "validation", "val", "test", *sorted(splits)) if name in splits]
    return [_word(path), "--split", names[0]] if names else []
