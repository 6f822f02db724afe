"""Artifacts that consist of artifacts: they freeze, load, and refuse children they were not frozen with."""

import json
import shutil

import dspy
import pytest

from programs.artifact import check_freezable, children_of, digest_of, freeze, load, read_artifact, verify
from programs.artifacts.record import Artifact
from programs.artifacts.state import KINDS, SINGLE
from programs.cascade import Cascade
from programs.catalog import PROGRAMS, build
from programs.ensemble import Ensemble
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.selective import Selective
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_bytes
from signatures.types import Hop, Passage
from tests.programs.fakes import Similar


def lengths():
    """Texts are alike if their lengths are."""
    return Similar(lambda one, other: 1 / (1 + abs(len(one) - len(other))), "lengths")


def reply(system, user):
    return {
        "answer": "Ansa Merrow",
        "reasoning": "r",
        "finished": True,
        "sub_question": "Who?",
        "evidence": "",
        "draft": "x",
    }


def nearest(retriever, similarity=None):
    hop = Hop(question="h?", answer="x", evidence="e", passage_ids=["1"])
    step = {"augmented": True, "finished": False, "sub_question": "s?"}
    first = dspy.Example(question="Q?", hops=[hop], answer="ü", **step)
    second = dspy.Example(question="Longer?", hops=[], answer="b", **step)
    pool = [
        PoolQuestion("Where does it lie?", {"deduction": [first]}),
        PoolQuestion("Who wrote the novel of the sea?", {"deduction": [second]}),
        PoolQuestion("Nothing was accepted here", {}),
    ]
    return NearestDemos(build("genground", retriever, k=3), pool, similarity or lengths(), k=1)


def composites(retriever):
    rag = build("rag", retriever, k=2)
    rag.reading.demos = [dspy.Example(question="Q?", passages=[Passage(id="1", text="t")], answer="shown")]
    return {
        "ensemble": Ensemble([rag, build("cot", retriever), build("rag", retriever, k=4)]),
        "knn": nearest(retriever),
        "cascade": Cascade(rag, build("genground", retriever, k=3), threshold=0.3, weights="bias=1 stated=-0.5"),
        "selective": Selective(rag, least=0.2, weights="bias=1 stated=-0.5"),
        "nested": Ensemble(
            [rag, nearest(retriever), Ensemble([build("cot", retriever), build("standard", retriever)])]
        ),
    }


@pytest.fixture(params=["ensemble", "knn", "cascade", "selective", "nested"])
def combined(request, retriever):
    return composites(retriever)[request.param]


def asked(engine):
    requests = [(str(request.system), [(m.role, m.text) for m in request.messages]) for request in engine.requests]
    engine.requests.clear()
    return sorted(requests)  # in parallel they come in any order


def test_a_loaded_combination_sends_the_prompts_of_the_frozen_one(combined, retriever, scripted, tmp_path):
    engine = scripted(reply)
    expected, prompts = combined("Where does the island lie?").toDict(), asked(engine)
    record = freeze(combined, tmp_path / "a", corpus="list", optimizer={"name": "x"})
    loaded = load(tmp_path / "a", retriever, similarity=lengths())
    assert type(loaded) is type(combined)
    assert loaded("Where does the island lie?").toDict() == expected
    assert asked(engine) == prompts
    assert loaded.max_calls() == combined.max_calls()
    assert loaded.dump_state() == combined.dump_state()
    assert read_artifact(tmp_path / "a") == record
    freeze(loaded, tmp_path / "b", corpus="list", optimizer={"name": "x"})
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.json"))
    assert files == sorted(path.relative_to(tmp_path / "b") for path in (tmp_path / "b").rglob("*.json"))
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_each_child_is_an_artifact_of_its_own(retriever, tmp_path):
    record = freeze(composites(retriever)["ensemble"], tmp_path / "a")
    assert (record.kind, record.program, list(record.children)) == ("ensemble", "ensemble", ["1", "2", "3"])
    first = tmp_path / "a" / "children" / "1"
    assert load(first, retriever).k == 2
    assert json.loads((first / "artifact.json").read_text())["digest"] == record.children["1"]
    assert read_artifact(first).corpus == "list"
    assert [path.name for path in sorted((tmp_path / "a").iterdir())] == ["artifact.json", "children"]


def test_the_kinds_of_a_record_are_those_of_the_table(retriever):
    assert set(Artifact.model_fields["kind"].annotation.__args__) >= {SINGLE, *KINDS}
    assert not set(KINDS) & set(PROGRAMS)
    for kind in KINDS.values():
        assert callable(kind.cls.max_calls)
    assert list(children_of(nearest(retriever))) == ["program"]
    assert children_of(build("rag")) == {}


def reseal(folder, change=lambda record: None):
    """Change a record as a stranger would: with all hashes of the folder computed anew."""
    record = json.loads((folder / "artifact.json").read_text())
    if (folder / "pool.json").exists():
        record["pool_sha256"] = sha256_bytes((folder / "pool.json").read_bytes())
    for name in record["children"]:
        child = folder / "children" / name / "artifact.json"
        record["children"][name] = json.loads(child.read_text())["digest"] if child.exists() else ""
    change(record)
    (folder / "artifact.json").write_text(json.dumps({**record, "digest": digest_of(record)}))


def refusal(folder):
    for check in (lambda: load(folder, similarity=lengths()), lambda: verify(folder)):
        with pytest.raises(UserError) as caught:
            check()
        assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def ensemble(retriever, tmp_path):
    freeze(composites(retriever)["ensemble"], tmp_path / "e")
    return tmp_path / "e"


@pytest.fixture
def knn(retriever, tmp_path):
    freeze(nearest(retriever), tmp_path / "k")
    return tmp_path / "k"


def test_another_child_is_refused_although_it_is_a_good_artifact(ensemble, retriever):
    shutil.rmtree(ensemble / "children" / "2")
    freeze(build("standard"), ensemble / "children" / "2")
    assert "children/2 is not the artifact that" in refusal(ensemble)


def test_a_missing_and_an_edited_child_are_refused_with_the_file_named(ensemble):
    state = ensemble / "children" / "3" / "program.json"
    kept = state.read_text()
    state.write_text(kept + " ")
    assert "children/3/program.json has changed since it was frozen" in refusal(ensemble)
    state.write_text(kept)
    assert verify(ensemble).kind == "ensemble"
    shutil.rmtree(ensemble / "children" / "1")
    assert "children/1 contains no artifact" in refusal(ensemble)


CHANGES = {
    "its children are 1, 2, 3, 5, of kind ensemble they are 1, 2, 3, 4": lambda r: r["children"].update({"5": "x"}),
    "its children are 2, 3, 1": lambda r: r["children"].update({"1": r["children"].pop("1")}),
    "'children.../x.[key]'": lambda r: r["children"].update({"../x": "x"}),
    "is damaged (An ensemble has 2 to 16 programs, got 0.)": lambda r: r.update(children={}),
    "of kind knn they are program": lambda r: r.update(kind="knn", program="knn"),
    "'kind'": lambda r: r.update(kind="own"),
    "neither children nor a pool": lambda r: r.update(kind="program"),
    "has no program of its own": lambda r: r.update(program="rag"),
    "Ensemble has no knobs, got 'k'": lambda r: r["knobs"].update(k=1),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_a_record_that_is_not_exactly_ours_is_refused(fault, ensemble):
    reseal(ensemble, CHANGES[fault])
    assert fault in refusal(ensemble)


POOLS = {
    "question 1, predictor deduction, demo 1: 'signature' is not a field": lambda p: p[0]["demos"]["deduction"][
        0
    ].update(signature="x"),
    "question 1, predictor deduction, demo 1, field 'answer'": lambda p: p[0]["demos"]["deduction"][0].update(answer=3),
    "question 3: 'reading' is not a predictor (deduction": lambda p: p[2]["demos"].update(reading=[]),
    "question 3: 'lm'": lambda p: p[2].update(lm="x"),
    "question 2: 'question'": lambda p: p[1].update(question=None),
    "1 to 20,000 questions": lambda p: p.clear(),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", POOLS)
def test_a_pool_that_is_not_exactly_ours_is_refused_with_the_place_named(fault, knn):
    pool = json.loads((knn / "pool.json").read_text())
    POOLS[fault](pool)
    (knn / "pool.json").write_text(json.dumps(pool))
    assert "pool.json has changed since it was frozen" in refusal(knn)
    reseal(knn)
    assert fault in refusal(knn)


def test_artifacts_within_artifacts_without_end_are_refused(retriever, tmp_path):
    program = Ensemble([build("cot"), build("standard")])
    for _ in range(2):
        program = Ensemble([build("cot"), program])
    freeze(program, tmp_path / "a")
    with pytest.raises(UserError, match="combined 5 levels deep; an artifact has at most 4"):
        freeze(Ensemble([build("cot"), program]), tmp_path / "b")
    inner = tmp_path / "b" / "children" / "2"
    freeze(Ensemble([build("cot"), build("standard")]), tmp_path / "b")
    shutil.rmtree(inner)
    shutil.copytree(tmp_path / "a", inner)
    reseal(tmp_path / "b")
    assert "more than 4 levels deep" in refusal(tmp_path / "b")


def test_the_similarity_is_needed_and_another_one_warns(knn, retriever):
    with pytest.raises(UserError, match=r"demonstrations by a similarity: pass the one it was made with \(lengths\)"):
        load(knn, retriever)
    other = lengths()
    other.fingerprint = "other"
    with pytest.warns(UserNotice, match="chooses demonstrations by similarity lengths, this one is other"):
        load(knn, retriever, similarity=other)


def test_what_cannot_be_rebuilt_is_not_frozen(retriever):
    class Own(dspy.Module):
        def max_calls(self):
            return 1

    with pytest.raises(UserError, match="Own is not in the catalog"):
        check_freezable(Ensemble([build("cot"), Own()]))
    rag = build("rag", retriever)
    rag.set_lm(dspy.LM("openai/x"))
    with pytest.raises(UserError, match="has an LM of its own"):
        check_freezable(Ensemble([build("cot"), rag]))


def test_a_demo_of_the_pool_of_another_type_cannot_be_frozen(retriever, tmp_path):
    program = NearestDemos(
        build("rag", retriever), [PoolQuestion("Q?", {"reading": [dspy.Example(passages="none")]})], lengths()
    )
    with pytest.raises(UserError, match="question 1, predictor reading, demo 1, field 'passages'"):
        freeze(program, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_the_notices_of_the_children_are_shown_once(ensemble, retriever):
    retriever.fingerprint = "other"
    with pytest.warns(UserNotice) as caught:
        load(ensemble, retriever)
    assert [str(notice.message) for notice in caught] == ["The program was compiled on corpus list, this one is other."]
