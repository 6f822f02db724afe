"""A real llama.cpp server, with the embedded LM's weights."""

import dspy
import pytest

from programs.catalog import build
from programs.lms.connect import connect
from programs.lms.weights import choice
from programs.parts.meter import metered
from programs.parts.probability import probability
from signatures.types import Passage

SLOTS, CONTEXT = 2, 4096


class IsTrue(dspy.Signature):
    """Say whether the claim is true."""

    claim: str = dspy.InputField()
    true: bool = dspy.OutputField()


@pytest.mark.slow  # it computes
@pytest.mark.filterwarnings("ignore::signatures.common.errors.UserNotice")
def test_a_real_server_is_described_and_answers() -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(choice.weights_path())
    parameters.n_ctx, parameters.n_parallel = CONTEXT * SLOTS, SLOTS
    parameters.verbosity, parameters.ui = -1, False
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads, threads.poll = 2, 0
    running = xllamacpp.Server(parameters)

    connection = connect("smollm", api_base=running.listening_address, cache=False)
    assert connection.server is not None
    assert connection.server.dialect == "llamacpp"
    assert (connection.server.slots, connection.context_size) == (SLOTS, CONTEXT)
    assert (connection.server.thinks, connection.probability_mode) == (False, "logprobs")

    passages = [Passage(id="1", title="Paris", text="Paris is the capital of France. The Seine flows through Paris.")]
    with connection.use(), metered() as meter:
        found = probability(dspy.Predict(IsTrue), claim="Paris is in France.")
        prediction = build("rag")(question="Which river flows through the capital of France?", passages=passages)
        with pytest.raises(dspy.utils.exceptions.ContextWindowExceededError):
            connection.lm("word " * (CONTEXT + 100))
    assert found is not None
    assert 0 < found.value < 1
    assert prediction.answer
    assert meter.parse_failures == 0
    connection.close()
