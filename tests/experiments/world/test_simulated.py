"""The engine: pure replies, token counts, malformed replies at the rate of the dials, fallbacks."""

import math
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import AdapterParseError

from experiments.world.dials import DIALS_FILE, read_dials
from experiments.world.simulated import SimulatedEngine
from programs.lms.adapter import ChatForm, JsonForm
from signatures.common.errors import UserError
from signatures.genground import DeduceAnswer
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.types import Passage


def requests(films, **config) -> list[Request]:
    system = "Answer.\n\nReply with these fields, each below its header in double brackets:\n- answer"
    return [
        Request(
            model="m",
            system=system,
            messages=(Message.user(f"[[ ## question ## ]]\nWho directed {film}?\n\nReply with `[[ ## answer ## ]]`."),),
            config=Config(**config),
        )
        for film in films
    ]


def texts(engine, batch) -> list[str]:
    return [engine.complete(request).message.text for request in batch]


def test_replies_depend_on_the_prompt_alone_and_not_on_threads_or_order(films):
    batch = requests(films)
    alone = texts(SimulatedEngine(0), batch)
    engine = SimulatedEngine(0)
    with ThreadPoolExecutor(8) as pool:
        crowd = list(pool.map(lambda request: engine.complete(request).message.text, batch))
    backwards = texts(SimulatedEngine(0), batch[::-1])[::-1]
    assert alone == crowd == backwards


def test_sampling_seeds_vary_replies_only_above_temperature_zero(films):
    engine = SimulatedEngine(0)
    cold = [texts(engine, requests(films, temperature=0.0, seed=seed)) for seed in (1, 2)]
    warm = [texts(engine, requests(films, temperature=1.0, seed=seed)) for seed in (1, 2, 1)]
    assert cold[0] == cold[1]
    assert warm[0] != warm[1]
    assert warm[0] == warm[2]


def test_the_fingerprint_changes_with_seed_and_dials():
    prints = {
        SimulatedEngine(0).fingerprint,
        SimulatedEngine(1).fingerprint,
        SimulatedEngine(0, read_dials().with_values(form_malformed=0.5)).fingerprint,
    }
    assert len(prints) == 3


def test_the_state_restores_the_same_engine(films):
    engine = SimulatedEngine(5, read_dials().with_values(memory_wrong=0.6))
    again = SimulatedEngine.load_state(engine.dump_state())
    assert again.fingerprint == engine.fingerprint
    assert texts(again, requests(films)) == texts(engine, requests(films))


def failures(running, faultless, signature, adapter, asked, malformed=1.0, **inputs) -> int:
    count = 0
    predictor = dspy.Predict(signature)
    with running(faultless(form_malformed=malformed), adapter):
        for question in asked:
            try:
                predictor(question=question, **inputs)
            except AdapterParseError:
                count += 1
    return count


def questions(films) -> list[str]:
    return [f"Who directed {film}?" for film in films]


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [ChatForm(), JsonForm()])
def test_malformed_replies_cannot_be_parsed(running, faultless, films, adapter):
    asked = questions(films)
    assert failures(running, faultless, DeduceAnswer, adapter, asked, hops=[]) == len(asked)
    assert failures(running, faultless, DeduceAnswer, adapter, asked, malformed=0.0, hops=[]) == 0


def test_a_single_field_in_json_is_malformed_too_but_a_bare_chat_reply_is_only_no_answer(running, faultless, films):
    asked = questions(films)
    assert failures(running, faultless, AnswerFromMemory, JsonForm(), asked) == len(asked)
    with running(faultless(form_malformed=1.0)):
        assert dspy.Predict(AnswerFromMemory)(question=asked[0]).answer.startswith("Certainly!")


def test_a_question_not_about_the_world_gets_unknown(running, faultless):
    with running(faultless()):
        assert dspy.Predict(AnswerFromMemory)(question="What is the capital of Atlantis?").answer == "unknown"
        passages = [Passage(id="a", title="T", text="Text.")]
        assert dspy.Predict(ReadAnswer)(question="Why?", passages=passages).answer == "unknown"
        assert dspy.Predict("topic -> poem, lines: int, tags: list[str]")(topic="fog").poem == "unknown"


def test_yes_no_comes_as_one_word_with_log_probabilities_that_agree_with_it(world, films):
    director = world.value(films[0], "director")
    system = "Does the passage bear on the question?"
    seen = {}
    for name, text in (("yes", f"{films[0]} was directed by {director}."), ("no", "Fog lay on the water.")):
        task = f"[[ ## question ## ]]\nWho directed {films[0]}?\n\n[[ ## passages ## ]]\n[1] {films[0]}: {text}"
        request = Request(
            model="m",
            system=system,
            messages=(Message.user(f"{task}\n\nAnswer with one word, yes or no."),),
            config=Config(logprobs=5),
        )
        response = SimulatedEngine(0, read_dials().with_values(judging_error=0.0)).complete(request)
        probabilities = {item.token: math.exp(item.logprob) for item in response.logprobs[0].top}
        seen[name] = probabilities["yes"]
        assert response.message.text == name
        assert sum(probabilities.values()) == pytest.approx(1.0)
    assert seen["yes"] > 0.5 > seen["no"]


def test_tokens_are_counted_by_words(films):
    request = requests(films[:1])[0]
    usage = SimulatedEngine(0).complete(request).usage
    assert usage.input_tokens > 10
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_a_dial_file_with_a_wrong_value_names_it(tmp_path):
    bad = tmp_path / "dials.toml"
    bad.write_text(DIALS_FILE.read_text().replace("wrong = 0.25", "wrong = 2.5"))
    with pytest.raises(UserError, match=r"memory_wrong is 2\.5"):
        read_dials(bad)
    bad.write_text(DIALS_FILE.read_text().replace("wrong = 0.25", ""))
    with pytest.raises(UserError, match="memory_wrong"):
        read_dials(bad)
