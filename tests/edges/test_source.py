"""What holds for every line of the package: files are written whole, text is UTF-8, no pickle."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "roadseg"
WRITING = {  # methods that write to a path, whoever has them
    *("write_text", "write_bytes", "save", "savefig", "save_file", "save_model", "extractall"),
    *("to_file", "to_csv", "to_json", "to_parquet", "to_feather", "write_dataframe", "imwrite"),
    *("copyfile", "copytree", "move", "copy_raster"),
}
WHOLE = {"atomic_write", "atomic_write_folder"}
ELSEWHERE = {  # (module, function): why it needs no `atomic_write` of its own
    ("raster/tiff.py", "copy_as_cog"): "writes to the path that its caller has from `atomic_write`",
    ("raster/tiff.py", "open_new"): "the same",
    ("roads/formats/layers.py", "write_layer"): "the same",
    ("roads/formats/layers.py", "_write_table"): "the same",
    ("api/arguments.py", "_write_table"): "a temporary file that a command reads",
    ("api/rasters.py", "_write"): "the same",
    ("api/masks.py", "_repr_png_"): "into memory",
    ("report/pictures.py", "_as_png"): "the same",
    ("report/pictures.py", "_as_webp"): "the same",
    ("roads/masks/probabilities.py", "_repr_png_"): "the same",
    ("qgis_plugin/running.py", "area"): "a file that the command reads, before it is started",
    ("system/web/cache.py", "write"): "a cache, whose readers notice what is cut short",
    ("system/fingerprints.py", "_remember"): "a cache, to which processes add lines",
    ("learn/hardware/ipex.py", "_quiet"): "os.devnull",
    ("learn/inference/exports.py", "write_onnx"): (
        "in a folder that its caller has from `atomic_write_folder`"
    ),
    ("learn/inference/openvino.py", "build"): "the same",
}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}


@cache
def nodes_of(source):
    """Return all nodes of a module with the functions and `with` blocks around each."""
    found, left = [], [(ast.parse(source), ())]
    while left:
        node, around = left.pop()
        found.append((node, around))
        if isinstance(node, ast.With | ast.FunctionDef):
            around = (*around, node)
        left += [(child, around) for child in ast.iter_child_nodes(node)]
    return found


def calls(source):
    return [(node, around) for node, around in nodes_of(source) if isinstance(node, ast.Call)]


def name_of(call):
    found = call.func
    return found.attr if isinstance(found, ast.Attribute) else getattr(found, "id", "")


def mode_of(call):
    """Return the mode in which a call opens a file; "r" where it names none."""
    at = 0 if isinstance(call.func, ast.Attribute) and not takes_path(call) else 1
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[at : at + 1]
    return given[0].value if given and isinstance(given[0], ast.Constant) else "r"


def takes_path(call):
    return ast.unparse(call.func) in {"rasterio.open", "gzip.open", "io.open", "os.open"}


def writes(call):
    if name_of(call) == "open":
        return isinstance(mode_of(call), str) and bool(set(mode_of(call)) & set("wax+"))
    return name_of(call) in WRITING


def written_past(source, module):
    """Say which calls of a module write a file outside a block of `atomic_write`."""
    for call, around in calls(source):
        functions = [node.name for node in around if isinstance(node, ast.FunctionDef)]
        blocks = [item for node in around if isinstance(node, ast.With) for item in node.items]
        opened = {name_of(b.context_expr) for b in blocks if isinstance(b.context_expr, ast.Call)}
        known = any((module, function) in ELSEWHERE for function in functions)
        if writes(call) and not opened & WHOLE and not known:
            yield f"{module}:{call.lineno} {ast.unparse(call):.60}"


def is_text_of_any_encoding(call):
    name, words = name_of(call), {word.arg for word in call.keywords}
    if name in {"read_text", "write_text"}:
        return "encoding" not in words and len(call.args) < (2 if name == "write_text" else 1)
    is_file = isinstance(call.func, ast.Name) or (not takes_path(call) and is_path(call))
    return name == "open" and is_file and "b" not in str(mode_of(call)) and "encoding" not in words


def is_path(call):
    """Say whether `open` is that of a path, and not that of an engine or a library."""
    return all(isinstance(argument, ast.Constant) for argument in call.args) and all(
        word.arg for word in call.keywords
    )


def unpickled(source):
    """Say where a module loads what could run code."""
    for node, _ in nodes_of(source):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            yield from (name for name in names if name.partition(".")[0] in PICKLES)
    for call, _ in calls(source):
        text, words = ast.unparse(call.func), {w.arg: ast.unparse(w.value) for w in call.keywords}
        if text == "torch.load" and words.get("weights_only") != "True":
            yield ast.unparse(call)
        if words.get("allow_pickle", "False") != "False" or text in {"eval", "exec"}:
            yield ast.unparse(call)


def found_in_all(find):
    """Return what is found in the modules of the package."""
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return [found for name, path in sorted(paths.items()) for found in find(path.read_text(), name)]


def texts_of_any_encoding(source, module):
    found = (call for call, _ in calls(source) if is_text_of_any_encoding(call))
    return [f"{module}:{call.lineno} {ast.unparse(call):.60}" for call in found]


def unused(source, module):
    names = re.findall(r"^(?:def |class )?(_[a-zA-Z]\w*)", source, re.MULTILINE)
    return [f"{module}: {name}" for name in names if len(re.findall(rf"\b{name}\b", source)) == 1]


def test_files_are_written_whole():
    assert found_in_all(written_past) == []


def test_text_has_its_encoding_named():
    assert found_in_all(texts_of_any_encoding) == []


def test_nothing_is_unpickled():
    found = found_in_all(lambda source, name: [f"{name}: {what}" for what in unpickled(source)])
    assert found == [
        "learn/network/pretrained.py: pickle",  # its error, which torch.load raises
    ]


def test_what_a_module_has_for_itself_is_used():
    assert found_in_all(unused) == []


def test_durations_are_taken_from_a_clock_that_cannot_go_back():
    def find(source, name):
        words = [ast.unparse(call.func) for call, _ in calls(source)]
        return [name for word in words if word in {"time.time", "time.time_ns"}]

    assert found_in_all(find) == ["system/files.py", "system/fingerprints.py"]  # ages of files


def test_what_needs_no_whole_is_still_there():
    gone = [
        (module, function)
        for module, function in ELSEWHERE
        if f"def {function}(" not in (PACKAGE / module).read_text()
    ]
    assert gone == []


@pytest.mark.parametrize(
    "planted",
    [
        "path.write_text('a', encoding='utf-8')",
        "path.open('w')",
        "open(path, mode='ab')",
        "rasterio.open(path, 'w', **profile)",
        "with other(path) as partial: figure.savefig(partial)",
    ],
)
def test_a_file_written_past_whole_is_found(planted):
    assert list(written_past(planted, "io/planted.py"))


@pytest.mark.parametrize(
    "planted",
    ["with atomic_write(p) as q: q.write_text(a)", "path.open('rb')", "rasterio.open(path)"],
)
def test_a_file_written_whole_or_read_is_not(planted):
    assert not list(written_past(planted, "io/planted.py"))


@pytest.mark.parametrize(
    "planted", ["path.read_text()", "path.write_text(a)", "path.open('w')", "open(path)"]
)
def test_text_without_an_encoding_is_found(planted):
    assert texts_of_any_encoding(planted, "planted")


@pytest.mark.parametrize(
    "planted",
    ["import pickle", "from joblib import load", "torch.load(p)", "np.load(p, allow_pickle=True)"],
)
def test_what_could_run_code_is_found(planted):
    assert list(unpickled(planted))
