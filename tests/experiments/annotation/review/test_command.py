"""`verihop review` as people use it: the page until Ctrl-C, the terminal, out, in and what it tells."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from experiments.annotation.review.review_folder import read_decisions
from experiments.cli.main import main


@pytest.fixture
def review(monkeypatch, capsys):
    """Return a function that runs `verihop review ...` and returns (exit code, standard output, standard error)."""

    def run(*arguments, typed: tuple[str, ...] = ()) -> tuple[int, str, str]:
        left = list(typed)

        def answer() -> str:
            if not left:
                raise KeyboardInterrupt
            return left.pop(0)

        monkeypatch.setattr(sys, "argv", ["verihop", "review", *map(str, arguments)])
        monkeypatch.setattr("builtins.input", answer)
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        return (code, *capsys.readouterr())

    return run


def test_key_facts_from_the_terminal_to_the_benchmark_file(review, questions, tmp_path):
    folder, out = tmp_path / "review", tmp_path / "reviewed.jsonl"
    command = ("keyfacts", questions, "--out", folder, "--reviewer", "Ann Lee", "--terminal")
    code, said, noted = review(*command, typed=("a", "e", "Pell grew up in Vadley town."))  # then Ctrl-C
    assert code == 0
    assert "Saved: 2 of 4 items decided by Ann Lee" in said
    assert f"Next: verihop review resume {folder} --reviewer 'Ann Lee'" in noted
    assert "Excluded: 1 questions without key facts." in noted

    code, _, noted = review("export", folder, "--out", out)
    assert (code, noted.count("\n")) == (2, 1)
    assert "2 key facts are undecided" in noted

    code, said, _ = review("resume", folder, "--reviewer", "ann lee", "--terminal", typed=("r", "a"))
    assert "4 of 4 items decided by Ann Lee" in said
    code, said, _ = review("resume", folder, "--reviewer", "Bo", "--terminal", "--json")
    assert json.loads(said) == {"folder": str(folder), "reviewer": "Bo", "decided": 0, "items": 0}
    code, said, _ = review("export", folder, "--out", out, "--json")
    assert json.loads(said) == {
        "file": str(out), "questions": 3, "accepted": 2, "edited": 1, "rejected": 1, "undecided": 0,
    }  # fmt: skip
    assert "Vadley town" in out.read_text()
    assert review("export", folder, "--out", out)[0] == 2
    assert review("export", folder, "--ratings", "--out", tmp_path / "ratings.csv")[0] == 0


def test_two_rate_and_the_numbers_are_told(review, make_run, make_row, tmp_path):
    rows = [make_row(f"q{n}", "Vadley.", float(n > 1)) for n in range(4)]
    run, folder = make_run("one", *rows), tmp_path / "rated"
    command = ("answers", run, "--scale", "stepwise", "--out", folder, "--terminal")
    assert review(*command, "--reviewer", "Ann", typed=("1", "2", "3", "3"))[0] == 0
    assert review("export", folder, "--out", tmp_path / "ann.csv")[0] == 0
    bo = (tmp_path / "ann.csv").read_text().replace(",Ann,", ",Bo,")
    (tmp_path / "bo.csv").write_text(bo)
    code, said, _ = review("import", tmp_path / "bo.csv", "--out", folder, "--scale", "stepwise")
    assert (code, said) == (0, "4 ratings added, 0 already present, 0 blank lines.\n")
    assert review("import", tmp_path / "bo.csv", "--out", folder, "--scale", "hops")[0] == 2

    code, said, _ = review("agreement", folder, "--json")
    told = json.loads(said)
    assert told["between"]["pairs"][0]["kappa"] == {"value": 1.0, "n": 4, "undefined": None}
    assert told["metrics"][0]["systems"]["pearson"]["value"] is None
    code, said, _ = review("agreement", folder, "--run", run)
    assert code == 0
    assert "Ann, Bo" in said
    assert "undefined" in said


def test_runs_whose_names_begin_alike_can_be_told_apart(review, make_run, make_row, tmp_path):
    runs = [make_run(name, make_row("q1", "Vadley.", 1.0)) for name in ("reading_with_rag", "reading_with_genground")]
    command = ("answers", *runs, "--scale", "completeness", "--out", tmp_path / "rated", "--terminal")
    assert review(*command, "--reviewer", "Ann", typed=("1", "2"))[0] == 0
    said = review("agreement", tmp_path / "rated")[1]
    first = "".join(line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│"))
    assert "reading_with_rag" in first
    assert "reading_with_genground" in first


def test_bad_lines_of_a_csv_are_named_and_the_exit_code_says_so(review, keyfacts, tmp_path):
    path = tmp_path / "rated.csv"
    path.write_text(f"item,reviewer,value\n{next(iter(keyfacts.items))},Ann,accept\nnope,Ann,accept\n")
    code, said, noted = review("import", path, "--out", keyfacts.folder)
    assert code == 2
    assert said.startswith("1 ratings added")
    assert f"{path}, line 3: there is no item 'nope'" in noted


@pytest.mark.slow
def test_the_page_is_served_until_ctrl_c_and_says_how_to_go_on(questions, tmp_path):
    folder = tmp_path / "review"
    command = [sys.executable, "-m", "experiments.cli.main", "review", "keyfacts", str(questions), "--out", str(folder)]
    process = subprocess.Popen(
        [*command, "--reviewer", "Ann", "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        address = process.stdout.readline().removeprefix("Review at ").strip()
        with urllib.request.urlopen(f"{address}session", timeout=20) as answer:
            item = json.load(answer)["cards"][0]["items"][0]["id"]
        body = json.dumps({"item": item, "value": "reject"}).encode()
        request = urllib.request.Request(f"{address}decisions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["value"] == "reject"
        second = subprocess.run([*command, "--reviewer", "Bo"], capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert "Another process is reviewing" in second.stderr
        process.send_signal(signal.SIGINT)
        said, noted = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Saved: 1 of 4 items decided by Ann" in said
    assert f"Next: verihop review resume {folder} --reviewer Ann" in noted
    assert "Traceback" not in noted
    assert [one.value for one in read_decisions(folder)] == ["reject"]
    assert not (folder / "review.lock").exists()


def test_a_scale_that_is_none_is_one_message(review, tmp_path):
    code, _, noted = review("answers", tmp_path, "--scale", "stars", "--out", tmp_path / "r", "--reviewer", "Ann")
    assert code == 2
    assert all(name in noted for name in ("stars", "helpful", "completeness", "stepwise", "hops"))


@pytest.mark.parametrize("command", ["", "keyfacts", "answers", "resume", "export", "import", "agreement"])
def test_every_command_has_help(review, command):
    code, said, noted = review(*filter(None, [command]), "--help")
    assert (code, noted) == (0, "")
    assert "Usage: verihop review" in said
