"""How the house is built: which room may know which, and what may never stand in it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import regard
from regard.interop import KINDS, variants
from regard.lazy import OnDemand

ROOT = Path(regard.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))

ORDER = ["ops", "audio", "image", "layers", "attention", "losses", "models"]
ORDER += ["decoding", "training", "runs", "tasks", "interop", "ray", "serve", "cli"]
GROUND = {"errors", "files", "lazy", "shapes", "tree", "weights"}
BESIDE = {"data", "config", "viz", "metrics"}
VARIANTS = "regard.interop.variants"
"""The tables of other programs' variants, the only module of `interop` that every room may import."""


@cache
def trees():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def room_of(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def allowed(room):
    """What a room may import besides itself, or None for all."""
    if room in GROUND:
        return GROUND
    if room in BESIDE:
        return GROUND | BESIDE | {"audio", "image", "pretrained", "presets", "__init__"}
    if room in ("audio", "image"):
        return GROUND | {"ops"}
    if room == "record":
        return GROUND | set(ORDER[: ORDER.index("losses")]) | {"viz"}
    if room == "testing":
        return GROUND | set(ORDER[: ORDER.index("training")])
    if room in ORDER:
        below = set(ORDER[: ORDER.index(room)])
        beside = BESIDE | {"audio", "image", "pretrained"} if ORDER.index(room) >= ORDER.index("training") else set()
        beside = beside | ({"config", "viz"} if room == "decoding" else set())
        front = {"__init__"} if room in ("runs", "tasks", "cli", "training", "serve") else set()
        return GROUND | below | beside | front
    return None


def imported(tree):
    """(line, room) of every import of the package, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and VARIANTS in (node.module, f"{node.module}.{node.names[0].name}"):
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "regard":
            parts = node.module.split(".")
            rooms = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from ((node.lineno, room) for room in rooms)
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            yield node.lineno, f"a relative import of {node.module}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "regard":
                    yield node.lineno, [*alias.name.split("."), "__init__"][1]


def known(room):
    """A room or module of the package; a name defined in `regard/__init__.py` counts as that."""
    return room if (ROOT / room).exists() or (ROOT / f"{room}.py").exists() or " " in room else "__init__"


def wrong_imports(path, tree):
    room = room_of(path)
    may = allowed(room)
    if may is None:
        return []
    return [
        f"{path.name}:{line} {room} imports {other}"
        for line, other in ((line, known(other)) for line, other in imported(tree))
        if other != room and other not in may
    ]


def test_a_task_imports_no_other_and_what_tasks_share_imports_none():
    tasks = ROOT / "tasks"
    rooms = {path.parent.name for path in tasks.glob("*/__init__.py")} - {
        "text_generation"
    }  # what tasks of texts share
    may = {"__init__.py": rooms, "table.py": rooms}
    for path in tasks.rglob("*.py"):
        own = {path.parent.name} if path.parent != tasks else may.get(path.name, set())
        names = {name for room in rooms - own for name in re.findall(rf"regard\.tasks\.{room}\b", path.read_text())}
        assert not names, f"{path}: {names}"


def test_imports_run_one_way():
    found = [wrong for path, tree in trees().items() for wrong in wrong_imports(path, tree)]
    assert found == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("ops", "from regard.layers import TokenHead"),
        ("attention", "from regard import models"),
        ("data", "import regard.models.contract"),
        ("viz", "def plot():\n    from regard.decoding import Prediction"),
        ("testing", "from regard.tasks import load"),
        ("layers", "from . import recurrent"),
        ("audio", "from regard.layers import Dropout"),
        ("image", "from regard.data import Strokes"),
        ("image", "from regard.audio import FrontEnd"),
        ("decoding", "from regard.interop import tfa"),
        ("training", "from regard.interop import tfa"),
    ],
)
def test_an_import_against_the_order_is_noticed(room, line):
    assert len(wrong_imports(ROOT / room / "some.py", ast.parse(line))) == 1


def test_every_room_has_its_place_in_the_order():
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {*ORDER, *BESIDE, "audio", "image", "record", "testing", "pretrained", "presets"} == set()


def test_the_tables_of_variants_import_no_room_and_name_what_there_is():
    tree = ast.parse((ROOT / "interop/variants.py").read_text(encoding="utf-8"))
    assert {room for _, room in imported(tree)} == {"lazy"}
    others = ("TYPE_CHECKING", "PROGRAMS")
    values = [value for name, value in vars(variants).items() if name.isupper() and name not in others]
    tables = [table for value in values for table in ([value] if isinstance(value, OnDemand) else value.values())]
    assert sum(len(table) for table in tables) > 40
    for table in tables:
        assert None not in table.values(), table.places


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(tree, modules, *, inner=True):
    """The modules that a file imports, those for type checkers left out, and without `inner` those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported_modules(ast.Module(node.orelse, []), modules, inner=inner)
        elif inner or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported_modules(node, modules, inner=inner)


def circles(graph):
    """The groups of modules that import each other around, directly or not."""
    while ends := {module for module, others in graph.items() if not others}:  # what imports nothing is in no circle
        graph = {module: others - ends for module, others in graph.items() if module not in ends}

    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    all_reached = {module: reached(module) for module in graph}
    return {frozenset(other for other in of if m in all_reached[other]) for m, of in all_reached.items() if m in of}


def test_no_circle_of_imports_has_more_than_three_files():
    files = {module_of(path): tree for path, tree in trees().items()}
    graph = {
        name: {other for other in imported_modules(tree, files) if other in files} - {name}
        for name, tree in files.items()
    }
    assert [sorted(circle) for circle in circles(graph) if len(circle) > 3] == []


def test_every_module_can_be_the_first_that_is_imported():
    """Importing a module runs the packages that it lies in, too, and none of these may need it again."""
    files = {module_of(path): tree for path, tree in trees().items()}
    graph = {name: set() for name in files}
    for name, tree in files.items():
        for other in imported_modules(tree, files, inner=False):
            parts = other.split(".")
            packages = {".".join(parts[:end]) for end in range(2, len(parts) + 1)} & files.keys()
            graph[name] |= {package for package in packages if not f"{name}.".startswith(f"{package}.")}
    assert circles(graph) == set()


def test_a_circle_of_imports_is_noticed():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}
    assert circles(graph) == {frozenset("abc")}


PROGRAMS = re.compile("|".join({*variants.PROGRAMS, *KINDS} - {"tfa", "torch"}), re.I)
NAMING = {
    "cli/application.py": "the example of `regard convert`",
    "config/search.py": "texts about keys say which program counts so",
    "config/texts.py": "texts about keys say which program has that default or layout",
    "tasks/image_to_text/config.py": "the text about a key says which program has that captioner",
}
"""Files outside `interop` that name a program in their code, and why."""


def named_programs(tree):
    """(line, text) of identifiers and strings with the name of a program; docstrings may cite one."""
    alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {value for value in alone if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        words = {word for _, word in ast.iter_fields(node) if isinstance(word, str)}
        for word in words:
            if node not in docstrings and PROGRAMS.search(word):
                yield getattr(node, "lineno", 0), word


def test_other_programs_are_named_in_their_rooms_only():
    found = {}
    for path, tree in trees().items():
        if room_of(path) != "interop" and (named := list(named_programs(tree))):
            found[str(path.relative_to(ROOT))] = named
    assert {name: named for name, named in found.items() if name not in NAMING} == {}
    assert found.keys() == NAMING.keys()


@pytest.mark.parametrize("line", ["like = 'espnet'", "from_marian(x)", "def nvidia(): pass", "x.coqui", "f(rayhane=1)"])
def test_the_name_of_a_program_is_noticed(line):
    assert len(list(named_programs(ast.parse(line)))) == 1


MAY_SET = {"__init__", "__init_subclass__", "reset_parameters", "__post_init__"}


SETTERS = {"setattr", "object.__setattr__", "self.register_buffer", "self.register_parameter"}


def set_outside(tree):
    """(line, method) of every attribute set on self outside the methods that may."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for method in (node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name not in MAY_SET):
            for node in ast.walk(method):
                stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                on_self = stored and ast.unparse(node.value) == "self"
                if on_self or (isinstance(node, ast.Call) and ast.unparse(node.func) in SETTERS):
                    yield node.lineno, f"{kind.name}.{method.name}"


def test_nothing_is_set_on_a_module_during_a_call():
    found = [
        f"{path.relative_to(ROOT)}:{line} {where}"
        for path, tree in trees().items()
        if room_of(path) in ("ops", "layers", "attention", "models", "losses")
        for line, where in set_outside(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "body", ["self.x = 1", "self.x, y = 1, 2", "self.x += 1", "setattr(self, 'x', 1)", "self.x: int = 1"]
)
def test_setting_on_a_module_is_noticed(body):
    tree = ast.parse(f"class A:\n    def __init__(self):\n        self.y = 1\n    def forward(self):\n        {body}\n")
    assert [where for _, where in set_outside(tree)] == ["A.forward"]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


def test_help_and_the_command_line_need_no_torch():
    code = (
        "import sys, contextlib, io\n"
        "import regard.cli\n"
        "assert 'torch' not in sys.modules, 'import regard.cli'\n"
        "sys.argv = ['regard', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "    regard.cli.main()\n"
        "assert 'torch' not in sys.modules, 'regard --help'\n"
        "print(said.getvalue())\n"
    )
    assert "train" in run(code)


def test_importing_the_package_loads_no_heavy_module():
    loaded = run("import sys, regard; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert not {"torch", "matplotlib", "pandas", "transformers", "tensorboard", "sentencepiece"} & set(loaded)


EXECUTING = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
"""Modules that execute what they read."""


def executing(tree):
    """(line, name) of every call that executes what it reads, and of every import of a module that does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in EXECUTING)
        elif isinstance(node, ast.ImportFrom) and node.module in EXECUTING:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            is_unsafe_load = name == "torch.load" and "weights_only=True" not in map(ast.unparse, node.keywords)
            if is_unsafe_load or name in {"eval", "exec", "yaml.load", "yaml.unsafe_load"}:
                yield node.lineno, name


def test_checkpoints_never_run_code():
    assert [f"{path}:{line} {name}" for path, tree in trees().items() for line, name in executing(tree)] == []


@pytest.mark.parametrize(
    "line", ["eval(x)", "torch.load(x)", "torch.load(x, weights_only=False)", "import pickle", "from dill import load"]
)
def test_what_executes_what_it_reads_is_noticed(line):
    assert len(list(executing(ast.parse(line)))) == 1


def modules():
    for found in pkgutil.walk_packages([str(ROOT)], "regard."):
        absent = "triton" in found.name and importlib.util.find_spec("triton") is None
        if not found.name.endswith("__main__") and not absent:
            yield importlib.import_module(found.name)


SPOKEN = {"ops", "layers", "attention", "losses", "models", "decoding", "interop", "testing", "audio", "image"}


def undocumented():
    """Public modules, classes and functions without a docstring, and methods in the rooms that keep the contract."""
    for module in modules():
        things = {module.__name__: module}
        for name, thing in vars(module).items():
            if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__:
                if inspect.isclass(thing) and module.__name__.split(".")[1] in SPOKEN:
                    things |= {f"{module.__name__}.{name}.{key}": getattr(thing, key) for key in public_methods(thing)}
                if inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)):
                    things[f"{module.__name__}.{name}"] = thing
        yield from (name for name, thing in things.items() if not inspect.getdoc(thing))


def public_methods(kind):
    """Names of the methods and properties that a class defines itself."""
    for name, member in vars(kind).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(inspect.unwrap(function)) and function.__name__ == name:
            yield name


def test_every_public_class_function_and_method_has_a_docstring():
    assert list(undocumented()) == []


def test_public_names_of_a_room_exist_and_are_sorted_out_once():
    for module in modules():
        names = getattr(module, "__all__", None)
        if names is not None:
            assert len(set(names)) == len(names), module.__name__
            assert [name for name in names if not hasattr(module, name)] == [], module.__name__


def test_no_module_is_a_drawer_for_everything():
    parts = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not {"utils", "util", "helpers", "helper", "common", "misc", "core", "base"} & parts


PLACES = re.compile(r"(?<![\w.$~])/(?:work|home|root|tmp|Users|mnt|opt|srv|var)/[\w.-]+|[A-Z]:\\\\[A-Za-z]")


def test_no_path_of_a_machine_stands_in_the_package():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*FILES, *ROOT.rglob("*.yaml"), *ROOT.rglob("*.html")]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PLACES.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["'/home/me/data'", 'open("/tmp/x")', "C:\\\\Users"])
def test_a_path_of_a_machine_is_noticed(line):
    assert PLACES.search(line)


def test_the_architecture_names_every_package_and_only_files_that_are_there():
    text = (ROOT.parents[1] / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", text, flags=re.MULTILINE)
    rooms = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(rooms)
    assert [name for name in re.findall(r"`(\w[\w/]*\.py)`", text) if not (ROOT / name).is_file()] == []


def test_annotations_are_never_evaluated():
    defining = (ast.FunctionDef, ast.ClassDef)
    late = [
        str(path.relative_to(ROOT))
        for path, tree in trees().items()
        if path.name != "__init__.py"
        and any(isinstance(node, defining) for node in tree.body)
        and "from __future__ import annotations" not in path.read_text(encoding="utf-8")
    ]
    assert late == []


def test_files_that_are_tested_last_are_there():
    root = ROOT.parents[1]
    names = runpy.run_path(str(root / "conftest.py"))["LONG"]
    assert len(set(names)) == len(names)
    assert not [name for name in names if not (root / name).is_file()]


SHARED_CLASSES = {"Decoder": "as tensorflow-addons calls it", "LayerSteps": "the kernels' in place of the plain one"}


def test_a_class_name_means_one_thing():
    places = Counter(node.name for tree in trees().values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert {name for name, count in places.items() if count > 1} == set(SHARED_CLASSES)


def test_a_folder_has_four_files_and_a_short_file_a_reason():
    folders = {path.parent for path in FILES} - {ROOT / "pretrained"}
    assert [folder.name for folder in folders if len(list(folder.glob("*.py"))) < 4] == []
    short = [path for path in FILES if path.name != "__init__.py" and len(path.read_text().splitlines()) < 30]
    assert len(short) <= 15


def test_every_slow_test_exists():
    top = Path(__file__).parents[1]
    whole, thinned = runpy.run_path(str(top / "conftest.py"))["slow_tests"]()
    for name in (*whole, *thinned):
        file, _, test = name.partition("::")
        assert (top / file).is_file(), name
        assert f"def {test.partition('[')[0]}(" in (top / file).read_text(encoding="utf-8") or not test, name


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND = re.compile(r"`[^`]*`|\b(?:regard|pip|torchrun) [^\n]*|--force-reinstall")
"""What may name flags anywhere: code in backticks, and commands as a whole, also of pip."""


def flags_named(tree):
    """The texts with flags of commands that are not those of an `Option`, and their lines."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    spelled = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Option"
        for each in ast.walk(node)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    passed_over = docs | spelled | inner
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if found := FLAG.search(COMMAND.sub("", text)):
            yield node.lineno, found[0]


def test_only_commands_name_flags_and_other_messages_name_an_option_of_both() -> None:
    """What Python raises names its arguments: a message outside `cli` names an option by `regard.errors.Option`."""
    example = """[f"choose {x} --output", "or --set", Option("--a", "b"), "`--c`, or pip --d"]"""
    assert [flag for _, flag in flags_named(ast.parse(example))] == ["--output", "--set"]
    program = ROOT / "interop/export/decode.py"  # a program of its own
    files = [path for path in FILES if room_of(path) != "cli" and path != program]
    files = [path for path in files if FLAG.search(path.read_text(encoding="utf-8"))]
    named = [f"{path.relative_to(ROOT)}:{line}: {flag}" for path in files for line, flag in flags_named(trees()[path])]
    assert named == []
