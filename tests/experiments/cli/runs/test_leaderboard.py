"""`verihop leaderboard` makes a page of run folders alone; `--check` refuses what is not comparable."""

import gzip
import json

import pytest

import verihop as library
from corpora.passages import read_passages, write_passages
from corpora.questions import read_questions, write_questions
from signatures.common.errors import UserError


@pytest.fixture
def runs(verihop, world, tmp_path):
    """Return the folders of two programs on the same four questions, and of one on three of them."""
    found = []
    for name, n, words in (
        ("rag", 4, ("--index", world / "index")),
        ("standard", 4, ()),
        ("few", 3, ("--index", world / "index")),
    ):
        questions = tmp_path / f"{'some' if n == 3 else 'all'}" / "questions.jsonl"
        questions.parent.mkdir(exist_ok=True)
        write_questions(questions, read_questions(world / "questions.jsonl")[:n])
        program = ("--program", "rag" if name == "few" else name, *words)
        out = tmp_path / "runs" / name
        code, _, err = verihop("eval", questions, *program, "--lm", "simulated", "--metrics", "em", "--out", out, "-q")
        assert code == 0, err
        found.append(out)
    return found


def test_from_eval_to_a_page(runs, verihop, world, tmp_path):
    code, out, err = verihop("leaderboard", *runs, "--check", "--out", tmp_path / "site")
    assert (code, err.count("Note")) == (0, 0), err
    assert "all: 2 runs on 4 questions; highest em: standard" in out
    assert "some: 1 run on 3 questions" in out
    page = (tmp_path / "site" / "index.html").read_text()
    assert "verihop eval " in page
    assert " --program standard" in page
    assert str(tmp_path) not in page
    assert json.loads((world / "index" / "index.json").read_text())["corpus_hash"] in page
    assert (tmp_path / "site" / "all.standard.html").is_file()
    (board, other) = json.loads(verihop("leaderboard", *runs, "--check", "--json")[1])["boards"]
    assert (board["title"], board["ranked"], other["title"]) == ("all", ["standard", "rag"], "some")
    assert board["metrics"]["em"]["standard"]["against_first"]["p_holm"] <= 1


def test_a_site_says_by_hashes_whether_others_have_its_questions_and_pool(runs, verihop, world, tmp_path):
    assert verihop("leaderboard", *runs, "--out", tmp_path / "site", "-q")[0] == 0
    words = ("data", "verify", tmp_path / "site" / "hashes.json")
    mine, corpus = world / "questions.jsonl", world / "passages.jsonl"
    code, out, err = verihop(*words, "--questions", mine, "--corpus", corpus)
    assert (code, err) == (0, "")
    assert "questions of all: 4 the same" in out
    passages = list(read_passages(corpus))
    assert f": {len(passages)} the same" in out
    first, second, third, *rest = passages
    other = [first.model_copy(update={"text": "Changed."}), second.model_copy(update={"id": "mine"}), *rest]
    write_passages(tmp_path / "other.jsonl", other)
    code, out, _ = verihop(*words, "--corpus", tmp_path / "other.jsonl", "--json")
    (found,) = json.loads(out)["checked"]
    assert (code, found["same"], found["differ"]) == (2, len(rest), [first.id])
    assert (found["missing"], found["extra"], found["renamed"]) == ([second.id, third.id], ["mine"], 1)
    asked = read_questions(mine)
    write_questions(tmp_path / "q.jsonl", [asked[0].model_copy(update={"answers": ["x\x1b[31m"]}), *asked[1:3]])
    code, out, _ = verihop(*words, "--questions", tmp_path / "q.jsonl")
    assert (code, f"differ 1: {asked[0].id}" in out, f"missing 1: {asked[3].id}" in out) == (2, True, True)
    packed = tmp_path / "hashes.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "site" / "hashes.json").read_bytes()))
    assert verihop("data", "verify", packed, "--questions", mine)[0] == 0
    code, _, err = verihop("data", "verify", tmp_path / "none.json", "--questions", mine)
    assert (code, "none.json" in err, "Traceback" in err) == (2, True, False)


def test_what_is_no_file_of_hashes_is_refused(verihop, world, tmp_path):
    for text, word in (
        ("[]", "hashes.json"),
        ("{", "cannot be read"),
        ('{"schema": 1, "boards": {}, "corpora": {}}', "schema"),
    ):
        (tmp_path / "hashes.json").write_text(text)
        code, _, err = verihop("data", "verify", tmp_path / "hashes.json", "--corpus", world / "passages.jsonl")
        assert (code, word in err, "Traceback" in err) == (2, True, False)
    (tmp_path / "hashes.json").write_text('{"schema": 2, "boards": {}, "corpora": {}}')
    for option, name in (("--questions", "questions.jsonl"), ("--corpus", "passages.jsonl")):
        code, _, err = verihop("data", "verify", tmp_path / "hashes.json", option, world / name)
        assert (code, "published there" in err) == (2, True)
    assert verihop("data", "verify", tmp_path / "hashes.json")[0] == 2
    known = {"a" * 64: {"passages": 200_000, "why": "it has more than 100,000 passages"}}
    (tmp_path / "hashes.json").write_text(json.dumps({"schema": 2, "boards": {}, "corpora": known}))
    code, out, _ = verihop("data", "verify", tmp_path / "hashes.json", "--corpus", world / "passages.jsonl")
    assert (code, "another hash" in out, "more than 100,000" in out) == (2, True, True)


def test_rows_that_are_not_comparable_are_refused_or_named_on_the_page(runs, verihop, tmp_path):
    path = runs[1] / "run.json"
    description = json.loads(path.read_text())
    description["lm"]["settings"] = {**description["lm"].get("settings", {}), "top_p": 0.5}
    path.write_text(json.dumps(description))
    code, out, err = verihop("leaderboard", *runs, "--check", "--out", tmp_path / "site")
    assert (code, out) == (2, "")
    assert "Different top p of the LM: default (rag); 0.5 (standard)." in err
    assert not (tmp_path / "site").exists()
    code, _, err = verihop("leaderboard", *runs, "--out", tmp_path / "site")
    assert code == 0
    assert "Different top p of the LM" in err
    assert "Different top p of the LM" in (tmp_path / "site" / "index.html").read_text()
    with pytest.raises(UserError, match="top p"):
        library.leaderboard(runs, check=True)
    boards = library.leaderboard([str(run) for run in runs], str(tmp_path / "again"))
    assert [board.title for board in boards] == ["all", "some"]
    assert (tmp_path / "again" / "index.html").is_file()


def test_a_check_refuses_an_unfinished_run_below_a_folder(runs, verihop, tmp_path):
    """Before, `--check` left it out, as the page does, and ended with 0."""
    rows = runs[1] / "rows.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    code, out, err = verihop("leaderboard", tmp_path / "runs", "--check", "--out", tmp_path / "site")
    assert (code, out, (tmp_path / "site").exists()) == (2, "", False)
    assert "standard has 2 of 4 answers: finish it" in err
    with pytest.raises(UserError, match="2 of 4 answers"):
        library.leaderboard([tmp_path / "runs"], check=True)
    code, _, err = verihop("leaderboard", tmp_path / "runs", "--out", tmp_path / "site")
    assert (code, "Left out: " in err) == (0, True)


def test_a_page_needs_a_folder_and_runs(runs, verihop, tmp_path, following, monkeypatch):
    code, _, err = verihop("leaderboard", runs[0])
    assert (code, "--out" in err) == (2, True)
    code, _, err = verihop("leaderboard", tmp_path / "none", "--check")
    assert code == 2
    assert "is not the folder of a run" in err
    monkeypatch.chdir(tmp_path)
    for named, page in ((runs, "site"), ([runs[0].parent], "site-2")):
        words = ["verihop", "leaderboard", *map(str, named), "--out", page]
        assert following("leaderboard", *named, "--check") == [words]


def test_what_a_stranger_wrote_into_hashes_takes_one_reading_and_one_line(verihop, world, tmp_path, monkeypatch):
    """Before, the file was read once for each corpus there, and an id could print lines of its own."""
    from corpora.index import manifest

    read, real = [], manifest.corpus_hash
    monkeypatch.setattr(manifest, "corpus_hash", lambda path: read.append(path) or real(path))
    known = {str(number): {"each": {"x\npassages of corpus 0: 60 the same": "0"}} for number in range(3)}
    (tmp_path / "hashes.json").write_text(json.dumps({"schema": 2, "boards": {}, "corpora": known}))
    code, out, _ = verihop("data", "verify", tmp_path / "hashes.json", "--corpus", world / "passages.jsonl")
    assert (code, len(read), len(out.splitlines())) == (2, 1, 3)
    _, _, err = verihop("data", "verify", tmp_path / "gone.json", "--corpus", world / "passages.jsonl")
    assert "written again" not in err
