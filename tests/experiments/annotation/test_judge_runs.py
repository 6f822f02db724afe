"""Runs compared by a judge: from rows to ranks, interrupted and resumed."""

import json
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, Usage

from experiments.annotation.judge_runs import judge_runs, references_of
from experiments.runs.files import read_rows
from optimizers.metrics.judges.answer_judge import CRITERIA
from optimizers.metrics.judges.revision_judge import RevisionJudge
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from signatures.common.errors import UserError
from signatures.types import Passage

CORPUS = {f"p{number}": Passage(id=f"p{number}", title=f"Title {number}", text="Text.") for number in (1, 2)}


class Judge:
    """Prefers the longer answer; breaks down after so many replies."""

    supports_response_schema = False

    def __init__(self, breaks_after: int = 10**6, reasons: bool = True):
        self.left = breaks_after
        self.reasons = reasons
        self.prompts: list[str] = []

    def __deepcopy__(self, memo: dict) -> "Judge":
        return self

    def complete(self, request: Request) -> Response:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        prompt = request.messages[-1].text or ""
        self.prompts.append(prompt)
        shown = prompt.split("[[ ## answers ## ]]\n")[1].split("\n\n")[0].splitlines()
        scores = [min(1.0, len(line) / 30) for line in shown]
        order = sorted(range(len(shown)), key=lambda position: -scores[position])
        places = [f"answer{position + 1}: {scores[position]}" for position in order]
        names = CRITERIA[1:] if "right_answers" in prompt else CRITERIA[:1]
        fields = {name: places[::-1] if name == "bias" else places for name in names}
        fields["reason"] = [f"answer{order[0] + 1} is longer."] if self.reasons else []
        text = "\n\n".join(f"[[ ## {name} ## ]]\n" + "\n".join(lines) for name, lines in fields.items())
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(f"{text}\n\n[[ ## completed ## ]]"),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1),
        )


def connected(toy: Any, engine: Judge) -> Any:
    return toy.Link(metered_lm("local/judge", engine=engine, temperature=0.0, cache=False), ChatForm())


@pytest.fixture
def runs(toy, tmp_path):
    class Longer(toy.Toy):
        def forward(self, question: str) -> dspy.Prediction:
            result = super().forward(question)
            return dspy.Prediction(**{**result.toDict(), "response": f"{result.response} and more"})

    for name, program in (("short", toy.Toy()), ("long", Longer())):
        toy.run(
            program,
            toy.questions(6),
            connection=toy.link(toy.Engine()),
            metrics=["em"],
            folder=tmp_path / name,
            progress=False,
        )
    return [tmp_path / "short", tmp_path / "long"]


def test_the_better_run_gets_the_better_rank_on_every_criterion_but_bias(toy, runs, tmp_path):
    judgement = judge_runs(runs, CORPUS, connection=connected(toy, Judge()), out=tmp_path / "judged")
    ranks = {(item.criterion, item.run): item.rank.mean for item in judgement.standings}
    for criterion in CRITERIA:
        worse, better = ("long", "short") if criterion == "bias" else ("short", "long")
        assert (ranks[criterion, better], ranks[criterion, worse]) == (1.0, 2.0)
    assert (judgement.questions, judgement.left_out, judgement.unread) == (6, 0, 0)
    assert judgement.revisions == {}
    json.dumps(judgement.as_dict())


def test_rankings_and_reasons_are_in_the_rows_and_in_the_result(toy, runs, tmp_path):
    judgement = judge_runs(runs, CORPUS, connection=connected(toy, Judge()), out=tmp_path / "judged")
    rows = read_rows(tmp_path / "judged")
    criteria = ("citation_accuracy", ", ".join(CRITERIA[1:]))
    for row in rows:
        assert row["rankings"] == {
            name: ["short", "long"] if name == "bias" else ["long", "short"] for name in CRITERIA
        }
        assert row["reasons"] == dict.fromkeys(criteria, "long is longer.")
        assert sorted(row["shown"]) == ["long", "short"]
    assert [(reason.id, reason.criteria) for reason in judgement.reasons] == [
        (row["id"], name) for row in rows for name in criteria
    ]
    assert judgement.reasons[0].question == rows[0]["question"] != ""
    assert judgement.as_dict()["reasons"][0]["text"] == "long is longer."
    assert judgement.misordered == 0


def test_judgements_of_an_older_version_are_read(toy, runs, tmp_path):
    judge_runs(runs, CORPUS, connection=connected(toy, Judge()), out=tmp_path / "judged")
    new = ("question", "rankings", "reasons", "shown", "misordered")
    rows = [{key: row[key] for key in row if key not in new} for row in read_rows(tmp_path / "judged")]
    (tmp_path / "judged" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judgement = judge_runs(runs, CORPUS, connection=connected(toy, Judge()), out=tmp_path / "judged", resume=True)
    assert (judgement.questions, judgement.reasons, judgement.misordered) == (6, [], 0)


def test_without_the_corpus_citations_are_not_judged(toy, runs, tmp_path):
    judgement = judge_runs(runs, {}, connection=connected(toy, Judge()), out=tmp_path / "judged")
    of = {item.criterion: item for item in judgement.standings}
    assert of["citation_accuracy"].score.mean is None
    assert of["correctness"].score.n == 6


def test_what_was_judged_is_kept_and_not_asked_again(toy, runs, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        judge_runs(runs, CORPUS, connection=connected(toy, Judge(5)), out=tmp_path / "judged", threads=1)
    kept = len(read_rows(tmp_path / "judged"))
    assert 0 < kept < 6
    engine = Judge()
    judgement = judge_runs(runs, CORPUS, connection=connected(toy, engine), out=tmp_path / "judged", resume=True)
    assert len(engine.prompts) == 2 * (6 - kept)
    assert judgement.questions == 6


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_runs_can_be_judged(toy, runs, tmp_path, count):
    with pytest.raises(UserError, match=f"{count} runs"):
        judge_runs(runs[:1] * count, CORPUS, connection=connected(toy, Judge()), out=tmp_path / "judged")


def revised(question="Where was she born, on which island?"):
    return {
        "question": "Where was she born?",
        "answers": ["Quillon"],
        "hops": [{"answer": "Nobody knows.", "passage_ids": ["p1", "gone"]}],
        "details": {"verifications": [{"revised_question": question}]},
    }


@pytest.mark.parametrize(
    ("question", "due", "quality", "score", "calls"),
    [
        ("Where was she born, on which island?", True, 0.8, 0.8, 2),
        ("Where was she born, on which island?", True, 7, 1.0, 2),
        ("Where was she born, on which island?", False, 0.8, 0.0, 1),
        ("", True, 0.8, 0.0, 1),
        ("", False, 0.8, 1.0, 1),
        ("Where was she born, on which island?", True, "good", None, 2),
    ],
)
def test_a_revision_is_judged_for_its_content_only_when_it_was_time(scripted, question, due, quality, score, calls):
    engine = scripted(lambda system, user: {"due": due, "quality": quality} if "quality" in system else str(due))
    verdict = RevisionJudge()(revised(question), CORPUS)
    assert (verdict.score, verdict.unparsed, len(engine.requests)) == (score, int(score is None), calls)
    assert verdict.clamped == (quality == 7)
    assert "Title 1" in engine.prompts[0]


def test_rows_without_a_verification_are_not_judged_for_it():
    assert not RevisionJudge.verifies({"details": {}, "answers": ["x"], "hops": [1]})
    assert not RevisionJudge.verifies({"details": {"verifications": []}, "answers": ["x"], "hops": [1]})
    assert RevisionJudge.verifies(revised())


def test_marks_count_the_references_that_a_program_names_even_when_it_names_none() -> None:
    row = {"passage_ids": ["p1", "p2"]}
    assert [passage.id for passage in references_of(row, CORPUS)] == ["p1", "p2"]
    assert [passage.id for passage in references_of({**row, "details": {"references": ["p2"]}}, CORPUS)] == ["p2"]
    assert references_of({**row, "details": {"references": []}}, CORPUS) == []


def test_what_is_not_judged_is_said_and_nothing_is_asked_for_nothing(toy, runs, tmp_path):
    judgement = judge_runs(runs, {}, connection=connected(toy, Judge()), out=tmp_path / "uncited")
    (notice,) = judgement.notices
    assert notice.startswith("Citations are judged of 0 of ")
    assert judgement.as_dict()["notices"] == [notice]
    for run in runs:
        rows = [{**row, "answers": []} for row in read_rows(run)]
        (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    engine = Judge()
    with pytest.raises(UserError, match="Nothing can be judged: no question has gold answers"):
        judge_runs(runs, {}, connection=connected(toy, engine), out=tmp_path / "nothing")
    assert (engine.prompts, (tmp_path / "nothing").exists()) == ([], False)
    judgement = judge_runs(runs, CORPUS, connection=connected(toy, engine), out=tmp_path / "cited")
    assert judgement.notices[-1].startswith("The other criteria are judged on 0 of ")
