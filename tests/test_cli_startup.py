"""What a command imports: nothing that its work does not need, because imports are most of a short command's time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from regard import tasks
from regard.ops.choose import steps_for
from regard.ops.eligibility import numba_reason, only_loaded_kernels

NEEDLESS = {
    "matplotlib", "PIL", "scipy", "numba", "llvmlite", "rich", "tensorboard", "sentencepiece", "charset_normalizer",
    "torch._dynamo", "torch._inductor", "torch.onnx", "regard.testing", "regard.training.loop",
}  # fmt: skip


def after(code: str) -> tuple[str, set[str]]:
    """What code prints in a process of its own, and the modules that it leaves there."""
    code = f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    *printed, modules = ran.stdout.splitlines()
    return "\n".join(printed), set(json.loads(modules))


def test_predict_imports_nothing_that_predicting_a_few_words_does_not_need():
    printed, modules = after("from regard.cli import run\nrun(['predict', '--model', 'g2p-en', 'attention', 'regard'])")
    assert printed.startswith("attention\tAH T EH N SH AH N\nregard\t")
    assert "torch" in modules
    assert modules & NEEDLESS == set()
    assert len([name for name in modules if name.startswith("regard")]) <= 350
    assert not {name for name in modules if name.startswith(("regard.data.series", "regard.metrics.speech"))}


def test_loading_a_model_in_python_imports_no_matplotlib():
    _, modules = after("import regard\nregard.load('g2p-en')")
    assert modules & NEEDLESS == set()


def test_a_page_is_written_and_alignments_are_saved_without_matplotlib(tmp_path):
    code = f"import regard\nweights, folder = [[1.0, 0.0]], {str(tmp_path)!r}\n"
    code += "regard.plot_alignment(weights, folder + '/a.html')\nregard.save_alignment(weights, folder + '/a.json')"
    _, modules = after(code)
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "a.json"}
    assert "matplotlib" not in modules
    assert "torch" not in modules


def test_names_that_are_imported_late_are_there_and_others_are_not():
    import regard.training
    from regard.tasks import train
    from regard.training import Outcome

    assert (train.__module__, Outcome.__module__) == ("regard.runs.training", "regard.training.outcome")
    for package in (tasks, regard.training):
        with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'tarin'"):
            _ = package.tarin


def test_kernels_that_are_not_loaded_are_left_alone_for_little_work_only():
    printed, _ = after(
        "from regard.ops.choose import steps_for\n"
        "from regard.ops.eligibility import only_loaded_kernels, numba_reason\n"
        "name = 'regard.ops.kernels.cells'\n"
        "with only_loaded_kernels():\n"
        "    print(numba_reason(name))\n"
        "    print(steps_for('cells', 'cpu').__name__, 'numba' in sys.modules)\n"
        "print(numba_reason(name), steps_for('cells', 'cpu').__name__)"
    )
    refusal, few, many = printed.splitlines()
    assert "not loaded yet" in refusal
    assert few == "regard.ops.cells False"
    assert many == "None regard.ops.kernels.cells"


def test_kernels_that_are_loaded_already_are_taken_for_little_work_too():
    assert steps_for("cells", "cpu").__name__ == "regard.ops.kernels.cells"
    with only_loaded_kernels():
        assert numba_reason("regard.ops.kernels.cells") is None


def test_a_few_words_and_many_give_the_same_outputs_and_scores(tmp_path):
    words = ["attention", "regard", "library", "through"]
    more = [*words, *(f"word{'s' * (i % 7)}" for i in range(400))]
    outputs = []
    for number, texts in enumerate((words, more)):
        (tmp_path / f"{number}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        arguments = ["predict", "-m", "g2p-en", "-i", f"{tmp_path}/{number}.txt", "--format", "jsonl"]
        printed, modules = after(f"from regard.cli import run\nrun({arguments!r})")
        assert ("numba" in modules) == (number == 1)
        outputs.append([json.loads(line) for line in printed.splitlines()][: len(words)])
    few, many = outputs
    assert [one["text"] for one in few] == [one["text"] for one in many]
    np.testing.assert_allclose(
        [one["log_probability"] for one in few], [one["log_probability"] for one in many], atol=1e-4
    )


def test_weights_of_8_bits_load_the_kernels_for_a_single_word_too():
    printed, modules = after("from regard.cli import run\nrun(['predict', '-m', 'g2p-en', '--weights', 'int8', 'cat'])")
    assert printed == "cat\tK AE T"
    assert "numba" in modules
