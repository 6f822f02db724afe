"""Each point of the contract is broken by a class, and the check sees it and says what it saw."""

import sys
import threading
from typing import Annotated

import dspy
import pytest

from programs.catalog import why_no_program
from programs.own.contract import check_program, points
from programs.parts.knobs import Range, set_knobs
from programs.parts.prediction import make_prediction, retrieve_passages, settled, try_predict
from signatures.reading import ReadAnswer
from signatures.types import Hop


class Reads(dspy.Module):
    """Reads k passages.

    Args:
        retrieve: Ranks passages.
        k: Passages read.
    """

    PRESETS = {"paper": {}, "small": {"k": 1}}

    def __init__(self, retrieve=None, *, k: Annotated[int, Range(1, 10)] = 2):
        super().__init__()
        set_knobs(self, locals())
        self.retrieve = retrieve
        self.reading = dspy.Predict(ReadAnswer)

    def max_calls(self):
        return 1

    def read(self, question, passages):
        passages = retrieve_passages(self, question, self.k, fixed=passages)
        reply = try_predict(self.reading, question=question, passages=passages)
        return passages, "" if reply is None else reply.answer

    def forward(self, question, passages=None):
        passages, answer = self.read(question, passages)
        hops = [settled(Hop(question=question, answer=answer))]
        return make_prediction(answer, hops=hops, passages=passages)


class Undescribed(Reads):
    """Reads."""


class Forgetful(Reads):
    __doc__ = Reads.__doc__

    def __init__(self, retrieve=None, *, k: int = 2):
        super().__init__(retrieve, k=2)


class Bare(Reads):
    def forward(self, question, passages=None):
        return dspy.Prediction(answer="Asper")


class Citing(Reads):
    def forward(self, question, passages=None):
        return make_prediction("Asper", citations=["nowhere"])


class Odd(Reads):
    def forward(self, question, passages=None):
        return make_prediction("Asper", stop_reason="tired", details={})


class Unwritable(Reads):
    def forward(self, question, passages=None):
        return make_prediction("Asper", details={"program": self})


class Searching(Reads):
    def forward(self, question, passages=None):
        return make_prediction("Asper", passages=self.retrieve(question, self.k))


class Greedy(Reads):
    def read(self, question, passages):
        passages = retrieve_passages(self, question, self.k, fixed=passages)
        assert passages[0].text
        return super().read(question, passages)


class Strict(Reads):
    def read(self, question, passages):
        passages = retrieve_passages(self, question, self.k, fixed=passages)
        return passages, self.reading(question=question, passages=passages).answer


class Stubborn(Reads):
    def read(self, question, passages):
        while True:
            found, answer = super().read(question, passages)
            if answer:
                return found, answer


class Endless(Reads):
    def forward(self, question, passages=None):
        while True:
            self.read(question, passages)


class Waiting(Reads):
    def forward(self, question, passages=None):
        threading.Event().wait()


class Leaving(Reads):
    def forward(self, question, passages=None):
        sys.exit(0)


class Remembering(Reads):
    def __init__(self, retrieve=None, *, k: Annotated[int, Range(1, 10)] = 2):
        super().__init__(retrieve, k=k)
        self.asked = []

    def forward(self, question, passages=None):
        self.asked = [*self.asked, question]
        result = super().forward(question, passages)
        result.details["asked"] = len(self.asked)
        return result


class Hiding(Reads):
    def __init__(self, retrieve=None, *, k: Annotated[int, Range(1, 10)] = 2):
        super().__init__(retrieve, k=k)
        self.retrieve = dspy.Example() if retrieve is None else _Copied(retrieve)


class _Copied:
    def __init__(self, retrieve):
        self.of = retrieve
        self.fingerprint = "copied"

    def __call__(self, query, k):
        return self.of(query, k)


class Silent(Reads):
    def forward(self, question, passages=None):
        passages, answer = self.read(question, passages)
        return make_prediction(answer, hops=[Hop(question=question, answer=answer)], passages=passages)


class Tempered(Reads):
    def __init__(self, retrieve=None, *, k: Annotated[int, Range(1, 10)] = 2):
        super().__init__(retrieve, k=k)
        if retrieve is not None:
            self.reading = dspy.Predict(ReadAnswer, temperature=0.5)


def broken(cls):
    return {result.point: result.broken for result in check_program(cls) if result.broken}


def test_a_program_that_keeps_it():
    assert broken(Reads) == {}


@pytest.mark.parametrize(
    ("cls", "point", "says"),
    [
        (Undescribed, "described", "what k means"),
        (Forgetful, "preset", "has no such|set_knobs|its knobs are"),
        (Bare, "prediction with all fields", "lacks"),
        (Citing, "prediction with all fields", "citations names"),
        (Odd, "prediction with all fields", "'tired'"),
        (Unwritable, "prediction with all fields", "JSON"),
        (Searching, "Given passages", "TypeError"),
        (Greedy, "without passages", "IndexError"),
        (Strict, "cannot be read", "AdapterParseError"),
        (Stubborn, "max_calls", "call 2, where at most 1"),
        (Endless, "deep copy", "call 3, where at most 2"),
        (Leaving, "prediction with all fields", "SystemExit"),
        (Remembering, "threads", "another result"),
        (Remembering, "no state", "its asked"),
        (Hiding, "deep copy", "another retriever"),
        (Silent, "settled", "0 settled"),
        (Tempered, "Frozen", "call settings"),
    ],
)
def test_the_check_sees_what_is_broken(cls, point, says):
    (named,) = (each for each in points() if point in each or point in each.lower())
    (result,) = check_program(cls, only=[named])
    assert result.broken is not None
    assert any(word in result.broken for word in says.split("|"))


def test_a_check_that_does_not_end_is_the_last():
    results = check_program(Waiting, seconds=0.3)
    assert [result.point for result in results] == points()[:3]
    assert "did not end within 0.3 s" in results[-1].broken


def test_every_point_is_broken_by_some_class():
    cases = next(mark for mark in test_the_check_sees_what_is_broken.pytestmark if mark.name == "parametrize").args[1]
    for each in points():
        assert any(point in each or point in each.lower() for _, point, _ in cases), each


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, "of type int"),
        (dict, "not a subclass of dspy.Module"),
        (type("NoRetriever", (dspy.Module,), {}), "first argument is not retrieve=None"),
        (dspy.ReAct, "first argument is not retrieve=None"),
    ],
)
def test_what_is_no_program(value, says):
    assert says in why_no_program(value)


def test_arguments_that_are_no_knobs():
    class Positional(Reads):
        def __init__(self, retrieve=None, k: int = 3): ...

    class Untyped(Reads):
        def __init__(self, retrieve=None, *, k=3): ...

    class Required(Reads):
        def __init__(self, retrieve=None, *, k: int): ...

    class Unknown(Reads):
        def __init__(self, retrieve=None, *, k: "Nowhere" = 3): ...  # noqa: F821

    class Presets(Reads):
        PRESETS = {"paper": 3}

    class Unbounded(Reads):
        max_calls = None

    class Asynchronous(Reads):
        async def forward(self, question, passages=None): ...

    class Renamed(Reads):
        def forward(self, query, passages=None): ...

    assert "asynchronous forward" in why_no_program(Asynchronous)
    assert "does not take the question" in why_no_program(Renamed)
    reasons = [why_no_program(cls) for cls in (Positional, Untyped, Required, Presets, Unbounded, Unknown)]
    assert ["k is not keyword-only" in reasons[0], "k has no type" in reasons[1], "with a default" in reasons[2]] == [
        True
    ] * 3
    assert "PRESETS" in reasons[3]
    assert "max_calls" in reasons[4]
    assert "Nowhere" in reasons[5]

    class Several(Reads):
        def __init__(self, retriever=None, *, k=3): ...

        async def forward(self, question, passages=None): ...

        max_calls = None

    said = why_no_program(Several)
    assert all(fault in said for fault in ("first argument", "k has no type", "asynchronous", "max_calls")), said
