"""Reference pages from the package itself: Python interface, commands, config. Markdown."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import click

import roadseg
from roadseg.commands.cli.main import main
from roadseg.config import Config

TITLES = {
    "rasters": "Images and probabilities",
    "graphs": "Road graphs",
    "comparisons": "Comparisons",
    "runs": "Stages and whole runs",
    "tools": "Tools",
}
OTHERS = "Other values"


def public_names() -> dict[str, list[str]]:
    """Return the names of the Python interface by the title of their section, in its order."""
    sections: dict[str, list[str]] = {title: [] for title in (*TITLES.values(), OTHERS)}
    for name in roadseg.__all__:
        if not name.startswith("_"):
            module = getattr(roadseg, name).__module__.removeprefix("roadseg.api.")
            sections[TITLES.get(module, OTHERS)].append(name)
    for names in sections.values():
        names.sort(key=lambda name: (inspect.isclass(getattr(roadseg, name)), name))
    return {title: names for title, names in sections.items() if names}


def api_page() -> str:
    """Return the functions and values of the Python interface, as directives of autodoc."""
    return (
        "".join(
            f"\n## {title}\n\n```{{eval-rst}}\n{''.join(map(_directive, names))}```\n"
            for title, names in public_names().items()
        )
        + "\n## Errors\n\n```{eval-rst}\n.. automodule:: roadseg.errors\n```\n"
    )


def _directive(name: str) -> str:
    value = getattr(roadseg, name)
    if not inspect.isclass(value):
        return f".. autofunction:: roadseg.{name}\n\n"
    if value is Config:
        return f".. autoclass:: roadseg.{name}\n   :no-members:\n\n"
    return f".. autoclass:: roadseg.{name}\n\n"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its name, those of a group after it."""
    for name, command in main.commands.items():
        yield f"roadseg {name}", command
        if isinstance(command, click.Group):
            yield from ((f"roadseg {name} {each}", c) for each, c in command.commands.items())


def commands_page() -> str:
    """Return every command with its help and a table of its arguments and options."""
    return "".join(_command(name, command) for name, command in commands())


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, max_content_width=100)
    usage = " ".join(command.collect_usage_pieces(context))
    records = [p.get_help_record(context) for p in command.params]
    table = _table(("option", "meaning"), [(f"`{r[0]}`", escape(r[1])) for r in records if r])
    help_text = inspect.cleandoc(command.help or "").partition("\f")[0]
    return f"\n## {name}\n\n```\n{name} {usage}\n```\n\n{_help(help_text)}\n{table}\n"


def _help(text: str) -> str:
    """Return help as Markdown: paragraphs, but blocks whose lines click keeps as they are."""
    blocks = [block.strip("\n") for block in text.split("\n\n")]
    return "\n\n".join(
        "```\n" + block.removeprefix("\b\n") + "\n```" if block.startswith("\b") else escape(block)
        for block in blocks
        if block.strip("\b\n ")
    )


def config_page() -> str:
    """Return every section of the config as a table of its keys, from its JSON Schema."""
    schema = Config.model_json_schema()
    parts = []
    for name, section in schema["properties"].items():
        target = _target(section, schema)
        if "properties" in target:
            parts.extend(_section(name, 2, target, schema))
        else:
            parts.append(
                f"\n## {name}\n\n{escape(_meaning(section))}\n\nDefault: {_default(section)}\n"
            )
    return "".join(parts)


def _section(
    path: str, level: int, target: dict[str, Any], schema: dict[str, Any]
) -> Iterator[str]:
    """Yield a section under a heading of a level, then its inner sections a level below."""
    rows, nested = [], []
    for key, field in target["properties"].items():
        inner = _target(field, schema)
        if "properties" in inner:
            nested.append((f"{path}.{key}", inner))
            continue
        if isinstance(of_names := field.get("additionalProperties"), dict):
            inner = _target(of_names, schema)
            nested += [(f"{path}.{key}.NAME", inner)] if "properties" in inner else []
        rows.append((f"`{key}`", _default(field), _kind(field, schema), escape(_meaning(field))))
    columns = ("key", "default", "values", "meaning")
    meaning = escape(_meaning(target))
    yield f"\n{'#' * level} {path}\n\n{meaning}\n\n{_table(columns, rows)}"
    for inner_path, inner in nested:
        yield from _section(inner_path, level + 1, inner, schema)


def _target(field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a field refers to, or the field itself."""
    name = field.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else field


def _meaning(field: dict[str, Any]) -> str:
    return str(field.get("description", ""))


def _default(field: dict[str, Any]) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field else "-"


def _kind(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the values that a key takes: choices, or type, limits and unit."""
    field = {**_target(field, schema), **field}
    if "anyOf" in field:
        return " or ".join(_kind(each, schema) for each in field["anyOf"]) + _unit(field)
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    kind = str(field.get("type", "any"))
    if kind == "array" and isinstance(field.get("items"), dict):
        kind = f"list of {_kind(field['items'], schema)}"
    return kind + _limits(field) + _unit(field)


def _limits(field: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[name]:.10g}" for name, sign in signs.items() if name in field]
    return f" {', '.join(limits)}" if limits else ""


def _unit(field: dict[str, Any]) -> str:
    unit = field.get("unit", "-")
    return "" if unit == "-" else f"; {unit}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def escape(text: str) -> str:
    """Return text on one line: options as code, and no other markup."""
    one_line = re.sub(r"([<>*\[\]_{}])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<!\S)(--[a-z][\w-]*)", r"`\1`", one_line)
