"""Decoding for the leaderboard on a GPU, tried on the CPU: in any company, each gets what transformers computes."""

import json
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import openvino
import pytest
import torch

from experiments.papers.gpu.decoder import Asked, Decoder, serve
from experiments.papers.gpu.engine import SharedEngine
from experiments.papers.gpu.model import BatchedLlama
from programs.lms.calls.metered import LMUnavailable
from programs.lms.embedded import EmbeddedEngine, Job, first_token
from programs.lms.weights import choice
from programs.lms.weights.gguf_files import write_gguf
from programs.lms.weights.sources import folder_source
from signatures.common.errors import UserError
from tests.programs.lms.weights.made import SHAPE, make_model

PROMPTS = ([5, 9, 400, 31, 7], [12], list(range(100, 190)), [77, 3])
NEW = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model") / "tiny", SHAPE)


@pytest.fixture(scope="module")
def path(folder):
    path = folder.parent / "tiny.gguf"
    write_gguf(path, folder_source(folder), choice.weights_path(), "f16")
    return path


@pytest.fixture(scope="module")
def model(path):
    return BatchedLlama(path, rows=3, length=SHAPE.context, device="cpu", dtype=torch.float32)


@pytest.fixture(scope="module")
def decoder(model):
    decoder = Decoder(model)
    running = threading.Thread(target=decoder.run)
    running.start()
    yield decoder
    decoder.stop()
    running.join(timeout=60)
    assert not running.is_alive()


def greedy(folder, prompt):
    """Return what transformers goes on with, its weights rounded as in the file."""
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for weight in reference.parameters():
        if weight.dim() > 1:
            weight.data = weight.data.half().float()
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(NEW):
            ids.append(int(reference(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def greedy_first(decoder, top):
    return decoder.answer(Asked([5, 9, 400], 1, top=top)).ids


def ask_all(decoder, requests):
    """Return the requests, answered in parallel."""
    threads = [threading.Thread(target=decoder.answer, args=(each,)) for each in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return requests


@pytest.mark.slow
def test_sequences_in_one_batch_are_those_of_transformers(folder, decoder):
    answered = ask_all(decoder, [Asked(list(prompt), NEW) for prompt in PROMPTS])
    assert [each.ids for each in answered] == [greedy(folder, prompt) for prompt in PROMPTS]
    assert all(value <= 0 for each in answered for value in each.logprobs)


def test_each_reply_is_in_the_grammar_of_its_own_schema(decoder, model):
    choices = [["yes", "no"], ["north", "south", "east"], ["1901"], ["yes", "no"], None]
    asked = [Asked([7, number], 12, schema=each and json.dumps({"enum": each})) for number, each in enumerate(choices)]
    tokens = model.metadata["tokenizer.ggml.tokens"]
    *answered, free = ask_all(decoder, asked)
    for each, allowed in zip(answered, choices, strict=False):
        assert json.loads("".join(tokens[token] for token in each.ids[:-1])) in allowed
        assert each.ids[-1] == int(model.metadata["tokenizer.ggml.eos_token_id"])
    assert len(free.ids) == 12


def test_samples_differ_and_the_most_likely_tokens_are_given_with_their_logprobs(decoder):
    hot = ask_all(decoder, [Asked([5, 9, 400], 5, temperature=2.0) for _ in range(4)])
    assert len({tuple(each.ids) for each in hot}) > 1
    [first] = ask_all(decoder, [Asked([5, 9, 400], 1, top=3)])
    [greedy] = ask_all(decoder, [Asked([5, 9, 400], 1)])
    assert len(first.ids) == 3
    assert first.ids[0] == greedy.ids[0]
    assert first.logprobs == sorted(first.logprobs, reverse=True)
    assert first.logprobs[0] == pytest.approx(greedy.logprobs[0], abs=1e-5)


def test_a_reply_ends_before_a_stop_string(decoder, model):
    [whole] = ask_all(decoder, [Asked([5, 9, 400, 31], 8)])
    text = [decoder._bytes[token].decode("utf-8", "ignore") for token in whole.ids]
    [cut] = ask_all(decoder, [Asked([5, 9, 400, 31], 8, stop=[text[3]])])
    assert cut.ids == whole.ids[: next(at for at, each in enumerate(text) if text[3] in each)]


def test_what_is_too_long_or_empty_is_refused(decoder):
    assert "at most 512" in decoder.answer(Asked([1] * 500, 100)).error
    with pytest.raises(ValueError, match="at least 1"):
        Asked([], 3)


def test_processes_ask_over_a_socket(decoder, tmp_path):
    serve(decoder, tmp_path / "socket")
    engine = SharedEngine(((tmp_path / "socket", 512),), "cpu")
    prompt = openvino.Tensor(np.array([[5, 9, 400]], dtype=np.int64))
    [beams] = engine._decode([Job(prompt, first_token(2))])
    assert [each.generated_ids for each in beams] == [[token] for token in greedy_first(decoder, 2)]
    config = first_token(2)
    config.num_beams = config.num_return_sequences = 1
    config.max_new_tokens = 600
    with pytest.raises(LMUnavailable, match="at most 512"):
        engine._decode([Job(prompt, config)])


def test_a_worker_asks_a_cell_as_every_command_does_with_the_decoders_lm(tmp_path, monkeypatch):
    from experiments.papers.gpu import command
    from experiments.papers.tables.plan import Request, cells_of
    from experiments.papers.tables.spec import read_table
    from experiments.pipeline import setup
    from programs.lms.spec import LMSpec

    monkeypatch.setattr(setup, "open_lm", setup.open_lm)  # put back afterwards
    simulated = setup.open_lm(LMSpec(id="simulated"))
    monkeypatch.setattr(command, "_connection", lambda sockets, device: simulated)
    table = read_table("leaderboard", "table3").of_rows(["standard"])
    request = Request(lm=LMSpec(id="embedded"), data="none", work=tmp_path, limit=2, progress=False)
    [cell] = cells_of(table, request)
    assert command.ask_cell(table, cell, request, (), "cpu") == "standard, world: 2 questions"
    described = json.loads((cell.folder(tmp_path) / "run.json").read_text())
    assert (described["lm"]["model"], described["questions"]["n"]) == (simulated.lm.model, 2)


class InThisProcess:
    """A pool that does what it is given at once."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, work, *arguments):
        future = Future()
        future.set_result(work(*arguments))
        return future


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cells_that_a_cpu_answered_are_not_taken_for_those_of_a_gpu(device, tmp_path, monkeypatch):
    from experiments.papers.gpu import command
    from experiments.papers.tables.plan import Request, cells_of
    from experiments.papers.tables.spec import read_table
    from experiments.pipeline import setup
    from programs.lms.spec import LMSpec

    monkeypatch.setattr(setup, "open_lm", setup.open_lm)  # put back afterwards
    lms = {"cpu": setup.open_lm(LMSpec(id="simulated")), "cuda": setup.open_lm(LMSpec(id="simulated:1"))}
    table = read_table("leaderboard", "table3").of_rows(["standard"])
    for name, value in {
        "read_table": lambda *_: table,
        "start_decoders": lambda *_: (),
        "ProcessPoolExecutor": InThisProcess,
        "_connection": lambda sockets, device: lms[device],
    }.items():
        monkeypatch.setattr(command, name, value)
    request = Request(lm=LMSpec(id="embedded"), data="none", work=tmp_path, limit=2, progress=False)
    [cell] = cells_of(table, request)
    command.ask_cell(table, cell, request, (), "cpu")
    of_cpu = cell.folder(tmp_path)
    before = (of_cpu / "run.json").read_bytes()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    command.gpu("leaderboard", 3, tmp_path, tmp_path, 2, 1, 1, 1, device)
    of_gpu = tmp_path / "cells" / "embedded_cuda" / of_cpu.relative_to(of_cpu.parents[1])
    assert json.loads((of_gpu / "run.json").read_text())["lm"]["model"] == lms["cuda"].lm.model
    assert (of_cpu / "run.json").read_bytes() == before


def test_the_lm_of_the_decoders_has_a_name_of_its_own_and_an_id_that_opens_anywhere(monkeypatch):
    from experiments.papers.gpu import command

    monkeypatch.setattr(SharedEngine, "load", lambda self: None)
    assert command._connection((), "cuda").id == "embedded"
    assert SharedEngine((), "cuda").name == f"{EmbeddedEngine().name}-cuda"


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_any_gpu_decodes_in_16_bits(device, monkeypatch, tmp_path):
    """Before, the second GPU decoded in 32 bits, four sequences at a time."""
    from experiments.papers.gpu import command

    made, chosen = [], []
    monkeypatch.setattr("experiments.papers.gpu.model.BatchedLlama", lambda *of: made.append(of))
    monkeypatch.setattr("experiments.papers.gpu.decoder.Decoder", lambda model: SimpleNamespace(run=lambda: None))
    monkeypatch.setattr("experiments.papers.gpu.decoder.serve", lambda *_: None)
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    command.decode(tmp_path, tmp_path, command.LONG, device)
    assert made == [(tmp_path, command.ROWS[command.LONG], command.LONG, "cuda", torch.float16)]
    assert chosen == [torch.device(device).index or 0]


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    from experiments.papers.gpu import command

    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    command._require("cuda:0")
    for device, said in (
        ("cuda:1", "no cuda:1"),
        ("cuda:x", "'cuda:x' is not a torch device"),
        ("gpu", "'gpu' is not a torch device"),
    ):
        with pytest.raises(UserError, match=said):
            command._require(device)
