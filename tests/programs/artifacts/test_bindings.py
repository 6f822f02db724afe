"""What a loaded program is bound to: another LM, adapter or corpus warns, thresholds that do not hold are refused."""

import warnings
from types import SimpleNamespace

import dspy
import pytest

from programs.artifact import check_freezable, freeze, lm_record, load
from programs.artifacts.loading import PROBABILITY_KNOBS
from programs.artifacts.state import KINDS
from programs.cascade import Cascade
from programs.catalog import PROGRAMS, build
from programs.ensemble import Ensemble
from programs.inference import Answerer
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.knobs import knobs_of
from signatures.common.errors import UserError, UserNotice


def connection(mode="logprobs", adapter=ChatForm, id="m", weights="w", model="m-1"):
    form = adapter(probability_mode=mode)
    lm = SimpleNamespace(model=model)
    return SimpleNamespace(id=id, weights_hash=weights, lm=lm, adapter=form, probability_mode=mode)


def frozen(program, folder):
    freeze(program, folder, lm=lm_record(connection()))
    return folder


@pytest.fixture
def retro(retriever, tmp_path):
    return frozen(build("retro_rag", retriever), tmp_path / "a")


def test_thresholds_for_another_probability_mode_are_refused_unless_accepted(retro, retriever):
    message = "threshold, relevance_gate, attribution_gate of retro_rag .* from logprobs, this .* from samples"
    with pytest.raises(UserError, match=message):
        load(retro, retriever, connection=connection("samples"))
    with pytest.warns(UserNotice, match=message):
        load(retro, retriever, connection=connection("samples"), accept_probability_mode=True)


def test_they_are_refused_for_another_lm_and_inside_an_ensemble_too(retriever, tmp_path):
    both = Ensemble([build("retro_rag", retriever), build("rag", retriever)])
    with pytest.raises(UserError, match="of retro_rag were set for"):
        load(frozen(both, tmp_path / "e"), retriever, connection=connection("verbalised", id="other"))


def test_a_cascade_that_weighs_confidence_is_refused_where_there_is_none(retriever, tmp_path):
    def cascade(weights, folder):
        both = build("rag", retriever), build("multihop", retriever)
        return frozen(Cascade(*both, weights=weights), tmp_path / folder)

    with pytest.raises(UserError, match="threshold, weights of cascade were set for .* from logprobs, this .* samples"):
        load(cascade("bias=2 confidence=-3", "a"), retriever, connection=connection("samples"))
    load(cascade("bias=2 stated=-3", "b"), retriever, connection=connection("samples"))


def test_programs_without_such_thresholds_load_under_any_mode(retriever, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(frozen(build("cov_rag", retriever), tmp_path / "a"), retriever, connection=connection("samples"))


def test_the_same_lm_adapter_and_corpus_say_nothing(retro, retriever):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(retro, retriever, connection=connection())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "n"}, "compiled for LM m .*, this one is n"),
        ({"weights": "v"}, r"\(weights w\), this one is m \(weights v\)"),
        ({"model": "m-2"}, "as m-1, this one is m-2"),
        ({"adapter": JsonForm}, "adapter ChatForm, this connection uses JsonForm"),
    ],
)
def test_another_lm_or_adapter_warns(change, words, retro, retriever):
    with pytest.warns(UserNotice, match=words):
        load(retro, retriever, connection=connection(**change))


def test_each_knob_that_is_compared_with_p_yes_exists():
    classes = {**PROGRAMS, **{name: kind.cls for name, kind in KINDS.items()}}
    for program, knobs in PROBABILITY_KNOBS.items():
        assert set(knobs) <= set(knobs_of(classes[program]))


def test_a_program_whose_reloaded_form_would_differ_is_not_frozen(retriever, tmp_path):
    warm = build("rag", retriever)
    warm.reading.config = {"temperature": 1.0}
    with pytest.raises(UserError, match="predictor reading has the call settings {'temperature': 1.0}"):
        freeze(warm, tmp_path / "a")
    other = build("rag", retriever)
    other.extra = dspy.Predict("question -> answer")
    with pytest.raises(UserError, match="had the predictors reading, extra"):
        freeze(other, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_demos_hidden_in_a_module_marked_as_compiled_are_no_silent_loss(retriever, tmp_path):
    program = build("multihop", retriever)
    program.reading.predict.demos = [dspy.Example(question="Q?", passages=[], reasoning="r", answer="a")]
    program.reading._compiled = True
    check_freezable(program)
    with pytest.raises(UserError, match=r"reading.predict is hidden .* set `_compiled` of that module to False"):
        freeze(program, tmp_path / "a")
    program.reading._compiled = False
    program._compiled = True  # of the program itself: hides nothing
    freeze(program, tmp_path / "a")
    assert load(tmp_path / "a", retriever).reading.predict.demos[0]["answer"] == "a"


def test_a_pickle_is_refused_by_name_and_never_opened(retro, retriever, tmp_path):
    (retro / "program.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match=r"program\.pkl is a pickle, which can run any code"):
        load(retro, retriever)
    (tmp_path / "saved.pickle").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match=r"saved\.pickle is a pickle"):
        load(tmp_path / "saved.pickle")
    whole = tmp_path / "dspy"
    whole.mkdir()
    (whole / "program.pkl").write_bytes(b"\x80\x04.")  # what `save(save_program=True)` of DSPy writes
    with pytest.raises(UserError, match="is a pickle"):
        load(whole)


def test_an_answerer_binds_what_load_binds(retro, retriever):
    samples = connection("samples")
    with pytest.raises(UserError, match="accept_probability_mode"):
        Answerer.load(retro, retriever, samples)
    with pytest.warns(UserNotice, match="from logprobs"):
        Answerer.load(retro, retriever, samples, accept_probability_mode=True)


def test_an_lm_that_its_name_alone_does_not_connect_asks_for_the_connection(tmp_path):
    freeze(build("cot", None), tmp_path / "a", lm=lm_record(connection(id="my-model")))
    with pytest.raises(UserError, match=r"compiled for LM 'my-model', which cannot .* alone: pass the connection"):
        Answerer.load(tmp_path / "a")
