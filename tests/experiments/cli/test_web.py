"""The web in every command that retrieves: live on a loopback server, then from the recording with the server off."""

import json
import signal
import subprocess
import sys
import threading

import pytest

import verihop as library
from signatures.common.errors import UserError
from tests.forked import RUN
from tests.web_site import KEY, Site, read_at_once

SIMULATED = ("--lm", "simulated", "--quiet")
QUESTION = "Where was Ilse Varrow born?"


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    monkeypatch.setattr("corpora.web.retriever.run_in_processes", read_at_once)
    running = Site()
    running.page("/varrow", "<title>Varrow</title><p>Ilse Varrow was born in Tolmen.</p>")
    running.page("/rivers", "<title>Rivers</title><p>The Ossa ends in Lake Marn.</p>")
    yield running
    running.close()


@pytest.fixture
def toml(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return site.toml(tmp_path / "own.toml", headers={"X-Key": "${OWN_KEY}"})


def test_search_records_and_replays(verihop, site, toml, tmp_path):
    code, out, err = verihop("search", QUESTION, "--retriever", toml, "--index", "recording")
    assert (code, "own: rank 1, bm25: rank 1" in out, f"127.0.0.1, {site.base}/varrow" in out) == (0, True, True), err
    live = verihop("search", QUESTION, "--retriever", toml, "--index", "recording", "--json")[1]
    site.close()
    code, out, _ = verihop("search", QUESTION, "--index", "recording", "--json")
    assert (code, out) == (0, live)
    code, _, err = verihop("search", "trout", "--index", "recording")
    assert (code, err.count("\n"), "contains no search for 'trout'" in err) == (2, 1, True)
    code, _, err = verihop("search", "trout", "--index", "recording", "--retriever", toml)
    assert (code, err.count("\n"), "check address and network" in err) == (2, 1, True)


def test_doctor_and_score_read_a_recording(verihop, toml, tmp_path):
    from experiments.pipeline.doctor import check_index
    from experiments.pipeline.scoring.passage_texts import Corpus

    found = json.loads(verihop("search", QUESTION, "--retriever", toml, "--index", "recording", "--json")[1])
    said = check_index(tmp_path / "recording")
    assert (said.state, "1 searches, 2 pages recorded" in said.found) == ("ok", True)
    corpus, best = Corpus(index=tmp_path / "recording"), found["results"][0]["hits"][0]["passage"]
    assert corpus.fingerprints() == {found["retriever"]}
    assert corpus.find({best["id"], "none"})[best["id"]].text == best["text"]


def test_a_check_of_the_web_keeps_every_point(verihop, toml):
    code, out, err = verihop("search", "--check", "--retriever", toml, "--index", "recording", QUESTION)
    assert (code, "keeps 10 of 10 points" in err) == (0, True), out


@pytest.mark.slow
def test_a_run_is_repeated_with_the_server_off(verihop, forked, site, toml, tmp_path, world):
    web = ("--program", "webglm", "--set", "k=2", *SIMULATED, "--limit", 3)
    asked = ("eval", world / "questions.jsonl", *web)
    # Its processes open the embedder, and the process of the tests may have deleted one: see `model_opened`.
    live = ("--retriever", toml, "--index", tmp_path / "recording", "--out", tmp_path / "live", "--processes", 2)
    done = forked.run(RUN, *asked, *live)
    assert done.returncode == 0, done.stderr
    site.close()
    assert verihop(*asked, "--index", "recording", "--out", "again")[0] == 0
    runs = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("live", "again")]
    assert runs[0]["corpus"] == runs[1]["corpus"]
    assert runs[0]["corpus"]["fingerprint"].startswith("web:own-")
    rows = [[json.loads(line) for line in (tmp_path / name / "rows.jsonl").open()] for name in ("live", "again")]
    found = [[(row["id"], row["answer"], row["passage_ids"]) for row in of] for of in rows]
    assert sorted(found[0]) == sorted(found[1])
    assert any(ids for _, _, ids in found[0])
    everything = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in everything if KEY.encode() in file.read_bytes()] == []


def test_artifacts_remember_the_recording_and_nothing_live(verihop, site, toml, tmp_path, world):
    train = (world / "questions.jsonl", "--split", "train", "--limit", 4)
    compiled = ("compile", *train, "--program", "rag", *SIMULATED, "--out", "made")
    code, _, err = verihop(*compiled, "--retriever", toml, "--index", "recording")
    assert code == 0, err
    verihop("search", QUESTION, "--retriever", toml, "--index", "recording")
    site.close()
    code, out, err = verihop("ask", "--artifact", "made", *SIMULATED[:2], QUESTION, "--json")
    assert (code, json.loads(out)["passages"][0]["title"]) == (0, "Varrow"), err
    path = tmp_path / "recording" / "web.json"
    path.write_text(path.read_text().replace('"words": 100', '"words": 90'))
    code, _, err = verihop("ask", "--artifact", "made", *SIMULATED[:2], QUESTION)
    assert (code, "not the one it was compiled on" in err) == (2, True)


def test_python_takes_it_as_any_index(site, toml, tmp_path):
    live = library.open_index("recording", retriever=str(toml))
    found = live(QUESTION, 1)
    assert found[0].title == "Varrow"
    site.close()
    program = library.load(program="rag", index="recording", lm="simulated", rerank="own-light", sentences=2)
    assert program(QUESTION).passages[0].title == "Varrow"
    assert library.load(program="rag", index=live, lm="simulated")(QUESTION).passages[0].title == "Varrow"
    with pytest.raises(UserError, match="use own-light"):
        library.open_index("recording", rerank="own")


def test_the_embedded_lm_gets_no_reranker_that_searches_with_passages(toml, tmp_path):
    from experiments.pipeline.setup import with_defaults
    from experiments.runs.specs import ProgramSpec
    from programs.lms.spec import LMSpec

    library.open_index("recording", retriever=str(toml))
    for retriever in (str(toml), "web", None):
        named = ProgramSpec(program="rag", index=tmp_path / "recording", retriever=retriever)
        chosen = with_defaults(named, LMSpec(id="embedded"))
        assert (chosen.program.preset, chosen.program.rerank) == ("small", None)


def test_a_service_answers_from_the_web(site, toml):
    from experiments.service.served import about, index_folder

    opened = library.load(program="rag", index="recording", retriever=str(toml), lm="simulated")
    opened.warm()
    assert site.searched == []
    assert (index_folder(opened), about(opened, reload=True)["index"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--retriever", "serper", "--index", "new"), "needs the variable SERPER_API_KEY"),
        (("--retriever", "serper"), "name the folder for it"),
        (("--retriever", "missing.toml", "--index", "new"), "missing.toml cannot be read"),
        (("--retriever", "web", "--index", "new"), "is not a recording of the web"),
        (("--retriever", "bm25", "--index", "recording"), "Unknown search engine 'bm25'"),
    ],
)
def test_mistakes_are_one_line(verihop, toml, monkeypatch, options, said):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    verihop("search", QUESTION, "--retriever", toml, "--index", "recording")
    code, _, err = verihop("search", QUESTION, *options)
    assert (code, err.count("\n"), said in err) == (2, 1, True), err


def test_two_recordings_are_the_two_tools_of_a_table(verihop, site, toml, tmp_path, world):
    from experiments.papers.tables.plan import Request, cells_of
    from experiments.papers.tables.spec import read_table
    from programs.lms.spec import LMSpec

    for name in ("bing", "chrome"):
        verihop("search", QUESTION, "--retriever", toml, "--index", f"{name}-recording")
    tools = {name: f"{name}-recording" for name in ("bing", "chrome")}
    request = Request(lm=LMSpec(id="simulated"), data="world", work=tmp_path / "work", retrievers=tools, limit=2)
    cells = [cell for cell in cells_of(read_table("cov_rag", "table7"), request) if cell.setting.retriever]
    assert {str(cell.program.index) for cell in cells} == {"bing-recording", "chrome-recording"}
    assert {(cell.program.retriever, cell.missing) for cell in cells} == {(None, None)}
    assert len({cell.hash for cell in cells}) == 2
    code, _, err = verihop(
        "reproduce", "cov_rag", "--table", 7, "--tool", "bing=bing-recording", "--tool", "chrome=nowhere",
        "--data", "world", "--lm", "simulated", "--work", "work", "--limit", 2, "--estimate",
    )  # fmt: skip
    assert (code, "a recording of the web in nowhere" in err, "retriever bing" in err) == (0, True, False), err


@pytest.mark.slow
def test_ctrl_c_ends_a_search_that_waits_for_a_page(site, toml, tmp_path):
    hanging = threading.Event()

    def hang(handler):
        hanging.set()
        site.closed.wait(60)

    site.acting("/hang", hang)
    words = [sys.executable, "-m", "verihop", "search", QUESTION, "--retriever", "own.toml", "--index", "recording"]
    toml.write_text(toml.read_text() + "timeout = 60\n")
    running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert hanging.wait(60)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=50)
    assert (running.returncode, "Traceback" in err) == (130, False), err
    assert list((tmp_path / "recording" / "pages").iterdir()) == []
