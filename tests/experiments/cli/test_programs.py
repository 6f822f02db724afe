"""`verihop programs`: the list, one program in full, and an unknown name."""

import json

import pytest

from programs.listing import listed


def test_the_list_names_family_and_year(verihop):
    code, out, _ = verihop("programs")
    assert code == 0
    assert "genground: Generate-then-Ground: " in out
    assert "    family: multi step, 2024" in out.splitlines()  # multihop


def test_a_program_is_shown_with_steps_prompts_presets_and_the_meaning_of_its_knobs(verihop, tmp_path, monkeypatch):
    (tmp_path / "runs" / "index").mkdir(parents=True)
    (tmp_path / "runs" / "index" / "index.json").touch()
    monkeypatch.chdir(tmp_path)
    code, out, err = verihop("programs", "genground")
    lines = out.splitlines()
    assert code == 0
    assert any(line.startswith("    2. Ground: retrieve k passages") for line in lines)
    assert "    Prompt of deduction: hops, question -> finished, sub_question, answer" in lines
    assert "    --preset code: k=9 batch_size=3 max_hops=7 early_stop=False" in lines
    assert "    --set k=10 (1..20): Passages retrieved per hop (paper: 10)." in lines
    assert "rag: " not in out
    assert "verihop ask --program genground --index runs/index" in err
    assert not any(line != line.rstrip() for line in lines)


def test_lists_and_programs_fit_80_columns(verihop):
    for words in (("programs",), ("programs", "cov_rag"), ("programs", "retro_rag"), ("optimizers",)):
        lines = verihop(*words)[1].splitlines()
        assert [line for line in lines if len(line) > 80] == [], words


@pytest.mark.slow
def test_every_knob_is_shown_with_default_range_and_meaning(verihop):
    listed = json.loads(verihop("programs", "--json")[1])
    for name, row in listed.items():
        shown = " ".join(verihop("programs", name)[1].split())
        for knob, about in row["knobs"].items():
            space = f" ({about['space']})" if about["space"] else ""
            assert f"--set {knob}={about['default']}{space}: {' '.join(about['meaning'].split())}" in shown, name


def test_as_json_one_program_is_the_row_of_the_table(verihop):
    _, out, _ = verihop("programs", "cot", "--json")
    _, everything, _ = verihop("programs", "--json")
    assert json.loads(out) == {"cot": json.loads(everything)["cot"]}


def test_an_unknown_program_is_one_line_with_the_nearest_name(verihop):
    code, _, err = verihop("programs", "gengruond")
    assert code == 2
    assert "genground" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["programs", ""], ["check", *listed()]),
        (["programs", "ge"], ["genread", "genground"]),
        (["programs", "check", "co"], ["cot", "cot_sc", "cov_rag", "corag"]),
        (["ask", "--program", "rr"], ["rrr"]),
        (["distill", "synthesize", "--program", "rr"], ["rrr"]),
        (["optimizers", "--program", "rr"], ["rrr"]),
        (["programs", "--js"], ["--json"]),
    ],
)
def test_a_shell_completes_names_of_programs(verihop, monkeypatch, words, completed):
    monkeypatch.setenv("_VERIHOP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("verihop", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    code, out, _ = verihop()
    assert (code, out.split()) == (0, completed)
