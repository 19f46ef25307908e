"""Work on a Ray cluster: outputs equal those of one process, also if workers or machines end meanwhile."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
import yaml

import regard
from regard.cli import inputs
from regard.cli import run as command
from regard.errors import DataError, RegardError
from regard.runs.cluster import connected
from regard.runs.sweep.halving import Halving
from regard.runs.sweep.remote import RemoteTrainings, Validated
from regard.runs.workers import ATTEMPTS, WorkerPool
from regard.tasks import sweep
from task_cases import configured

ray = pytest.importorskip("ray", reason="needs the package ray: pip install 'regard[ray]'")
MEMORY = 80 * 2**20
"""Bytes of each object store."""


@pytest.fixture(scope="module")
def cluster():
    """A cluster of a head without CPUs and two machines with one CPU each, in processes of this one."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(num_cpus=1, object_store_memory=MEMORY)
    ray.init(made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A file of words, which are divided into small chunks of the same sizes in every run, and its outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inputs, "FIRST_ROWS", 20)
    monkeypatch.setattr(inputs, "CHUNK_ROWS", 20)
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnoprstuvwxyz"))
    texts = ["".join(rng.choice(letters, rng.integers(2, 12))) for _ in range(400)]
    texts[33], texts[77] = "", "naïve☃"  # a blank one, and one with a symbol that the model does not know
    Path("words.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return texts


def predicted(name, *flags):
    """The exit status, and the content of the output file."""
    arguments = ["predict", "-m", "g2p-en", "-i", "words.txt", "-o", name, "--scores", "--confidence", *flags]
    return command(arguments), Path(name).read_bytes()


def during(monkeypatch, moment, action):
    """Calls `action` once: when so many results have come, or when the function `moment` says so."""
    original, count, is_done = WorkerPool._wait, 0, False

    def wait(pool):
        nonlocal count, is_done
        original(pool)
        count += 1
        if not is_done and (moment() if callable(moment) else count == moment):
            is_done = True
            action(pool)

    monkeypatch.setattr(WorkerPool, "_wait", wait)


def test_workers_of_a_cluster_write_the_bytes_of_one_process(words, cluster, capsys):
    alone = predicted("one.tsv")
    warnings = re.findall(r"words\.txt:.*", capsys.readouterr().err)
    assert predicted("ray.tsv", "--on", "ray") == alone
    assert re.findall(r"words\.txt:.*", capsys.readouterr().err) == warnings
    assert [each.split()[0] for each in warnings] == ["words.txt:34:", "words.txt:78:"]


def test_the_inputs_of_a_worker_that_is_killed_are_predicted_by_another(words, cluster, monkeypatch, capsys):
    alone = predicted("one.tsv")
    victims = []

    def choose(pool):
        victims.append(ray.get(pool._idle[-1].__ray_call__.remote(lambda worker: os.getpid())))

    during(monkeypatch, 1, choose)
    during(monkeypatch, 6, lambda pool: os.kill(victims[0], signal.SIGKILL))
    assert predicted("ray.tsv", "--on", "ray") == alone
    assert re.search(r"a worker of the cluster has ended with the inputs words.txt:\d+", capsys.readouterr().err)


def test_the_inputs_of_a_machine_that_is_lost_are_predicted_by_the_others(words, cluster, monkeypatch, capsys):
    alone = predicted("one.tsv")
    node = next(iter(cluster.worker_nodes))
    during(monkeypatch, 6, lambda pool: cluster.remove_node(node))
    assert predicted("ray.tsv", "--on", "ray") == alone
    assert "a worker of the cluster has ended" in capsys.readouterr().err
    cluster.add_node(num_cpus=1, object_store_memory=MEMORY)


def test_a_signal_that_comes_while_the_cluster_works_keeps_what_was_done(words, cluster, monkeypatch, capsys):
    @ray.remote(num_cpus=100)
    def never():
        pass

    def wait(pool):
        Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        ray.wait([never.remote()], timeout=60)

    def has_written():
        return Path("ray.tsv.partial").exists() and Path("ray.tsv.partial").stat().st_size > 0

    predict = ["predict", "-m", "g2p-en", "-i", "words.txt", "-o"]
    with monkeypatch.context() as patched:
        during(patched, has_written, wait)
        assert command([*predict, "ray.tsv", "--on", "ray"]) == 143
    done = int(re.search(r"the outputs of (\d+) inputs are in", capsys.readouterr().err)[1])
    assert len(Path("ray.tsv.partial").read_text().splitlines()) == done > 0
    # it continues in one process
    assert command([*predict, "ray.tsv", "--resume"]) == command([*predict, "one.tsv"])
    assert Path("ray.tsv").read_bytes() == Path("one.tsv").read_bytes()


def pool_of(cluster, work):
    return WorkerPool(cluster, regard.load("g2p-en", device="cpu"), work, name=lambda n: f"item {n}", tell=lambda _: 0)


def test_an_error_comes_after_the_results_before_it_and_nothing_is_read_far_ahead(cluster):
    read, results = [], []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    def work(number):
        if number == 20:
            raise DataError("line 20 is wrong")
        return number * number

    def collect(pool):
        for result in pool.in_order(items()):
            results.append(result)
            assert len(read) - len(results) <= 8

    with connected() as connection, pool_of(connection, work) as pool, pytest.raises(DataError, match="line 20"):
        collect(pool)
    assert results == [number * number for number in range(20)]


def test_an_item_that_ends_its_workers_is_an_error_in_the_end(cluster):
    def work(number):
        if number == 1:
            os._exit(1)

    message = f"{ATTEMPTS} workers of the cluster have ended with item 1"
    with connected(2) as connection, pool_of(connection, work) as pool, pytest.raises(RegardError, match=message):
        list(pool.in_order(range(3)))


def test_workers_take_a_gpu_each_where_there_are_any_and_say_why_they_cannot_begin(words, cluster, capsys):
    """The machine says that it has a GPU, which torch does not find."""
    node = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=MEMORY)
    assert command(["predict", "-m", "g2p-en", "-i", "words.txt", "-o", "a.tsv", "--on", "ray"]) == 2
    assert re.search(r"a worker of the cluster cannot begin:(.|\n)*sees 0 GPUs", capsys.readouterr().err)
    assert predicted("b.tsv", "--on", "ray", "--device", "cpu")[0] == predicted("c.tsv")[0]
    cluster.remove_node(node)
    assert command(["predict", "-m", "g2p-en", "-i", "words.txt", "--on", "ray", "--device", "cuda"]) == 2
    assert "the cluster has no GPUs" in capsys.readouterr().err


def test_batches_of_a_dataset_get_the_columns_of_outputs(cluster, tmp_path):
    words = ["attention", "regard", "library", "through", "hello", "world"]
    data = ray.data.from_items([{"id": i, "word": word} for i, word in enumerate(words)])
    made = data.map_batches(
        regard.ray.Predictor,
        fn_constructor_args=("g2p-en",),
        fn_constructor_kwargs={"input": "word", "output": "phones", "scores": True},
        concurrency=2,
        batch_size=2,
    )
    made.write_parquet(str(tmp_path / "made"))
    rows = sorted(ray.data.read_parquet(str(tmp_path / "made")).take_all(), key=lambda row: row["id"])
    model = regard.load("g2p-en")
    assert [row["phones"] for row in rows] == [each.text for each in model.predict(words)]
    assert {type(row["phones_score"]) for row in rows} == {float}


@pytest.fixture
def search(tmp_path, monkeypatch):
    """The configuration of a small search."""
    monkeypatch.chdir(tmp_path)
    path = configured("text_to_text", tmp_path / "data")
    values = yaml.safe_load(path.read_text())
    values["training"] |= {"max_steps": 6, "validate_every": 2}
    rate = {"low": 1e-4, "high": 1e-1, "log": True}
    values["sweep"] = {"trials": 3, "ranges": {"training.learning_rate": rate}}
    path.write_text(yaml.safe_dump(values))
    return path


def before_validation(monkeypatch, action):
    """Calls `action` with the first validation that a training reports."""
    original, calls = RemoteTrainings.next, []

    def following(trainings, seconds):
        event = original(trainings, seconds)
        if isinstance(event, Validated) and not calls:
            calls.append(event)
            action(event)
        return event

    monkeypatch.setattr(RemoteTrainings, "next", following)


def test_trainings_of_a_search_run_on_a_cluster_and_are_those_of_one_process(search, cluster):
    found = sweep(search, "together", on="ray")
    alone = sweep(search, "alone", settings={"sweep.trials": 1})
    assert [each.state for each in found.trials if each.number == 0] == ["finished"]
    assert len(found.trials) == 4
    assert found.trials[0].value == alone.trials[0].value
    name = "trials/000/model.safetensors"
    assert Path("together", name).read_bytes() == Path("alone", name).read_bytes()
    assert Path("together/best/model.safetensors").is_file()
    assert len(sweep(search, "together", settings={"sweep.trials": 4}).trials) == 5  # in one process again


def test_a_training_whose_process_is_killed_continues_elsewhere_to_the_same_model(search, cluster, monkeypatch):
    def kill(event):
        lock = Path(f"together/trials/{event.number:03}/.lock").read_text()
        os.kill(int(re.match(r"process (\d+)", lock)[1]), signal.SIGKILL)

    before_validation(monkeypatch, kill)
    found = sweep(search, "together", on="ray", num_workers=1, settings={"sweep.trials": 1})
    alone = sweep(search, "alone", settings={"sweep.trials": 1})
    assert [each.value for each in found.trials[:1]] == [each.value for each in alone.trials[:1]]


def test_halving_decides_at_each_validation_and_an_interrupted_search_continues(search, cluster, monkeypatch):
    monkeypatch.setattr(Halving, "stops", lambda halving, course, others: bool(course))
    before_validation(monkeypatch, lambda event: os.kill(os.getpid(), signal.SIGINT))
    stopped = sweep(search, "together", on="ray")
    assert stopped.signal == signal.SIGINT
    assert {(each.number > 0, each.state) for each in stopped.trials} <= {(True, "stopped")}
    assert list(Path("together/trials/000/checkpoints").iterdir())  # saved, with what it had learned
    found = sweep(search, "together", on="ray")
    assert [(each.state, each.validations) for each in found.trials] == [("finished", 3)] + [("stopped", 1)] * 3
