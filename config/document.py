"""A YAML or JSON text as plain data, with the line of every field.

Reads one document the way Kubernetes' own reader does: YAML 1.1 booleans, but no dates and no base-60 numbers. A key
given twice is a fault. Used by `load` and `policy`; knows nothing of what the fields mean.
"""

import re
from pathlib import Path as FilePath
from typing import Any

import msgspec
import yaml

from config.problems import ConfigError, Finding, Path, Problem, render


class Document(msgspec.Struct, frozen=True):
    """The data of a file and, for its error messages, where each part of it stands."""

    file: str
    data: dict[str, Any]
    root: yaml.Node

    def line(self, path: Path) -> int | None:
        """Return the line of the path's last step or of the nearest parent that the file has; None without any."""
        node, line = self.root, None
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            key, node = found
            line = _line(key)
        return line

    def problem(self, finding: Finding) -> Problem:
        """Tie a finding to the file and line."""
        return Problem(self.file, finding.message, render(finding.path), self.line(finding.path))


def read_file(path: FilePath) -> Document:
    """Read a file; ConfigError when it cannot be read or is no single mapping."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError([Problem(str(path), f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(str(path), "cannot be read: expected UTF-8 text")]) from error


def parse(text: str, file: str) -> Document:
    """Read a text; ConfigError with the line when it is no single mapping of unique keys."""
    # Tabs are white space to JSON and an error to YAML; in valid JSON they never stand inside a string.
    source = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    loader = _Loader(source)
    try:
        root = loader.get_single_node()
        faults = _structure_faults(root) if root is not None else []
        data = loader.construct_document(root) if root is not None and not faults else None
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(file, error)]) from error
    except yaml.YAMLError as error:
        raise ConfigError([Problem(file, f"is not valid YAML: {error}".replace("\n", " "))]) from error
    except (ValueError, OverflowError) as error:
        raise ConfigError([Problem(file, f"is not valid YAML: {error}")]) from error
    except RecursionError as error:
        raise ConfigError([Problem(file, "is nested too deeply")]) from error
    finally:
        loader.dispose()
    if faults:
        raise ConfigError([Problem(file, message, render(path), line) for path, message, line in faults])
    if root is None or data is None:
        raise ConfigError([Problem(file, "is empty: expected a KubeSchedulerConfiguration")])
    if not isinstance(data, dict):
        raise ConfigError([Problem(file, "expected a mapping with apiVersion and kind", line=_line(root))])
    return Document(file, data, root)


def _syntax_problem(file: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    text = " ".join(part for part in (error.context, error.problem) if part)
    return Problem(file, f"is not valid YAML: {text}", line=mark.line + 1 if mark else None)


def _step(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the node that marks the step (its key, or the list item) and the node below it."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _structure_faults(root: yaml.Node) -> list[tuple[Path, str, int]]:
    """Find what a mapping of plain data may not have: a key given twice, and a node that contains itself."""
    faults: list[tuple[Path, str, int]] = []
    seen: set[int] = set()

    def visit(node: yaml.Node, path: Path, above: frozenset[int]) -> None:
        if id(node) in above:
            faults.append((path, "the anchor contains itself", _line(node)))
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in names and name != "<<":
                    faults.append(((*path, name), "the field is given twice", _line(key)))
                names.add(name)
                visit(value, (*path, name), above | {id(node)})
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                visit(item, (*path, index), above | {id(node)})

    visit(root, (), frozenset())
    return faults


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates and base-60 numbers, which Kubernetes' YAML reader does not have either."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own contract


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool",
    re.compile(r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"),
    list("yYnNtTfFoO"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.[0-9]+)$"),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
