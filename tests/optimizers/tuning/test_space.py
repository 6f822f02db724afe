"""The search space: ranges from annotations, narrowed, and the calls at its corners."""

from typing import Annotated

import dspy
import pytest

from optimizers.tuning.samplers import grid_size
from optimizers.tuning.space import Numbers, Options, knob_space, most_calls
from programs.cov_rag import CoVRAG
from programs.parts.knobs import Choice, Range, set_knobs
from programs.single_step.rag import RAG
from signatures.common.errors import UserError


class Knobbed(dspy.Module):
    """A program with a knob of every kind."""

    def __init__(
        self,
        *,
        k: Annotated[int, Range(1, 20)] = 5,
        rate: Annotated[float, Range(0.001, 10, log=True)] = 0.1,
        gate: Annotated[str, Choice("soft", "hard")] = "soft",
        width: Annotated[int, Choice(2, 4, 8)] = 4,
        ablation: bool = True,
    ):
        super().__init__()
        set_knobs(self, locals())

    def max_calls(self) -> int:
        return self.k * (2 if self.ablation else 1)


def test_every_knob_with_a_range_is_searched_and_no_ablation():
    space = knob_space(Knobbed())
    assert space.dimensions == (
        Numbers("k", 1, 20, whole=True),
        Numbers("rate", 0.001, 10, whole=False, log=True),
        Options("gate", ("soft", "hard")),
        Options("width", (2, 4, 8)),
    )
    assert space.present == {"k": 5, "rate": 0.1, "gate": "soft", "width": 4}
    assert [dimension.name for dimension in knob_space(CoVRAG(None)).dimensions][:3] == ["k", "gate", "combine"]


def test_knobs_are_chosen_and_narrowed():
    space = knob_space(Knobbed(), searched=("rate",), narrowed={"k": "4:6", "width": "4,8"})
    assert space.describe() == {"k": "4:6", "rate": "0.001:10", "width": "4,8"}
    assert knob_space(Knobbed(), searched=()).dimensions == ()
    assert knob_space(Knobbed(), narrowed={"k": "3,5,9"}).dimensions[0] == Options("k", (3, 5, 9))


@pytest.mark.parametrize(
    ("narrowed", "said"),
    [
        ({"k": "0:4"}, "from 1 to 20, got 0"),
        ({"k": "9:4"}, "the lower end first"),
        ({"k": "x:4"}, "such as 1:20, got 'x'"),
        ({"k": "1:3"}, "k=5, which is not among the values searched"),
        ({"gate": "soft,weak"}, "one of 'soft', 'hard'"),
        ({"ablation": "true,false"}, "Unknown knob with a range"),
        ({"depth": "1:2"}, "Unknown knob with a range of Knobbed 'depth'"),
    ],
)
def test_a_range_that_cannot_be_searched_is_refused(narrowed, said):
    with pytest.raises(UserError, match=said):
        knob_space(Knobbed(), narrowed=narrowed)


def test_a_grid_has_all_whole_numbers_or_spaced_ones():
    space = knob_space(Knobbed(), narrowed={"k": "4:6"})
    grid = space.grid(5)
    assert grid["k"] == [4, 5, 6]
    assert grid["rate"] == [0.001, 0.01, 0.1, 1.0, 10.0]
    assert knob_space(Knobbed()).grid(5)["k"] == [1, 6, 10, 15, 20]
    assert grid_size(space) == 3 * 5 * 2 * 3


def test_the_dearest_corner_bounds_the_calls():
    assert most_calls(Knobbed(), knob_space(Knobbed())) == 40
    assert most_calls(Knobbed(), knob_space(Knobbed(), searched=("rate",))) == 10
    assert most_calls(RAG(None), knob_space(RAG(None))) == 1
