"""Every `verihop` command of every page runs as it is written, on a small world and the simulated LM.

What is replaced: the LM, numbers of questions and trials, and the kind of the index. What does not run here is listed
with its reason.
"""

import glob
import json
import shutil
from pathlib import Path

import pytest

import verihop as library
from corpora.index.build import build_index
from programs.catalog import build
from tests.corpora.ingest.make_pdf import make_pdf
from tests.experiments.readme.pages import OWN_METRIC, ROOT, blocks, words

CONSOLE = blocks("console")
RUN = (
    "README.md",
    "corpora/README.md",
    "corpora/datasets/README.md",
    "corpora/index/README.md",
    "corpora/ingest/README.md",
    "corpora/sync/README.md",
    "experiments/cli/README.md",
    "optimizers/distill/README.md",
)
NOT_RUN = {  # start of a command -> why it does not run, or which test runs it
    "pip": "installs",
    "curl": "asks a service: tests/experiments/service/test_command.py",
    "export": "sets a variable for the command that follows",
    "python": "experiments of hours: tests/experiments/papers",
    "array=": "starts jobs of a cluster: tests/experiments/recipes",
    "sbatch": "starts jobs of a cluster: tests/experiments/recipes",
    "HOSTS=": "starts jobs on other machines: tests/experiments/recipes",
    "inspect": "needs an installed package: tests/experiments/service/test_inspect_task.py",
    "ray": "starts jobs of a cluster: tests/experiments/recipes",
    "VERIHOP_TOKEN=": "serves until it is stopped: tests/experiments/service/test_command.py",
    "verihop serve": "serves until it is stopped: tests/experiments/service/test_command.py",
    "verihop sync docs --out index --watch": "goes on: tests/experiments/cli/corpus/test_sync.py",
    "verihop mcp": "serves until it is stopped: tests/experiments/service/test_tools.py",
    "OTEL_EXPORTER": "needs a collector: tests/experiments/cli/test_otel.py",
    'verihop trace runs/rag "chief': "names a question of another corpus: tests/experiments/cli/runs/test_trace.py",
    "verihop export runs/rag --to mlflow": "makes a store: tests/experiments/cli/runs/test_export.py",
    "verihop distill synthesize SET": "asks the embedded LM for minutes: tests/experiments/pipeline/synthesis",
    "verihop distill mix made/*": "mixes what is not synthesized: tests/optimizers/distill/test_mixture.py",
    "verihop distill train": "trains: tests/experiments/cli/test_distill_train.py",
    "verihop distill plan": "trains for hours on a CPU: tests/experiments/pipeline/training/test_plan.py",
    "verihop distill export": "exports what was trained: tests/experiments/cli/test_distill_train.py",
    "verihop artifact selective": "needs many right answers: tests/experiments/cli/test_artifact_selective.py",
    "verihop keyfacts": "the simulated LM writes no key facts: tests/experiments/annotation",
    "verihop index passages.jsonl --out index --dense": "needs a database: tests/corpora/retrievers/test_databases.py",
    "verihop index --out index --dense": "has no vectors here: tests/experiments/cli/corpus/test_index_engines.py",
    "verihop index passages.jsonl --embedder": "needs a server: tests/experiments/cli/corpus/test_index_engines.py",
    "verihop index pu": "needs a server: tests/experiments/cli/corpus/test_index_transfer.py",
    "verihop index triples": "the simulated LM writes no triples: tests/experiments/pipeline/test_triples.py",
    "verihop index passages.jsonl --retriever graph --triples": "needs triples: tests/corpora/retrievers/test_graph.py",
    "verihop eval dev/questions.jsonl": "asks the embedded LM for hours: tests/experiments/papers/test_results.py",
    "verihop eval unseen.jsonl": "asks the embedded LM for minutes: tests/experiments/papers/test_results.py",
    "verihop compare runs/hybrid": "compares what is not run: tests/experiments/papers/test_results.py",
    "verihop judge": "the simulated LM cannot compare answers: tests/experiments/cli/test_judge.py",
    "verihop reproduce": "asks for hours: tests/experiments/papers/tables",
    "verihop data verify": "needs the questions and passages of a site: tests/experiments/cli/runs/test_leaderboard.py",
    "verihop leaderboard runs/reproduce": "shows runs of hours: tests/experiments/cli/runs/test_leaderboard.py",
    "verihop review": "waits for a person: tests/experiments/annotation/review",
    "verihop config --trust": "needs a file that was found: tests/experiments/cli/settings/test_config.py",
    "verihop data fetch": "needs the file of a benchmark: tests/experiments/cli/corpus/test_data.py",
    "verihop data subset": "needs the file of a benchmark: tests/experiments/cli/corpus/test_data.py",
    "verihop data convert": "needs the file of a benchmark: tests/experiments/cli/corpus/test_data.py",
}
ELSEWHERE = {  # page -> the test that runs its commands
    "docs/mlflow.md": "tests/experiments/service/test_mlflow_model.py",
    "docs/langchain.md": "tests/experiments/cli/test_own_retriever.py",
    "docs/llamaindex.md": "tests/experiments/cli/test_own_retriever.py",
    "docs/web.md": "tests/experiments/cli/test_web.py",
    "programs/own/README.md": "tests/experiments/cli/test_own_program.py",
    "experiments/pipeline/README.md": "tests/experiments/pipeline/tuning",
}
LM_OPTIONS = ("--lm", "--teacher", "--answers-lm", "--prompt-lm", "--judge-lm")
FEWER = {  # command -> options that it is given unless the page names others
    "compile": [("--limit", "6")],
    "eval": [("--limit", "4")],
    "tune": [("--limit", "3"), ("--trials", "4")],
    "synthesize": [("--student", "json")],  # the form of an LM that need not be loaded
}
MOST_TRIALS, FEW_CALLS = 5, "calls=150"
ASKING = ("ask", "eval", "compile", "tune", "judge")


def not_run(command: str) -> str | None:
    """Return the key of `NOT_RUN` that a command starts with; None if it runs."""
    return next((start for start in NOT_RUN if command.startswith(start)), None)


def adapted(command: str) -> list[str]:
    """Return the arguments of a command with the simulated LM, few questions, and an index of words alone."""
    every = words(command)
    given = every[every.index("verihop") + 1 :]  # a variable in front of it may name the LM, which is replaced
    arguments: list[str] = []
    for place, word in enumerate(given):
        before = given[place - 1] if place else ""
        if word == "--api-base" or before == "--api-base":
            continue
        if before in LM_OPTIONS:
            word = "simulated"
        elif before == "--trials":
            word = str(min(int(word), MOST_TRIALS))
        elif before == "--budget" and given[0] == "compile":
            word = FEW_CALLS
        arguments += sorted(glob.glob(word)) if "*" in word else [word]
    name = arguments[0]
    if name in ASKING and "--lm" not in arguments and "--artifact" not in arguments:
        arguments += ["--lm", "simulated"]
    for option, value in FEWER.get(arguments[1] if name == "distill" else name, ()):
        if option not in arguments:
            arguments += [option, value]
    if name == "sync" or (name == "index" and "--add" not in arguments):
        arguments += ["--retriever", "bm25"]
    return arguments


def on_all_machines(command: str) -> list[str]:
    """Return the command, and for the first of four shards those of the others."""
    if "--shard 1/4" not in command:
        return [command]
    return [command.replace("1/4", f"{n}/4").replace("runs/s1", f"runs/s{n}") for n in (1, 2, 3, 4)]


@pytest.fixture
def stage(tmp_path, small_world, monkeypatch, converted_lm, no_plots) -> Path:
    """Return the working folder, with the files of a user who has documents, questions and code."""
    world = small_world(60)
    monkeypatch.chdir(tmp_path)
    rows = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()]
    files = {"questions": rows, **{name: [row for row in rows if row["split"] == name] for name in ("train", "dev")}}
    for name, chosen in files.items():
        write(f"{name}.jsonl", chosen)
    passages = [json.loads(line) for line in (world / "passages.jsonl").read_text().splitlines()]
    document = "".join(f"# {passage['title']}\n\n{passage['text']}\n\n" for passage in passages)
    Path("docs").mkdir()
    Path("docs/world.md").write_text(document)
    Path("my_metrics.py").write_text(OWN_METRIC)
    (own,) = (block.text for block in blocks("python") if block.page == "programs/own/README.md")
    Path("my_module.py").write_text(own.replace("AskTwice", "MyProgram"))
    return tmp_path


def write(name: str, rows: list[dict]) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines(keepends=True)


def prepare(page: str, world: Path) -> None:
    """Make what a page takes for granted, beside documents, questions and code."""
    if page == "README.md":
        return
    shutil.copy(world / "passages.jsonl", "passages.jsonl")
    if page == "corpora/ingest/README.md":
        Path("passages.jsonl").unlink()
        Path("manual.pdf").write_bytes(make_pdf([["The lamp burns oil."]]))
    elif page == "corpora/datasets/README.md":
        for folder in ("hotpot", "hotpot-dev"):
            Path("data", folder).mkdir(parents=True)
            shutil.copy("passages.jsonl", f"data/{folder}/passages.jsonl")
            shutil.copy("train.jsonl", f"data/{folder}/questions.jsonl")
    elif page == "corpora/index/README.md":
        few = ["id1", "id2", "id3", "id4"]
        write("few.jsonl", [{"id": name, "title": name, "text": f"{name} is a passage."} for name in few])
        build_index(Path("few.jsonl"), Path("index"), retriever="bm25")
        write("more.jsonl", [{"id": "id5", "title": "Five", "text": "It came later."}])
        Path("ids.txt").write_text("id3\n")
    elif page == "optimizers/distill/README.md":
        shutil.copytree(world / "index", "index")
        for folder in ("hotpotqa", "nq", "2wiki"):
            Path(folder).mkdir()
            Path(folder, "questions.jsonl").write_text("".join(lines("train.jsonl")[:5]))
            shutil.copy("passages.jsonl", f"{folder}/passages.jsonl")
            shutil.copytree("index", f"{folder}/index")
        Path("eval").mkdir()
        shutil.copy("dev.jsonl", "eval/questions.jsonl")
    elif page == "experiments/cli/README.md":
        prepare_commands(world)


def prepare_commands(world: Path) -> None:
    """Make artifacts and runs that others of the page's commands would have made."""
    with open("passages.jsonl", "a") as file:
        for name in ("id1", "id2", "id3"):
            file.write(json.dumps({"id": name, "title": name, "text": f"{name} is a passage."}) + "\n")
    write("more.jsonl", [{"id": "id4", "title": "Four", "text": "It came later."}])
    Path("ids.txt").write_text("id3\n")
    Path("queries.txt").write_text("Who built it?\nWhere is it?\n")
    write("predictions.jsonl", [{"id": json.loads(line)["id"], "answer": "yes"} for line in lines("questions.jsonl")])
    for name in ("rag", "genground", "cov_rag"):
        program = library.load(program=name, index=world / "index", lm="simulated")
        library.evaluate(program, "dev.jsonl", f"runs/{name}", progress=False)
        library.freeze(program, f"artifacts/{name}")
    for name in ("old", "new"):
        shutil.copytree("artifacts/rag", f"artifacts/{name}")


@pytest.mark.slow
@pytest.mark.filterwarnings("default::signatures.common.errors.UserNotice")
@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run_one_after_the_other(page, stage, small_world, verihop):
    prepare(page, small_world(60))
    for block in CONSOLE:
        for command in block.commands() if block.page == page else ():
            if not_run(command) is None:
                for each in on_all_machines(command):
                    code, out, err = verihop(*adapted(each))
                    assert code == 0, f"{each}\n{out}\n{err}"


def test_every_command_runs_or_says_why_not():
    started = {not_run(command) for block in CONSOLE for command in block.commands()}
    assert started - {None} == set(NOT_RUN)
    running = {block.page for block in CONSOLE if any(not_run(command) is None for command in block.commands())}
    assert running == {*RUN, *ELSEWHERE}
    for reason in [*NOT_RUN.values(), *ELSEWHERE.values()]:
        place = reason.rpartition(": ")[2]
        assert not place.startswith("tests/") or (ROOT / place).exists(), reason


def test_predictors_that_trace_names_are_those_of_the_runs_program():
    commands = [words(command) for block in CONSOLE for command in block.commands()]
    named = [given for given in commands if given[:2] == ["verihop", "trace"] and "--predictor" in given]
    assert named
    for given in named:
        program = build(Path(given[2]).name)
        assert given[given.index("--predictor") + 1] in dict(program.named_predictors())
