"""No command sends text from outside to the terminal, neither results nor errors."""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.conftest import load_module

hostile_server = load_module(Path(__file__).with_name("hostile_server.py")).hostile_server
pytestmark = pytest.mark.filterwarnings("default")  # notices of the server are errors elsewhere
ROOT = Path(__file__).parents[3]
EVIL = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202ered\u200b [bold]x[/bold] [link=http://e]y[/link] [/nope] :smile:"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
# Commands of the project itself, which print figures; and those two that print for all others.
OWN_OUTPUT = ("experiments/benchmarks/", "experiments/papers/")
PRINTERS = ("signatures/common/terminal.py", "experiments/cli/shared/console.py", "experiments/cli/main.py")


def hostile(headers: dict[str, str]) -> str:
    return f"Ansa {EVIL}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Return a folder whose passages and questions are hostile in every text, with an index."""
    from corpora.index.build import build_index

    folder = tmp_path_factory.mktemp("hostile")
    passages = [{"id": f"p{n}{EVIL}", "title": f"Ansa {n} {EVIL}", "text": f"Ansa {n} {EVIL}."} for n in range(5)]
    questions = [
        {"id": f"q{n}{EVIL}", "question": f"Who is Ansa {n}? {EVIL}", "answers": [f"Ansa {EVIL}"], "split": "dev",
         "gold_ids": [f"p{n}{EVIL}"], "type": f"kind{EVIL}", "key_facts": [f"A fact {EVIL}"]}
        for n in range(3)
    ]  # fmt: skip
    for name, rows in (("passages", passages), ("questions", questions)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    build_index(folder / "passages.jsonl", folder / "index", retriever="bm25")
    return folder


@pytest.fixture
def safe(verihop):
    """Return a function that runs a command and checks everything that it prints."""

    def run(*arguments) -> tuple[int, str]:
        code, out, err = verihop(*arguments)
        assert not UNSAFE.search(out), (arguments, out)
        assert not UNSAFE.search(err), (arguments, err)
        assert "Traceback" not in err
        return code, out + err

    return run


@pytest.mark.slow
def test_every_command_shows_escapes_instead_of_sending_them(safe, corpus, tmp_path):
    questions, rag = corpus / "questions.jsonl", ("--program", "rag", "--index", corpus / "index")
    runs = [tmp_path / name for name in ("one", "two [bold]")]
    with hostile_server(hostile) as host:
        lm = ("--lm", "m", "--api-base", f"http://{host}/v1")
        for form in ((), ("--json",)):
            code, text = safe("ask", f"Who is Ansa? {EVIL}", *rag, *lm, *form)
            assert code == 0
            assert (r"\u001b]0;pwned" if form else r"\x1b]0;pwned") in text
        for folder in runs:
            assert (
                safe("eval", questions, *rag, *lm, "--metrics", "em,passage_recall@5", "--out", folder, "--report")[0]
                == 0
            )
        assert safe("compile", questions, *rag, *lm, "--metric", "passage_recall@5", "--out", tmp_path / "made")[0] == 0
        for form in ((), ("--json",)):
            assert safe("judge", *runs, *lm, "--out", tmp_path / f"judged{len(form)}", *form)[0] in (0, 2)
        built = ("keyfacts", "build", questions, "--passages", corpus / "passages.jsonl", "--oracle", "lexical")
        assert safe(*built, *lm, "--out", tmp_path / "facts")[0] == 0
    for form in (
        (),
        ("--json",),
        ("--by", "type"),
        ("--question", json.loads(questions.read_text(encoding="utf-8").splitlines()[0])["id"]),
    ):
        code, text = safe("compare", *runs, *form)
        assert code == 0
        if "--question" in form or "--by" in form:
            assert "[bold]x[/bold]" in text.replace("\n", "") or "[bold]" in text
    report = (runs[0] / "report.html").read_text(encoding="utf-8")
    assert not UNSAFE.search(report)
    assert "traces0" in report  # answers are packed: analysis/report/test_page.py sees them on the page
    assert safe("data", "subset", questions, "--n", 2, "--out", tmp_path / "few")[0] in (0, 2)


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500])
def test_the_errors_of_a_server_are_shown_and_not_sent(status, safe, corpus, tmp_path):
    with hostile_server(hostile, status=status) as host:
        code, text = safe(
            "eval", corpus / "questions.jsonl", "--program", "cot", "--lm", f"m{EVIL}", "--api-base", f"http://{host}",
            "--retries", 0, "--out", tmp_path / "run",
        )  # fmt: skip
    assert code == 2
    assert r"\x1b]0;pwned" in text


@pytest.mark.slow
def test_names_of_files_and_fields_are_shown_and_not_sent(safe, corpus, tmp_path):
    named = tmp_path / f"file{EVIL.replace('/', '')}.jsonl"
    named.write_text('{"id": "1"}\n{"id": 5, "question"\n', encoding="utf-8")
    index = corpus / "index"
    for command in (
        ("eval", named, "--program", "rag", "--index", index, "--lm", "simulated", "--out", tmp_path / "run"),
        ("eval", tmp_path / f"none{EVIL.replace('/', '')}", "--program", "cot", "--out", tmp_path / "run"),
        ("index", named),
        ("ask", "Who?", "--program", f"x{EVIL}"),
        ("ask", "Who?", "--program", "rag", "--set", f"{EVIL}=1", "--index", index, "--lm", "simulated"),
        ("ask", "Who?", "--program", "rag", "--index", named, "--lm", "simulated"),
        ("ask", "Who?", "--artifact", named),
        ("compare", named),
        ("review", "resume", named, "--reviewer", EVIL),
        ("review", "import", named, "--out", named),
        ("data", "convert", f"x{EVIL}", named, "--out", tmp_path / "out"),
    ):
        assert safe(*command)[0] == 2, command


def test_a_review_in_the_terminal_shows_escapes(safe, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda: "q")
    code, text = safe(
        "review",
        "keyfacts",
        corpus / "questions.jsonl",
        "--out",
        tmp_path / "review",
        "--reviewer",
        "Ann",
        "--terminal",
    )
    assert code == 0
    assert "[bold]x[/bold]" in text


def calls(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.slow
def test_nothing_prints_past_the_common_place():
    """Whoever prints in another way could forget the escapes and the keys."""
    direct = {"print", "typer.echo", "typer.secho", "click.echo", "sys.stdout.write", "sys.stderr.write", "Console",
              "rich.print", "rich.console.Console"}  # fmt: skip
    found = []
    for package in ("signatures", "corpora", "programs", "optimizers", "experiments"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name not in PRINTERS and not name.startswith(OWN_OUTPUT):
                found += [f"{name}: {call}" for call in calls(path) if call in direct]
    assert found == []
