"""The pages of a leaderboard: what is written, and how they behave in a real browser."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from corpora.index.build import build_index
from corpora.passages import corpus_hash, write_passages
from experiments.analysis.boards import read_boards
from experiments.analysis.report.html import commands_of
from experiments.analysis.report.leaderboard import HASHES, write_leaderboard
from signatures.common.errors import UserError
from signatures.types import Passage

Make = Callable[..., Path]
NAMES = ("rag", "ircot", "standard")


def _described(folder: Path, name: str) -> Path:
    """Name the program of a run of the toy, and make it as dear and as good as its name says."""
    run = json.loads((folder / "run.json").read_text())
    run["program"]["name"] = name
    run |= {"command": f"verihop eval /home/someone/q.jsonl --program {name}", "index": {"corpus_hash": "c" * 64}}
    run["lm"]["weights_hash"] = "a" * 64
    (folder / "run.json").write_text(json.dumps(run))
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for place, row in enumerate(sorted(rows, key=lambda row: row["id"])):
        row["prompt_tokens"] *= {"rag": 10, "ircot": 40, "standard": 1}[name]
        better = {"rag": place % 2, "ircot": place % 4 > 0, "standard": place == 0}[name]
        row["scores"] |= {"em": float(better), "f1[hotpot]": float(better)}
        if name == "standard":
            row["passage_ids"] = []
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def runs(toy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs on 40 questions of one set, of which two answered 8 of another."""
    above = tmp_path_factory.mktemp("runs")
    folders = []
    for name, board, n in [(name, "large", 40) for name in NAMES] + [(name, "small", 8) for name in NAMES[:2]]:
        folder = above / board / name
        metrics = ["em", "f1[hotpot]", "passage_recall@2"]
        toy.run(toy.Toy(), toy.questions(n), connection=toy.link(toy.Engine()), folder=folder, metrics=metrics)
        folders.append(_described(folder, name))
    return folders


@pytest.fixture(scope="module")
def site(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_leaderboard(read_boards(runs), tmp_path_factory.mktemp("out") / "site").parent


def test_a_folder_has_the_table_the_answers_and_the_hashes(site: Path, runs: list[Path]) -> None:
    rows = {f"{board}.{name}.html" for board, names in (("large", NAMES), ("small", NAMES[:2])) for name in names}
    assert {path.name for path in site.iterdir()} == {"index.html", "hashes.json", "large.html", "small.html", *rows}
    page = (site / "index.html").read_text()
    for text in ("large: 40 questions", "minus rag", "closed book", "majority answer", "n = 8 is too small", "a" * 64):
        assert text in page, text
    assert '<p class="soft">answers: ' in page
    assert "verihop eval q.jsonl --program ircot" in page
    assert "/home/someone" not in page
    assert set(re.findall(r'href="([^"#]*)"', page)) == {"hashes.json", "large.html", "small.html", *rows}
    hashes = json.loads((site / "hashes.json").read_text())["boards"]["large"]
    (row,) = [own for own in map(json.loads, (runs[0] / "rows.jsonl").read_text().splitlines()) if own["id"] == "id0"]
    asked = json.dumps([row["question"], row["answers"], row["gold_ids"]])
    assert (len(hashes["each"]), hashes["each"]["id0"]) == (40, hashlib.sha256(asked.encode()).hexdigest()[:16])
    assert hashes["questions"]["sha256"] == json.loads((runs[0] / "run.json").read_text())["questions"]["sha256"]
    assert hashes["runs"]["rag"]["corpus"] == "c" * 64


def test_the_page_of_a_run_says_right_by_the_score_of_its_table(
    runs: list[Path], unpack: Callable[[str, str], Any], tmp_path: Path
) -> None:
    """Before, by an accuracy that this run alone has."""
    folders = [_copied(run, tmp_path / run.name) for run in runs[:2]]
    description = json.loads((folders[0] / "run.json").read_text())
    description["metrics"]["acc[substring]"] = "Own."
    (folders[0] / "run.json").write_text(json.dumps(description))
    rows = [json.loads(line) for line in (folders[0] / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        row["scores"] |= {"em": 0.0, "acc[substring]": 1.0}
    (folders[0] / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (board,) = read_boards(folders)
    site = write_leaderboard([board], tmp_path / "site").parent
    page = (site / f"{tmp_path.name}.rag.html").read_text()
    names = unpack(page, "index")["outcomes"]
    assert "right" not in {names[own[5]] for _, _, _, of in unpack(page, "index")["questions"] for own in of}
    assert "Outcome by em" in page


def test_hashes_of_passages_are_written_where_the_index_or_the_file_is(runs: list[Path], tmp_path: Path) -> None:
    corpus = tmp_path / "passages.jsonl"
    texts = {f"p{n}": f"A secret text {n}." for n in range(3)}
    write_passages(corpus, [Passage(id=name, title="T", text=text) for name, text in texts.items()])
    digest, folder = corpus_hash(corpus), tmp_path / "index"
    each = {name: hashlib.sha256(json.dumps(["T", text]).encode()).hexdigest()[:16] for name, text in texts.items()}
    run = _copied(runs[0], tmp_path / "run")
    description = json.loads((run / "run.json").read_text())
    description |= {"index": {"corpus_hash": digest, "passages": 3}, "paths": {"index": str(folder)}}
    (run / "run.json").write_text(json.dumps(description))

    def pool(**options: Any) -> Any:
        page = write_leaderboard(read_boards([run]), tmp_path / "site", **options)
        text = (page.parent / HASHES).read_text()
        assert "secret text" not in text
        assert str(tmp_path) not in text
        return json.loads(text)["corpora"][digest]

    assert pool()["passages"] == 3
    assert "index was not found" in pool()["why"]
    assert pool(corpora=[corpus]) == {"passages": 3, "each": each}
    build_index(corpus, folder, retriever="bm25")
    assert pool() == {"passages": 3, "each": each}
    write_passages(corpus, [Passage(id="p", title="T", text="another")])
    with pytest.raises(UserError, match="not the corpus of any run"):
        pool(corpora=[corpus])
    build_index(corpus, folder, retriever="bm25", overwrite=True)
    assert "index was not found" in pool()["why"]  # what lies there now is another
    description["index"]["passages"] = 100_001
    (run / "run.json").write_text(json.dumps(description))
    assert pool() == {"passages": 100_001, "why": "it has more than 100,000 passages"}


def test_each_board_has_the_outcomes_of_its_runs(site: Path, runs: list[Path], tmp_path: Path) -> None:
    page = (site / "index.html").read_text()
    assert page.count("What became of the questions") == 2
    tables = [table.split("</table>")[0] for table in page.split("<table")[1:]]
    tables = [table for table in tables if "recall conversion" in table]
    assert re.findall(r'<a href="#([^"]*)">', tables[0]) == ["large.ircot", "large.rag", "large.standard"]
    assert [len(re.findall('class="bar stacked"', table)) for table in tables] == [3, 2]
    assert '<td data-name="right" data-v="0.75">75.0</td>' in tables[0]
    copy = _copied(runs[3], tmp_path / "run")
    description = json.loads((copy / "run.json").read_text())
    del description["metrics"]["em"]
    (copy / "run.json").write_text(json.dumps(description))
    assert "What became" not in write_leaderboard(read_boards([copy]), tmp_path / "site").read_text()


def test_an_opened_row_has_its_difference_within_each_kind_of_questions(runs: list[Path], tmp_path: Path) -> None:
    copies = [_copied(run, tmp_path / "large" / run.name) for run in runs[:2]]
    for copy in copies:
        rows = [json.loads(line) for line in (copy / "rows.jsonl").read_text().splitlines()]
        for row in rows:
            row["type"] = "comparison" if int(row["id"].removeprefix("id")) % 2 else "bridge"
        (copy / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    boards = read_boards(copies)
    page = write_leaderboard(boards, tmp_path / "site").read_text()
    lines = {kind: of["f1[hotpot]"][1] for kind, of in boards[0].comparison.kinds.items()}
    for kind in ("composed", "comparison"):
        difference = lines[kind].against_first
        assert f"<dt>f1[hotpot], {kind}, minus rag</dt><dd>{100 * difference.difference:+.1f} (" in page
        assert page.count(f"<dt>f1[hotpot], {kind}</dt>") == 2
    assert "minus rag</dt>" not in write_leaderboard(read_boards(runs[:2]), tmp_path / "without").read_text()


def test_only_a_folder_of_a_leaderboard_is_written_again(runs: list[Path], site: Path, tmp_path: Path) -> None:
    boards = read_boards(runs[:2])
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="contains other files"):
        write_leaderboard(boards, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(UserError, match="cannot be written"):
        write_leaderboard(boards, tmp_path / "notes.txt")
    before = (site / "index.html").read_text()
    assert write_leaderboard(read_boards(runs), site) == site / "index.html"
    made = re.compile(r"written [^.]*")
    assert made.sub("", (site / "index.html").read_text()) == made.sub("", before)


def test_a_strangers_hashes_make_no_leaderboard(runs: list[Path], tmp_path: Path) -> None:
    for text in ("{}", "[]", "no JSON", '{"schema": 1, "boards": []}'):
        (tmp_path / "hashes.json").write_text(text)
        with pytest.raises(UserError, match="contains other files"):
            write_leaderboard(read_boards(runs[:1]), tmp_path)
    assert (tmp_path / "hashes.json").read_text() == text


def test_pages_that_would_be_left_over_are_deleted_and_nothing_else(runs: list[Path], tmp_path: Path) -> None:
    site = write_leaderboard(read_boards(runs), tmp_path / "site").parent
    kept = [tmp_path / "mine.html", site / "mine.html", site / "notes.txt", site / "index.html"]
    for path in kept:
        path.write_text("mine")
    written = json.loads((site / "hashes.json").read_text())
    written["boards"] |= {"x": {"pages": ["../mine.html", str(tmp_path / "mine.html"), "notes.txt", "index.html", 1]}}
    written["boards"] |= {"y": [], "z": {"pages": "mine.html"}}
    (site / "hashes.json").write_text(json.dumps(written))
    write_leaderboard(read_boards(runs[3:4]), site)
    names = {"index.html", "hashes.json", "small.rag.html", "mine.html", "notes.txt"}
    assert {path.name for path in site.iterdir()} == names
    assert all(path.read_text() == "mine" for path in kept[:3])


def _named(folder: Path, program: str, **lm: Any) -> Path:
    description = json.loads((folder / "run.json").read_text())
    description["program"]["name"] = program
    description["lm"].update(lm)
    (folder / "run.json").write_text(json.dumps(description))
    return folder


def test_the_overview_joins_only_what_is_the_same_program_and_lm(runs: list[Path], tmp_path: Path) -> None:
    large, small = runs[0], runs[3]
    others: dict[str, tuple[str, dict[str, Any]]]
    others = {"a": ("ircot", {}), "b": ("rag", {"id": "big"}), "c": ("rag", {"weights_hash": "b" * 64})}
    found = []
    for name, (program, lm) in others.items():
        copies = [_copied(run, tmp_path / name / run.parent.name / name) for run in (large, small)]
        found += [copies[0], _named(copies[1], program, **lm)]
    page = write_leaderboard(read_boards([*found, large, small]), tmp_path / "site").read_text()
    table = page.split("</table>")[0]
    labels = re.findall(r'<th scope="row"[^>]*>([^<]*)</th>', table)
    of_c = ["c, weights aaaaaaaa", "c, weights bbbbbbbb"]
    assert sorted(labels) == ["a, ircot", "a, rag", "b, big", "b, scripted", *of_c, "rag"]


def test_keys_of_strangers_are_on_no_page(runs: list[Path], tmp_path: Path) -> None:
    key, password = "sk-abcdefghijklmnop123456", "hunter2"
    command = f"verihop eval q --lm-option api_key={key} --api-base http://bob:{password}@host/v1"
    found = []
    for name, token in (("rag", key), ("other", f"{key}7")):
        folder = _named(_copied(runs[0], tmp_path / name), "rag", settings={"extra": [{"api_key": token}], "note": key})
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "command": f"{command} {token}"}))
        found.append(folder)
    boards = read_boards(found)
    write_leaderboard(boards, tmp_path / "site")
    texts = [path.read_text() for path in (tmp_path / "site").iterdir()] + [json.dumps(boards[0].as_dict())]
    assert not [text for text in texts if key in text or password in text]


def test_a_single_run_and_runs_without_rag_have_a_page(runs: list[Path], tmp_path: Path) -> None:
    page = write_leaderboard(read_boards(runs[2:3]), tmp_path / "one").read_text()
    assert "minus" not in page
    assert "side by side" not in page
    page = write_leaderboard(read_boards(runs[1:3]), tmp_path / "two").read_text()
    assert "No run is of rag: differences are to ircot." in page


def test_names_of_files_are_safe_and_differ(runs: list[Path], toy: ModuleType, tmp_path: Path) -> None:
    names = ["Run", "run", "../x".replace("/", "\N{DIVISION SLASH}"), "index", "ä ö"]
    folders = [_described(_copied(runs[0], tmp_path / "index" / name), "rag") for name in names]
    for folder in folders:
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "paths": {"questions": "../../index/questions.jsonl"}}))
    write_leaderboard(read_boards(folders), tmp_path / "site")
    pages = {path.name for path in (tmp_path / "site").iterdir()}
    assert pages == {
        "index.html", "hashes.json", "index-2.html", "index-2.Run.html", "index-2.run-2.html", "index-2.x.html",
        "index-2.index.html", "index-2.unnamed.html",
    }  # fmt: skip


def test_the_commands_of_a_run_are_those_of_its_parts_without_where_files_lie() -> None:
    parts = [{"command": f"verihop eval /a/b/q.jsonl --shard {n}/2"} for n in (1, 2)]
    merged = ["verihop eval q.jsonl --shard 1/2", "verihop eval q.jsonl --shard 2/2"]
    assert commands_of({"merged": {"parts": [*parts, {}, parts[0]]}}) == merged
    assert commands_of({"command": "verihop eval q"}) == ["verihop eval q"]
    assert commands_of({}) == []


def test_what_is_beyond_all_bounds_is_drawn_at_the_edge_and_what_is_missing_left_out(
    runs: list[Path], tmp_path: Path
) -> None:
    folder = _copied(runs[3], tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        row["scores"]["f1[hotpot]"] = 1.0
        row["prompt_tokens"] = 1e15
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    description = json.loads((folder / "run.json").read_text())
    del description["git_revision"], description["program"]["artifact_sha256"]
    description["judge"] = None
    (folder / "run.json").write_text(json.dumps(description))
    page = write_leaderboard(read_boards([folder]), tmp_path / "site").read_text()
    assert 'cy="14.0"' in page
    assert len(page) < 100_000


def _copied(run: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    for path in run.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_hostile_text_stays_text(run: Make, nasty: str, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", hostile=True).rename(tmp_path / os.fsdecode(b"a&b<i>\xff"))
    text = json.loads((folder / "run.json").read_text())
    text["program"] |= {"name": nasty, "knobs": {nasty: nasty}}
    text["lm"] |= {"id": nasty, "model": nasty, "weights_hash": nasty}
    text |= {"command": nasty, "notes": [nasty], "started": nasty, "paths": {"questions": f"{nasty}/questions.jsonl"}}
    text["metrics"] = {nasty: nasty, **text["metrics"]}
    (folder / "run.json").write_text(json.dumps(text))
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        row["stop_reason"] = nasty
        row["scores"][nasty] = 0.5
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = write_leaderboard(read_boards([folder]), tmp_path / "site").read_text()
    assert "<img" not in page
    assert "<i>" not in page.replace('<div class="bar"><i ', "")
    assert page.count("<script>") == 1
    assert page.count("&lt;img src=x") >= 10
    assert page.split("recall conversion")[1].count("&lt;img src=x") >= 1  # found by its program


TABLE = "document.querySelectorAll('table.board')[{}]"
ORDER = "[...{table}.tBodies].filter((b) => b.id && !b.hidden).map((b) => b.id.split('.')[1])"


def order(browser: Any, table: int = 1) -> list[str]:
    return list(browser.run(ORDER.format(table=TABLE.format(table))))


def head(name: str, table: int = 1) -> str:
    heads = f"[...{TABLE.format(table)}.tHead.querySelectorAll('button')]"
    return f"{heads}.find((b) => b.textContent === '{name}')"


@pytest.fixture
def shown(browser: Any, site: Path) -> Any:
    browser.problems.clear()
    browser.size(1280, 900)
    browser.open("about:blank")
    browser.open((site / "index.html").as_uri())
    yield browser
    assert browser.problems == []


def test_columns_are_sorted_by_mouse_and_keyboard(shown: Any) -> None:
    assert order(shown) == ["ircot", "rag", "standard"]
    sorted_ = f"{head('tokens')}.parentElement.getAttribute('aria-sort')"
    shown.click(head("tokens"))
    assert (order(shown), shown.run(sorted_)) == (["ircot", "rag", "standard"], "descending")
    shown.click(head("tokens"))
    assert (order(shown), shown.run(sorted_)) == (["standard", "rag", "ircot"], "ascending")
    shown.run(f"{head('run')}.focus()")
    shown.press("Enter")
    assert order(shown) == ["ircot", "rag", "standard"]
    shown.press("Enter")
    assert order(shown) == ["standard", "rag", "ircot"]
    assert shown.run(sorted_) is None
    shown.click(head("minus rag"))  # rag and the majority answer have no difference: last
    assert order(shown) == ["ircot", "standard", "rag"]
    shown.click(head("minus rag"))
    assert order(shown) == ["standard", "ircot", "rag"]


def test_rows_are_filtered(shown: Any) -> None:
    count = "document.getElementById('count').textContent"
    assert shown.run(count) == "5 of 5 runs"
    shown.press("/")
    shown.type("IRC")
    assert (shown.run(count), order(shown), order(shown, 3)) == ("2 of 5 runs", ["ircot"], ["ircot"])
    assert outcomes(shown) == ["ircot"]
    shown.run("(() => { const e = document.getElementById('filter'); e.select(); })()")
    shown.type("/")
    assert order(shown) == []


def outcomes(browser: Any) -> list[str]:
    """Return the labels shown in the table of outcomes of the first board."""
    shown = f"[...{TABLE.format(2)}.tBodies].filter((b) => !b.hidden).map((b) => b.rows[0].cells[0].innerText)"
    return list(browser.run(shown))


def test_outcomes_are_sorted_and_lead_to_their_row(shown: Any) -> None:
    assert outcomes(shown) == ["ircot", "rag", "standard"]
    shown.run(f"{head('recall conversion', 2)}.focus()")
    shown.press("Enter")
    assert outcomes(shown) == ["ircot", "rag", "standard"]  # nothing was read by standard: last
    shown.press("Enter")
    assert outcomes(shown) == ["rag", "ircot", "standard"]
    shown.click(f"{TABLE.format(2)}.querySelector('tbody a')")
    shown.wait("document.getElementById('large.rag').rows[1].hidden === false")


def test_a_row_opens_to_what_it_was_made_with_and_to_its_answers(shown: Any, site: Path) -> None:
    more = "document.getElementById('large.ircot').rows[1]"
    assert shown.run(f"{more}.hidden")
    shown.run("document.querySelector('#large\\\\.ircot button').focus()")
    shown.press("Enter")
    assert not shown.run(f"{more}.hidden")
    text = shown.run(f"{more}.innerText")
    for part in ("a" * 64, "c" * 64, "verihop eval q.jsonl", "passage_recall@2", "scripted"):
        assert part in text, part
    shown.follow(f"{more}.querySelector('a')")
    shown.wait("document.querySelectorAll('#list > .q').length === 40")
    assert shown.run("document.title") == "large: ircot"
    shown.click("document.querySelector('#list > .q > summary')")
    shown.wait("document.querySelector('.q[open] .answer')")


def test_a_point_of_the_plot_opens_its_row(shown: Any) -> None:
    points = "[...document.querySelectorAll('svg a')]"
    assert shown.run(f"{points}.length") == 5
    shown.click("document.getElementById('front')")
    assert order(shown) == ["ircot", "rag", "standard"]  # each is more expensive and better than the next
    shown.run("document.getElementById('filter').value = 'none'; document.getElementById('filter')"
              ".dispatchEvent(new Event('input', { bubbles: true }))")  # fmt: skip
    assert order(shown) == []
    shown.run(f"{points}.find((a) => a.getAttribute('href') === '#large.rag').focus()")
    shown.press("Enter")
    shown.wait("document.getElementById('large.rag').rows[1].hidden === false")
    assert order(shown) == ["ircot", "rag", "standard"]
    assert shown.run("document.activeElement.textContent") == "rag"


def test_a_phone_scrolls_tables_and_not_the_page(shown: Any) -> None:
    shown.size(390, 844)
    shown.click("document.querySelector('#large\\\\.rag button')")
    assert shown.run("document.documentElement.scrollWidth") <= 390
    box = shown.run("document.querySelector('#large\\\\.rag .more div').getBoundingClientRect().toJSON()")
    assert box["right"] <= 390
    bars = shown.run(f"[...{TABLE.format(2)}.querySelectorAll('.bar')].map((e) => e.getBoundingClientRect().right)")
    assert max(bars) <= 390  # seen before anything is scrolled
    card = f"{TABLE.format(1)}.parentElement"
    shown.run(f"{card}.scrollTo(10_000, 0)")
    assert shown.run("document.querySelector('#large\\\\.rag th').getBoundingClientRect().left") >= 0
    assert shown.run("document.querySelector('#large\\\\.rag td:last-child').getBoundingClientRect().right") <= 390


def test_nothing_is_cut_on_a_wide_screen(shown: Any) -> None:
    wide = "[...document.querySelectorAll('.card')].filter((card) => card.scrollWidth > card.clientWidth).length"
    assert shown.run(wide) == 0


def test_everything_is_there_without_scripts(shown: Any, site: Path) -> None:
    shown.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown.reload()
        hidden = "[...document.querySelectorAll('.more')].filter((row) => row.hidden).length"
        assert shown.run(hidden) == 0
        assert shown.run("document.getElementById('tools').hidden")
    finally:
        shown.send("Emulation.setScriptExecutionDisabled", value=False)
