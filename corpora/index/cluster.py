"""Embed a corpus with Ray Data on many machines (extra `cluster`); the result is that of a build on one.

The texts of a shard travel to a worker, and its vectors back to the machine that builds, which writes the shards. So
the machines need no shared folder, only this package and the embedder.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from corpora.retrievers.embedder import Embedder, Vectors
from signatures.common.errors import UserError, needing, one_line

_WAVE = 64  # shards per worker that are sent at a time; bounds memory

Make = Callable[[], Embedder]
Row = dict[str, Any]


class Cluster(NamedTuple):
    """Where a corpus is embedded.

    Args:
        address: "local" for processes of this machine, "auto" for the cluster that this machine belongs to, or
            `ray://HOST:10001`.
        workers: Processes; None for as many as the cluster has cores for.
        threads: CPU cores of each worker.
    """

    address: str = "auto"
    workers: int | None = None
    threads: int = 1


class EncodeShards:
    """What a worker runs: texts of shards in, vectors out. It loads the model once.

    Raises:
        UserError: The worker has another model of that name.
    """

    def __init__(self, make: Make, weights_hash: str):
        self._embedder = make()
        if self._embedder.weights_hash != weights_hash:
            raise UserError(f"A worker has another embedder {self._embedder.id!r}: install the same on all machines.")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return `shard`, `vectors` (bytes of float32) and `width` for `shard` and `texts`."""
        encoded = [self._embedder.passages([str(text) for text in texts]) for texts in batch["texts"]]
        return {
            "shard": list(batch["shard"]),
            "vectors": [vectors.tobytes() for vectors in encoded],
            "width": [vectors.shape[1] for vectors in encoded],
        }


def embed_on_cluster(
    shards: Sequence[int], texts_of: Callable[[int], list[str]], embedder: Embedder, cluster: Cluster
) -> Iterator[tuple[int, Vectors]]:
    """Yield number and vectors of each shard, in the order in which they are finished.

    Args:
        shards: Numbers of the shards to embed.
        texts_of: Returns the texts of a shard.
        embedder: The workers open the model of the same name.
        cluster: The machines.

    Raises:
        UserError: Ray is not installed, the cluster cannot be reached, or a worker failed.
    """
    ray = _import_ray()
    started = not ray.is_initialized()
    try:
        try:
            if started:
                cores: dict[str, Any] = {}
                if cluster.address == "local" and cluster.workers is not None:
                    cores = {"num_cpus": cluster.workers * cluster.threads}
                ray.init(cluster.address, log_to_driver=False, logging_level="ERROR", **cores)
            ray.data.DataContext.get_current().enable_progress_bars = False
            logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what matters comes as an exception
            workers = cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // cluster.threads)
            make = embedder.maker(threads=cluster.threads)
            for start in range(0, len(shards), _WAVE * workers):
                wave = shards[start : start + _WAVE * workers]
                items = [{"shard": number, "texts": texts_of(number)} for number in wave]
                rows = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
                    EncodeShards,
                    fn_constructor_args=(make, embedder.weights_hash),
                    batch_size=1,
                    num_cpus=cluster.threads,
                    compute=ray.data.ActorPoolStrategy(size=min(workers, len(wave))),
                )
                for row in rows.iter_rows():
                    yield _decoded(row)
        finally:
            if started:
                ray.shutdown()
    except (ray.exceptions.RayError, ConnectionError, ValueError) as error:
        reason = one_line(str(error).strip().splitlines()[-1] if str(error).strip() else repr(error), 200)
        raise UserError(f"The cluster {cluster.address!r} failed ({reason}): correct it, then resume.") from error


def _decoded(row: Row) -> tuple[int, Vectors]:
    vectors = np.frombuffer(row["vectors"], dtype=np.float32).reshape(-1, int(row["width"]))
    return int(row["shard"]), vectors


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    with needing("cluster", "Building on a cluster"):
        import ray
        import ray.data
    return ray
