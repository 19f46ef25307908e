from __future__ import annotations

import json
import shutil
import socket
import time

import pytest
import torch
from safetensors.torch import load_file

from regard.training import processes
from support.forked import Started
from training_processes import ACCUMULATED, BEGINS, CHANGES, continued, main, run, write


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("processes")
    write(made)
    return made


def start(scenario, folder, count=2):
    """Starts so many processes and returns the exit status and the output of each."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [Started.of(main, scenario, folder, folder=folder, RANK=str(rank), **shared) for rank in range(count)]
    return [process.end(timeout=900) for process in started]


def succeed(scenario, folder, count=2):
    ended = start(scenario, folder, count)
    assert [status for status, _, _ in ended] == [0] * count, "\n".join(out + err for _, out, err in ended)
    return ended


def last_weights(run_folder):
    newest = (run_folder / "checkpoints" / "latest").read_text().strip()
    return load_file(run_folder / "checkpoints" / newest / "model.safetensors")


def lines(run_folder):
    entries = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    for entry in entries:
        del entry["timing"]
    return entries


@pytest.fixture(scope="module")
def printed(folder):
    """Output and errors of each of two processes, by the function that it calls: all that may share the processes."""
    names = ["steps_of_one", "resumed", "undivided", "broken", "signalled"]

    def parts(text):
        _, *found = text.split(BEGINS)
        assert [part.partition("\n")[0] for part in found] == names
        return found

    ended = succeed(",".join(names), folder)
    return [dict(zip(names, zip(parts(out), parts(err), strict=True), strict=True)) for _, out, err in ended]


@pytest.fixture(scope="module")
def together(folder, printed):
    """Runs of two processes, and the same runs of one."""
    for name, changes in CHANGES.items():
        run(folder, f"one {name}", changes)
    return [one["steps_of_one"] for one in printed]


@pytest.mark.parametrize("name", CHANGES)
def test_two_processes_make_the_model_that_one_makes(together, folder, name):
    one, two = (last_weights(folder / f"{number} {name}") for number in ("one", "two"))
    assert one.keys() == two.keys()
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=1e-10, msg=lambda text, key=key: f"{key}: {text}")
    saved = [load_file(folder / f"{number} {name}" / "model.safetensors") for number in ("one", "two")]
    torch.testing.assert_close(saved[0], saved[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CHANGES)
def test_two_processes_keep_the_log_of_one(together, folder, name):
    one, two = (lines(folder / f"{number} {name}") for number in ("one", "two"))
    assert len(one) == len(two)
    for expected, found in zip(one, two, strict=True):
        assert found == pytest.approx(expected, abs=1e-9)


def test_one_process_speaks_and_the_others_are_silent(together):
    (_, first), (_, second) = together
    assert "validation" in first
    assert "validation" not in second


def test_the_dropout_of_these_runs_is_at_work(together, folder):
    plain, dropped = (last_weights(folder / f"two {name}") for name in ("no dropout", "dropout"))
    assert any(not torch.allclose(plain[key], dropped[key], atol=1e-3) for key in plain)


@pytest.fixture(scope="module")
def resumed(folder, printed):
    """Runs of two processes, interrupted and continued, or not."""
    return folder


def test_a_run_of_two_processes_that_was_interrupted_ends_bit_for_bit_like_one_that_was_not(resumed, folder):
    for sharding in ("none", "fsdp"):
        whole, parts = (folder / f"{kind} {sharding}" for kind in ("whole", "parts"))
        expected, found = last_weights(whole), last_weights(parts)
        assert all(torch.equal(found[key], expected[key]) for key in expected)
        assert lines(parts) == lines(whole)
    plain, sharded = (last_weights(folder / f"whole {sharding}") for sharding in ("none", "fsdp"))
    torch.testing.assert_close(plain, sharded, rtol=0, atol=1e-10)


def test_one_process_continues_what_two_began_and_says_so(resumed, folder, capsys):
    continued = folder / "parts fsdp"
    (continued / "outcome.json").unlink()
    earlier, changes = (["training.validate_every=3", f"training.max_steps={steps}"] for steps in (5, 8))
    run(folder, continued.name, changes)
    assert "The run was started by 2 processes and continues with 1 process" in capsys.readouterr().err
    run(folder, "alone", earlier)
    (folder / "alone" / "outcome.json").unlink()
    run(folder, "alone", changes)
    torch.testing.assert_close(last_weights(continued), last_weights(folder / "alone"), rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def begun(folder):
    """Runs that four processes have begun and one, two, three or more continue, and those of one process alone."""
    succeed("begun", folder, count=4)
    run(folder, "alone begun", [*ACCUMULATED, "training.max_steps=3"])
    for sharding in ("none", "fsdp"):
        (folder / f"begun {sharding}" / "outcome.json").unlink()
    (folder / "alone begun" / "outcome.json").unlink()
    run(folder, "alone begun", [*ACCUMULATED, "training.max_steps=7"])
    return folder


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_any_number_of_processes_continues_what_four_began(begun, count, capsys):
    for sharding in ("none", "fsdp"):
        shutil.copytree(begun / f"begun {sharding}", begun / f"by {count} {sharding}")
    if count == 1:
        continued(begun)
        printed = capsys.readouterr().err
    else:
        printed = succeed("continued", begun, count=count)[0][2]
    assert f"The run was started by 4 processes and continues with {count} process" in printed
    for sharding in ("none", "fsdp"):
        expected, found = last_weights(begun / "alone begun"), last_weights(begun / f"by {count} {sharding}")
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        for ours, theirs in zip(lines(begun / f"by {count} {sharding}"), lines(begun / "alone begun"), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-9)


def test_a_process_that_is_killed_ends_the_others_with_a_line_that_says_so(folder):
    began = time.monotonic()
    (first, out, _), (second, _, _) = start("killed", folder)
    assert second == -9
    assert first == 0
    assert "another process of this run has ended" in out
    assert "continues from the last checkpoint" in out
    assert time.monotonic() - began < 600, "it waited"


@pytest.fixture(scope="module")
def refused(printed):
    return [one["undivided"][0] + one["broken"][0] for one in printed]


def test_a_loss_that_is_not_finite_in_one_process_ends_all(refused):
    assert all("The loss is inf at step 3" in out for out in refused)


def test_a_signal_to_one_process_ends_all_with_its_status(printed):
    assert all("interrupted 3 15" in one["signalled"][0] for one in printed)


def test_a_trainee_that_cannot_be_divided_is_refused(refused):
    assert all("UnsupportedError: Plain cannot be trained by 2 processes" in out for out in refused)


def test_a_stream_that_processes_share_comes_back_in_order(folder):
    succeed("ordered", folder, count=3)


def test_shares_come_together_in_order():
    for count in range(1, 5):
        values = list(range(7))
        assert processes.merged([values[number::count] for number in range(count)]) == values
