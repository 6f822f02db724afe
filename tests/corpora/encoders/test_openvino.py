import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.encoders import openvino_model
from corpora.encoders.bert_graph import OtherForm
from corpora.encoders.openvino_encoder import batches_of
from corpora.encoders.openvino_model import NotConvertible, open_converted
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, default_folder, default_threads
from signatures.common import files
from signatures.common.errors import UserError
from signatures.common.per_process import PerProcess

pytest.importorskip("openvino", reason="OpenVINO is not installed")
ROOT = Path(__file__).parents[3]
TEXTS = [
    "Who wrote the novel?",
    "",
    "  spaces\tand\nlines  ",
    "In which country does the river end that rises where the author was born?",
    "a passage that is longer than the model reads " * 60,
    "Zürich 東京 😀",
]


@pytest.fixture(scope="module")
def embedder():
    return Embedder()


@pytest.fixture(scope="module")
def torch_vectors():
    from corpora.encoders.torch_encoder import TorchEncoder, load_model

    return TorchEncoder(load_model("default", default_folder(), "cpu"), 1)(TEXTS)


@pytest.mark.slow
def test_the_default_model_runs_in_openvino_and_gives_the_vectors_of_torch(embedder, torch_vectors):
    assert embedder.backend == "openvino"
    together, alone = embedder(TEXTS), np.concatenate([embedder([text]) for text in TEXTS])
    for vectors in (together, alone):
        assert (vectors * torch_vectors).sum(axis=1).min() >= 0.999_999
        np.testing.assert_allclose(vectors, torch_vectors, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_threads_and_gathered_calls_change_no_vector(embedder, threads):
    queries = [f"{'what ' * (number % 9)}is number {number}?" for number in range(70)]
    expected = embedder(queries)
    other = Embedder(threads=threads, batch_size=5)
    np.testing.assert_allclose(other(queries), expected, atol=2e-6)
    with ThreadPoolExecutor(16) as pool:
        found = np.concatenate(list(pool.map(lambda query: other([query]), queries)))
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.999), ("int8", 0.99)])
def test_other_precisions_are_close_and_keep_the_hash(embedder, precision, least):
    other = Embedder(precision=precision)
    cosines = (other(TEXTS) * embedder(TEXTS)).sum(axis=1)
    assert cosines.min() > least
    assert other.weights_hash == embedder.weights_hash


def test_an_unknown_precision_and_no_thread_are_refused():
    with pytest.raises(UserError, match="precision 'f64'.*bf16, f32, int8"):
        Embedder(precision="f64")
    with pytest.raises(UserError, match="threads=0"):
        Embedder(threads=0)


def test_threads_follow_the_usual_variable(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "junk")
    assert default_threads() >= 1


@pytest.fixture(scope="module")
def converted(tmp_path_factory, embedder):
    """A cache folder with the conversion of the default model."""
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino_model, "cache_dir", lambda: home)
        assert Embedder().backend == "openvino"
    return home


def opened(home: Path, embedder: Embedder, monkeypatch) -> np.ndarray:
    monkeypatch.setattr(openvino_model, "cache_dir", lambda: home)
    options = {"precision": "f32", "threads": 1, "batch_size": 32}
    return open_converted(default_folder(), embedder.weights_hash, **options)(["a river"])


@pytest.mark.slow
def test_a_conversion_is_made_once(converted, embedder, monkeypatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("it was converted again")

    monkeypatch.setattr(openvino_model, "_convert", refuse)
    np.testing.assert_allclose(opened(converted, embedder, monkeypatch), embedder(["a river"]), atol=2e-6)
    (folder,) = (converted / "embedders").iterdir()
    assert folder.name.startswith(embedder.weights_hash[:32])
    assert folder.stat().st_mode & 0o777 == 0o777 & ~files._umask()  # before, nobody else with this cache could read it


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["cut", "changed", "missing", "list", "tokenizer"])
def test_a_damaged_conversion_is_made_anew(converted, embedder, monkeypatch, tmp_path, spoil):
    shutil.copytree(converted, tmp_path / "cache")
    (folder,) = (tmp_path / "cache" / "embedders").iterdir()
    sound = {path.name: path.stat().st_size for path in folder.iterdir()}
    name = {"missing": "model.xml", "list": "files.json", "tokenizer": "tokenizer.json"}.get(spoil, "model.bin")
    content = bytearray((folder / name).read_bytes())
    if spoil == "missing":
        (folder / name).unlink()
    elif spoil == "cut":
        (folder / name).write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 3] ^= 1
        (folder / name).write_bytes(content)
    made = []

    def convert(source: Path, part: Path, adapter: object) -> None:
        made.append(source)
        for path in (converted / "embedders" / folder.name).iterdir():
            shutil.copyfile(path, part / path.name)

    monkeypatch.setattr(openvino_model, "_convert", convert)
    opened(tmp_path / "cache", embedder, monkeypatch)
    assert made == [default_folder()]
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == sound
    assert os.listdir(tmp_path / "cache" / "embedders") == [folder.name]  # nothing temporary is left


@pytest.mark.slow
def test_a_cache_folder_that_cannot_be_written_and_older_versions_are_no_obstacle(
    converted, embedder, monkeypatch, tmp_path
):
    (folder,) = (converted / "embedders").iterdir()

    def convert(source: Path, part: Path, adapter: object) -> None:
        for path in folder.iterdir():
            shutil.copyfile(path, part / path.name)

    monkeypatch.setattr(openvino_model, "_convert", convert)
    (tmp_path / "file").write_text("")
    opened(tmp_path / "file", embedder, monkeypatch)
    older = tmp_path / "cache" / "embedders" / f"{embedder.weights_hash[:32]}-2020.1-1"
    older.mkdir(parents=True)
    opened(tmp_path / "cache", embedder, monkeypatch)
    assert not older.exists()


def test_without_openvino_torch_gives_the_same_vectors(embedder, monkeypatch, tmp_path):
    def refuse(*_args: object, **_options: object) -> None:
        raise NotConvertible("No module named openvino")

    monkeypatch.setattr(openvino_model, "open_converted", refuse)
    other = Embedder(DEFAULT_EMBEDDER)
    assert other.backend == "torch"
    np.testing.assert_allclose(other(TEXTS), embedder(TEXTS), atol=2e-6)
    assert other.weights_hash == embedder.weights_hash
    with pytest.raises(UserError, match=r"cannot use precision bf16.*use f32\.$"):
        Embedder(precision="bf16")(["a"])


def test_where_there_is_a_gpu_a_precision_of_the_cpu_says_how_to_compute_there(monkeypatch):
    """Before, the cure was f32 alone, which an index that was embedded in another refuses."""
    monkeypatch.setattr("corpora.retrievers.embedder._has_gpu", lambda: True)
    with pytest.raises(UserError, match="cannot use precision bf16.*CUDA_VISIBLE_DEVICES"):
        Embedder(precision="bf16")(["a"])


def other_form(folder: Path, adapter: object) -> None:
    raise OtherForm("torch converts it")


@pytest.mark.slow
def test_a_conversion_that_differs_from_torch_is_not_used(converted, embedder, monkeypatch, tmp_path):
    monkeypatch.setattr(openvino_model, "bert_graph", other_form)
    monkeypatch.setattr(openvino_model, "_least_cosine", lambda *_: 0.9999)
    monkeypatch.setattr(openvino_model, "cache_dir", lambda: tmp_path)
    with pytest.raises(NotConvertible, match=r"cosine of 0\.9999000 with that of torch"):
        open_converted(default_folder(), embedder.weights_hash, precision="f32", threads=1, batch_size=32)
    assert os.listdir(tmp_path / "embedders") == []


FORKED = """
import os, sys, threading
sys.path.insert(0, {root!r})
import numpy as np
from corpora.retrievers.embedder import Embedder

embedder = Embedder(threads=2)
expected = embedder(["a river"] * 20) if {used} else None
child = os.fork()
if child == 0:
    found = embedder(["a river"] * 20)
    os._exit(0 if expected is None or abs(found - expected).max() < 1e-5 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
found = embedder(["a river"] * 20)
sys.exit(status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("used", [False, True])
def test_a_forked_process_makes_its_own_model(embedder, used):
    assert embedder.backend == "openvino"  # the conversion is there
    script = FORKED.format(root=str(ROOT), used=used)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=240)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())
    assert not done.stderr


CTRL_C = """
import gc, signal, sys
sys.path.insert(0, {root!r})
from corpora.retrievers.embedder import Embedder

first, second = Embedder(threads=1), Embedder(threads=1)
first(["a river"]), second(["a lake"])
del first
gc.collect()
del second
gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    sys.exit(0)
"""


@pytest.mark.slow
def test_ctrl_c_after_models_were_closed_does_not_crash_the_process(embedder):
    """Each `openvino.Core` brings a stack for signal handlers; the one in use must never be freed."""
    assert embedder.backend == "openvino"  # the conversion is there
    done = subprocess.run([sys.executable, "-c", CTRL_C.format(root=str(ROOT))], capture_output=True, timeout=240)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())


def test_what_cannot_be_made_is_tried_again():
    made = []

    def make() -> int:
        made.append(1)
        if len(made) == 1:
            raise OSError("not yet")
        return len(made)

    value = PerProcess(make)
    with pytest.raises(OSError, match="not yet"):
        value()
    assert [value(), value()] == [2, 2]


@given(st.lists(st.integers(1, 60), max_size=50), st.integers(1, 9), st.integers(0, 40))
def test_batches_contain_every_text_once_and_little_padding(lengths, most, padding):
    batches = batches_of(lengths, most, padding)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch in batches:
        assert 0 < len(batch) <= most
        assert sum(lengths[batch[0]] - lengths[place] for place in batch) <= padding
