"""Where an evaluation on Ray runs: a cluster that ends with the command, or one that is there and stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("ray")

from redraft.evals.commands.ray_cluster import ray_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOMEONES = """
    import os, sys
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    context = ray.init(
        "local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20
    )
    print(context.address_info["gcs_address"], flush=True)
    sys.stdin.readline()
    print(ray.get(ray.remote(lambda: "still there").options(num_cpus=0).remote()), flush=True)
"""


@pytest.fixture
def someones() -> Iterator[subprocess.Popen[str]]:
    """A cluster that another process has started; its first line is the address."""
    command = [sys.executable, "-c", textwrap.dedent(SOMEONES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        yield owner


def test_a_cluster_of_ones_own_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is started here, reports nothing, hands its workers this environment, logs no key, and is gone afterwards."""
    import ray
    from ray._common.usage.usage_lib import usage_stats_enabled

    monkeypatch.setenv("REDRAFT_API_KEY", "secret-key")
    before = signal.getsignal(signal.SIGTERM)
    with ray_cluster(None, workers=1):
        assert ray.cluster_resources()["CPU"] == 1
        assert not usage_stats_enabled()
        assert signal.getsignal(signal.SIGTERM) == before
        key, parent = ray.get(ray.remote(lambda: (os.environ["REDRAFT_API_KEY"], os.getppid())).remote())
        assert key == "secret-key"
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        written = [path for path in session.rglob("*") if path.is_file()]
        assert written
        assert [path for path in written if b"secret-key" in path.read_bytes()] == []
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(ProcessLookupError):
        os.kill(parent, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("postgres_server")
def test_a_cluster_that_is_there_is_used_and_stays(
    someones: subprocess.Popen[str], postgres_url: str, serve: Callable[..., Any], tmp_path: Path
) -> None:
    """The job runs on the machines of a cluster by its address, which goes on when the command has ended."""
    import asyncio

    import ray
    from redraft.evals.datasets.dataset import Dataset, Problem
    from redraft.evals.run.ray_engine import RayJob, run_on_ray
    from redraft.evals.run.run_folder import ResultFile

    assert someones.stdin is not None
    assert someones.stdout is not None
    data = Dataset("sums", "exact", "0" * 64, tuple(Problem(f"p-{n}", f"What is {n}?", str(n)) for n in range(4)))
    server = serve(lambda request: "#### 3")
    job = RayJob("run", "zero-shot", "exact", server.spec, postgres_url)
    # A cluster of this version wants its token, which Ray reads here once it has started one: users set RAY_AUTH_MODE.
    with ray_cluster(None, workers=1):
        pass
    with ray_cluster(someones.stdout.readline().strip(), workers=1), ResultFile(tmp_path / "results.jsonl") as file:
        progress = asyncio.run(run_on_ray(job, data, file, workers=1))
    assert (progress.done, progress.good) == (4, 1)
    assert not ray.is_initialized()
    someones.stdin.write("\n")
    someones.stdin.flush()
    assert someones.stdout.readline() == "still there\n"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        *[(address, ValueError) for address in ("", "ray://host:10001", "host", "host:port", "host:70000")],
        ("127.0.0.1:1", ConnectionError),
    ],
)
def test_an_address_without_a_cluster_is_named(address: str, kind: type[Exception]) -> None:
    """A user reads on one line which address is wrong."""
    import ray

    with pytest.raises(kind) as raised, ray_cluster(address, workers=1):
        pass
    assert repr(address) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not ray.is_initialized()
