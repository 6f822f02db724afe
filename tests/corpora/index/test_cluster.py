import builtins
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from corpora.index import cluster, embedding
from corpora.index.build import build_index
from corpora.index.cluster import Cluster, EncodeShards
from corpora.index.open import open_index
from corpora.retrievers.embedder import Embedder
from signatures.common.errors import UserError


class FakeRay:
    """Runs the function of the workers in this process, shards in reverse order, one call per shard."""

    def __init__(self, fail_after: int | None = None):
        self.fail_after = fail_after
        self.shards: list[int] = []
        self.running = False
        self.workers: list[int] = []
        self.data = SimpleNamespace(
            DataContext=SimpleNamespace(get_current=lambda: SimpleNamespace(enable_progress_bars=True)),
            ActorPoolStrategy=lambda size: size,
            from_items=self.from_items,
        )
        self.exceptions = SimpleNamespace(RayError=OSError)

    def is_initialized(self) -> bool:
        return self.running

    def init(self, address: str, **_options: object) -> None:
        if address == "nowhere":
            raise ConnectionError("ray.init()\n  no cluster at nowhere")
        self.running = True

    def shutdown(self) -> None:
        self.running = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0}

    def from_items(self, items: list, override_num_blocks: int) -> SimpleNamespace:
        def map_batches(kind: type, *, fn_constructor_args: tuple, compute: int, **_options: object) -> SimpleNamespace:
            self.workers.append(compute)
            worker = kind(*fn_constructor_args)

            def iter_rows():
                for item in reversed(items):
                    if len(self.shards) == self.fail_after:
                        raise OSError("a worker died\nnode 7 is lost")
                    self.shards.append(item["shard"])
                    batch = worker({name: [value] for name, value in item.items()})
                    yield {name: values[0] for name, values in batch.items()}

            return SimpleNamespace(iter_rows=iter_rows)

        assert override_num_blocks == len(items)
        return SimpleNamespace(map_batches=map_batches)


@pytest.fixture
def fake(monkeypatch):
    ray = FakeRay()
    monkeypatch.setattr(cluster, "_import_ray", lambda: ray)
    monkeypatch.setattr(embedding, "SHARD", 16)
    return ray


def vectors_of(folder: Path) -> bytes:
    return (folder / "dense" / "vectors.npy").read_bytes()


def test_the_function_of_a_worker_encodes_shards(fake_embedder):
    worker = EncodeShards(fake_embedder.maker(), fake_embedder.weights_hash)
    texts = ["amber brook", "cedar"]
    done = worker({"shard": np.array([3]), "texts": [np.array(texts, dtype=object)]})
    assert done["shard"] == [3]
    found = np.frombuffer(done["vectors"][0], dtype=np.float32).reshape(-1, done["width"][0])
    np.testing.assert_array_equal(found, fake_embedder(texts))
    with pytest.raises(UserError, match="another embedder 'fake'"):
        EncodeShards(fake_embedder.maker(), "0" * 64)


def test_a_cluster_builds_the_index_that_one_machine_builds(fake, tmp_path, corpus, fake_embedder):
    build_index(corpus, tmp_path / "alone", embedder=fake_embedder)
    build_index(corpus, tmp_path / "many", embedder=fake_embedder, cluster=Cluster())
    assert vectors_of(tmp_path / "many") == vectors_of(tmp_path / "alone")
    opened = [open_index(tmp_path / name, embedder=fake_embedder) for name in ("alone", "many")]
    assert opened[0].fingerprint == opened[1].fingerprint
    assert opened[0]("amber", 5) == opened[1]("amber", 5)
    assert fake.shards == [3, 2, 1, 0]
    assert fake.workers == [4]
    assert not fake.running


def test_what_a_cluster_lost_is_resumed(fake, tmp_path, corpus, fake_embedder):
    fake.fail_after = 2
    where = Cluster("auto", workers=1)
    with pytest.raises(UserError, match=r"cluster 'auto' failed \(node 7 is lost\): correct it, then resume"):
        build_index(corpus, tmp_path / "i", embedder=fake_embedder, cluster=where)
    assert not fake.running
    fake.fail_after = None
    build_index(corpus, tmp_path / "i", embedder=fake_embedder, cluster=where, resume=True)
    assert fake.shards == [3, 2, 1, 0]  # none of them twice
    build_index(corpus, tmp_path / "alone", embedder=fake_embedder)
    assert vectors_of(tmp_path / "i") == vectors_of(tmp_path / "alone")


def test_the_wave_is_bounded_and_an_unreachable_cluster_is_one_line(fake, tmp_path, corpus, fake_embedder, monkeypatch):
    monkeypatch.setattr(cluster, "_WAVE", 1)
    build_index(corpus, tmp_path / "i", embedder=fake_embedder, cluster=Cluster("local", workers=2))
    assert fake.shards == [1, 0, 3, 2]
    with pytest.raises(UserError, match=r"'nowhere' failed \(no cluster at nowhere\)"):
        build_index(corpus, tmp_path / "j", embedder=fake_embedder, cluster=Cluster("nowhere"))


def test_without_ray_the_cure_is_named(tmp_path, corpus, fake_embedder, monkeypatch):
    original = builtins.__import__

    def missing(name: str, *arguments: object, **options: object):
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UserError, match=r"pip install 'verihop\[cluster\]'"):
        build_index(corpus, tmp_path / "i", embedder=fake_embedder, cluster=Cluster())


@pytest.mark.slow
def test_two_real_workers_write_the_same_bytes(tmp_path, corpus, monkeypatch):
    pytest.importorskip("ray.data", reason="Ray is not installed (extra `cluster`)")
    monkeypatch.setattr(embedding, "SHARD", 16)
    root = str(Path(__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", root)  # workers import this package
    build_index(corpus, tmp_path / "alone", embedder=Embedder(threads=1))
    build_index(corpus, tmp_path / "many", embedder=Embedder(threads=1), cluster=Cluster("local", workers=2))
    assert vectors_of(tmp_path / "many") == vectors_of(tmp_path / "alone")
    assert open_index(tmp_path / "many").fingerprint == open_index(tmp_path / "alone").fingerprint
