"""The command as a whole: start, help, errors, signals, pipes, and the commands that need no model."""

from __future__ import annotations

import inspect
import os
import re
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.models import OptionInfo

import regard
from regard.cli import data, main, run
from regard.cli.application import COMMANDS as COMMANDS_BY_NAME
from regard.data.text.synthetic import generate

COMMANDS = [
    *(
        "train",
        "adapt",
        "sweep",
        "evaluate",
        "compare",
        "predict",
        "align",
        "plot",
        "serve",
        "export",
        "info",
        "explain",
        "list",
    ),
    "data",
]


def python(code: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **how)  # type: ignore


def test_help_imports_nothing_heavy():
    code = (
        "import sys, regard.cli\n"
        "status = regard.cli.run(['--help'])\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'pydantic', 'yaml', 'rich'} & set(sys.modules)\n"
        "print('status', status, 'heavy', sorted(heavy))\n"
    )
    assert python(code).stdout.splitlines()[-1] == "status 0 heavy []"


def test_help_takes_less_than_half_a_second_of_computing():
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "regard", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


def test_help_says_what_a_key_of_several_tasks_means_in_each(capsys):
    assert run(["predict", "--help-all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--seed N Of sampling: with the same seed" in shown
    assert "In text_to_speech: the seed of the prenet's dropout and of the initial phases." in shown
    assert "In labelling: the most tokens of a batch, with padding." in shown
    assert shown.count("In language_modelling: ") == 1


def test_help_shows_common_settings_first_those_of_the_named_model_and_all_on_request(capsys):
    def flags(*words: str) -> set[str]:
        assert run(list(words)) == 0
        shown = capsys.readouterr().out.partition("Example:")[0]
        return set(re.findall(r"^ +(--[a-z-]+)", shown, re.MULTILINE))

    common, everything = flags("predict", "--help"), flags("predict", "--help-all")
    model = flags("predict", "--model", "g2p-en", "-h")
    assert {"--beam", "--threshold", "--steps", "--stop-threshold"} < common < everything
    assert {"--beam", "--max-length-ratio", "--num-groups"} < model < everything
    assert not {"--threshold", "--steps", "--stop-threshold"} & model
    assert {"--max-length-ratio"} < flags("explain", "g2p-en", "--help") & everything


def test_help_lists_every_verb_with_a_whole_sentence(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {command} ")]
        assert line.endswith(".")
        assert not line.endswith("...")


@pytest.mark.parametrize(
    "command",
    [
        *([command] for command in COMMANDS[:-1]),
        ["data", "cmudict"],
        ["data", "check"],
        ["data", "synthetic"],
        ["data", "vocoder"],
    ],
)
def test_every_command_has_an_example(capsys, command):
    assert run([*command, "--help"]) == 0
    assert f"Example: regard {' '.join(command)} " in capsys.readouterr().out


def test_the_module_runs_as_the_command_does():
    shown = subprocess.run([sys.executable, "-m", "regard", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"regard {regard.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["data", "chek"], "Did you mean 'check', 'cache'?"),
        (["predict", "--modle", "x", "a"], "--model"),
        (["info"], "Missing argument"),
    ],
)
def test_wrong_usage_suggests_the_nearest_and_has_status_2(capsys, arguments, message):
    assert run(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def broken(monkeypatch):
    """Makes `regard explain` raise."""

    class Tasks:
        error: BaseException

        def explain(self, model: object, beam: object = None) -> str:
            raise self.error

    tasks = Tasks()
    monkeypatch.setitem(sys.modules, "regard.tasks", tasks)
    monkeypatch.setattr(regard, "tasks", tasks, raising=False)
    return tasks


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (regard.errors.ConfigError("no such key"), 2, "no such key\n"),
        (regard.errors.DataError("a.tsv:3: no"), 2, "a.tsv:3: no\n"),
        (PermissionError(13, "Permission denied", "secret.tsv"), 2, "secret.tsv: Permission denied\n"),
        (KeyError("x"), 1, "regard failed with KeyError: 'x'\n  --debug shows the traceback.\n"),
        (OSError(28, "No space left on device"), 2, "output: No space left on device"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "Lower --batch-tokens"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_is_one_clear_message_and_a_status(broken, capsys, error, status, message):
    broken.error = error
    assert run(["explain"]) == status
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_command_that_ends_with_the_status_of_an_interruption_has_said_so_itself(broken, capsys):
    broken.error = typer.Exit(130)
    assert run(["explain"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["--debug", "explain"], ["explain", "--debug"]])
def test_debug_shows_where_an_error_came_from(broken, capsys, arguments):
    broken.error = regard.errors.DataError("a.tsv:3: no")
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "raise self.error" in err
    assert err.rstrip().endswith("DataError: a.tsv:3: no")


def test_debug_behind_two_dashes_is_text(capsys):
    assert run(["list", "--", "--debug"]) == 2
    assert "'--debug'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("bahdanu", "Did you mean 'bahdanau'?"), ("copyng", "Did you mean 'copying'?"), ("qqqq", "`regard list` lists")],
)
def test_a_name_that_nothing_has_is_told_the_most_similar_one(name, hint, capsys):
    assert run(["info", name]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"There is no folder and no shipped model {name!r}")
    assert hint in message


def test_warnings_are_lines_without_code(monkeypatch):
    original = warnings.formatwarning
    for words, line in (
        (["--version"], "warning: a thing\n"),
        (["--version", "--debug"], "a.py:1: UserWarning: a thing"),
    ):
        monkeypatch.setattr(warnings, "formatwarning", original)
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        with pytest.raises(SystemExit):
            main()
        assert warnings.formatwarning("a thing", UserWarning, "a.py", 1).startswith(line)


ENDLESS = """
import sys, types
tasks = types.ModuleType("regard.tasks")
tasks.catalogue = lambda: [("recipe", f"name{n}", "x" * 50) for n in range(100_000)]
sys.modules["regard.tasks"] = tasks
import regard
regard.tasks = tasks
from regard.cli import main
sys.argv[1:] = ["list"]
main()
"""


def test_a_reader_that_goes_away_ends_the_command_quietly():
    child = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.readline() == b"recipes\n"
    child.stdout.close()
    assert child.wait(timeout=60) == 141
    assert child.stderr.read() == b""
    child.stderr.close()


def test_output_is_utf_8_whatever_the_locale():
    code = "from regard.cli.standard import results\nwith results(None) as stream: print('é → ʃ', file=stream)\n"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    )
    assert shown.stdout.decode("utf-8") == "é → ʃ\n"


def test_synthetic_data_is_written_once(tmp_path, capsys):
    file = tmp_path / "new" / "copy.tsv"
    command = ["data", "synthetic", "copy", str(file), "--count", "5", "--max-length", "3", "--seed", "2"]
    assert run(command) == 0
    assert capsys.readouterr().out == f"{file}  5 pairs\n"
    expected = [f"{a}\t{b}" for a, b in generate("copy", 5, max_length=3, seed=2)]
    assert file.read_text().splitlines() == expected
    assert run(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run([*command, "--overwrite"]) == 0


def test_checking_data_reports_findings_and_fails_where_training_makes_no_sense(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("it's.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in generate("reverse", 50)))
    Path("dev.tsv").write_text("ab\tc\n")
    assert run(["data", "check", "it's.tsv", "dev.tsv"]) == 0
    assert "train has 50 pairs" in capsys.readouterr().out
    Path("a.yaml").write_text("data:\n  train: it's.tsv\n  dev_fraction: 0.3\n  format: parallel\n")
    assert run(["data", "check", "a.yaml"]) == 2
    assert capsys.readouterr().err.startswith("a.yaml:2:3: data.train: ")
    assert run(["data", "check", "a.yaml", "--set", "data.format=tsv"]) == 0
    Path("empty.tsv").write_text("\tx\n" * 30)
    assert run(["data", "check", "it's.tsv", "empty.tsv"]) == 2
    assert "error: " in capsys.readouterr().out
    sizes = ["--set", "model.architecture=transformer", "--set", "model.encoder={size: 30, heads: 4}"]
    assert run(["data", "check", "it's.tsv", *sizes]) == 2
    assert "size is 30; it must be a multiple of heads (4)" in capsys.readouterr().err
    assert run(["data", "check", "a", "b", "c"]) == 2
    assert run(["data", "check"]) == 2
    assert run(["data", "check", "a.yaml", "--preset", "g2p"]) == 2


def test_data_is_checked_as_a_preset_reads_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("forms.tsv").write_text(
        "".join(f"{a}\t{b}en\tV;{n % 2}\n" for n, (a, b) in enumerate(generate("reverse", 50)))
    )
    given = ["data.train=forms.tsv", "data.dev_fraction=0.3"]
    sets = [item for override in given for item in ("--set", override)]
    assert run(["data", "check", "--preset", "inflection", *sets]) == 0
    report = capsys.readouterr().out
    assert "plan: " in report
    assert run(["data", "check", "forms.tsv", "--preset", "inflection", "--set", given[1]]) == 0
    assert capsys.readouterr().out == report
    assert run(["data", "check", "forms.tsv", "--set", given[1]]) == 0
    assert capsys.readouterr().out != report
    assert run(["data", "check", "forms.tsv", "--preset", "inflexion"]) == 2
    assert "inflection" in capsys.readouterr().err


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command of the shell in which `regard` is this package."""
    text = command.replace("regard ", f"{sys.executable} -m regard ")
    return subprocess.run(["bash", "-c", text], capture_output=True, timeout=60, env={**os.environ, **environment})


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("regard predict -m g2p-en <&-", 2, b"stdin is closed; give texts as arguments, or a file with --input.\n"),
        ("regard predict -m g2p-en ab >&-", 2, b"stdout is closed; name a file with --output.\n"),
        ("regard predict -m g2p-en ab >/dev/full", 2, b"stdout: No space left on device\n"),
        ("regard list >/dev/full", 2, b"stdout: No space left on device\n"),
        ("regard --help >/dev/full", 2, b"output: No space left on device\n"),
        ("regard list keys >/dev/full", 2, b"stdout: No space left on device\n"),
        ("regard info g2p-en >/dev/full", 2, b"stdout: No space left on device\n"),
        ("regard explain bahdanau >/dev/full", 2, b"stdout: No space left on device\n"),
        ("regard predict -m g2p-en ab -o /dev/full", 2, b"/dev/full: No space left on device\n"),
        ("regard list >&-", 0, b""),
        ("regard predict -m nowhere ab 2>&-", 2, b""),
    ],
)
def test_closed_streams_and_full_disks_are_named(command: str, status: int, message: bytes) -> None:
    ended = shell(command)
    assert (ended.returncode, ended.stderr, ended.stdout) == (status, message, b"")


def test_a_full_disk_is_named_by_the_check_of_data(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(99)))
    ended = shell(f"regard data check {tmp_path / 'pairs.tsv'} >/dev/full")
    assert (ended.returncode, ended.stderr) == (2, b"stdout: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_lacks_a_character_shows_another(encoding: str) -> None:
    ended = shell("regard list recipes", PYTHONIOENCODING=encoding)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"e_j = v? tanh" in ended.stdout


def test_an_argument_that_is_not_utf_8_is_named_and_harms_no_other() -> None:
    ended = shell(r"regard predict -m g2p-en $'caf\xe9' ab")
    assert ended.returncode == 1  # it has no output
    assert [line.partition(b"\t")[0] for line in ended.stdout.splitlines()] == [rb"caf\udce9", b"ab"]
    assert b"half a surrogate pair" in ended.stderr


def test_every_option_is_declared_by_its_name():
    """Without it, some versions of typer take the placeholder of a value for the name: `--format FORMAT` vanishes."""
    functions = [function for function, _ in COMMANDS_BY_NAME.values()]
    functions += [command.callback for command in data.application.registered_commands]
    for function in functions:
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            for declared in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(declared, OptionInfo):
                    assert str(declared.default).startswith("-"), (function.__name__, parameter.name)
