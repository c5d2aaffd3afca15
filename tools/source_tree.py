"""The modules of a package as syntax trees, and how they hang together: who names whom, who imports whom."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

EXPERIMENTS = "paper"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Tree:
    """The modules below a package's folder by their dotted names, such as `infrec.cli.app`."""

    folder: Path

    @cached_property
    def paths(self) -> dict[str, Path]:
        found = {}
        for path in sorted(self.folder.rglob("*.py")):
            parts = path.relative_to(self.folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def syntax(self) -> dict[str, ast.Module]:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}

    @cached_property
    def lines(self) -> dict[str, int]:
        return {name: path.read_bytes().count(b"\n") for name, path in self.paths.items()}

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """Functions and classes at the top of a module, by their dotted names."""
        return {
            f"{module}.{node.name}": node
            for module, tree in self.syntax.items()
            for node in tree.body
            if isinstance(node, Function | ast.ClassDef)
        }

    def imports(self, module: str, typing: bool = True) -> dict[str, str]:
        """Names that a module imports of the package, anywhere in its file: local names and dotted names.

        typing: also what stands under `if TYPE_CHECKING`.
        """
        tree, found = self.syntax[module], {}
        unseen = set() if typing else {id(inner) for node in _for_typing(tree) for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) in unseen:
                continue
            if isinstance(node, ast.ImportFrom) and self._is_ours(node.module or ""):
                found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.Import):
                ours = [one for one in node.names if self._is_ours(one.name)]
                found |= {
                    one.asname or self.folder.name: one.name if one.asname else self.folder.name
                    for one in ours
                }
        return found

    def _is_ours(self, name: str) -> bool:
        return name.partition(".")[0] == self.folder.name

    def defined(self, name: str) -> str | None:
        """Where a dotted name is defined: itself, or the place that a package hands it on from."""
        for _ in range(5):
            if name in self.definitions:
                return name
            module, _, last = name.rpartition(".")
            if name in self.paths or module not in self.paths:
                return None
            handed_on = self._imports[module].get(last)
            if handed_on is None:  # a package that imports on first use
                inside = [
                    one
                    for one in self.definitions
                    if one.startswith(f"{module}.") and one.endswith(f".{last}")
                ]
                return inside[0] if len(inside) == 1 and self.paths[module].stem == "__init__" else None
            name = handed_on
        return None

    @cached_property
    def _imports(self) -> dict[str, dict[str, str]]:
        return {module: self.imports(module) for module in self.paths}

    def uses(self, module: str) -> Iterator[tuple[str, ast.AST]]:
        """Definitions of the package that a module names, by their dotted names, and each place."""
        local = self._imports[module]
        for node in ast.walk(self.syntax[module]):
            words: list[str] = []
            inner: ast.AST = node
            while isinstance(inner, ast.Attribute):
                words.insert(0, inner.attr)
                inner = inner.value
            if not isinstance(inner, ast.Name) or not isinstance(inner.ctx, ast.Load):
                continue
            first = local.get(inner.id, f"{module}.{inner.id}")
            found = self.defined(".".join([first, *words]))
            if found is not None:
                yield found, node

    # ---- figures ------------------------------------------------------------------------------------------
    def one_caller(self) -> dict[str, str]:
        """Functions that are named once, and not in their own module; and the module that names each."""
        users: dict[str, list[str]] = {name: [] for name in self.definitions}
        for module in self.paths:
            for name, _ in self.uses(module):
                users[name].append(module)
        functions = [name for name, node in self.definitions.items() if isinstance(node, Function)]
        return {
            name: users[name][0]
            for name in functions
            if len(users[name]) == 1 and users[name][0] != name.rpartition(".")[0]
        }

    def cycles(self) -> list[list[str]]:
        """Modules that import each other in a circle: Tarjan's strongly connected components."""
        graph = {module: self._imported_modules(module) for module in self.paths}
        number: dict[str, int] = {}
        lowest: dict[str, int] = {}
        stack: list[str] = []
        found: list[list[str]] = []

        def visit(module: str) -> None:
            number[module] = lowest[module] = len(number)
            stack.append(module)
            for other in graph[module]:
                if other not in number:
                    visit(other)
                    lowest[module] = min(lowest[module], lowest[other])
                elif other in stack:
                    lowest[module] = min(lowest[module], number[other])
            if lowest[module] == number[module]:
                at = stack.index(module)
                found.append(sorted(stack[at:]))
                del stack[at:]

        for module in graph:
            if module not in number:
                visit(module)
        return [group for group in found if len(group) > 1]

    def _imported_modules(self, module: str) -> list[str]:
        names = self.imports(module, typing=False).values()
        modules = {name if name in self.paths else name.rpartition(".")[0] for name in names}
        return sorted((modules & self.paths.keys()) - {module})

    def reachable(self, start: str) -> set[str]:
        """Modules that can be imported when this one is: lazy imports counted, those for typing not.

        A name that a package imports on first use leads to the module that defines it. Modules that are named
        by a string, as in a package's table of names, count as imported there.
        """
        found, waiting = {start}, [start]
        while waiting:
            new = self._neighbours[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    @cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        found = {}
        for module, tree in self.syntax.items():
            names = self.imports(module, typing=False).values()
            homes = {
                name if name in self.paths else (self.defined(name) or name).rpartition(".")[0]
                for name in names
            }
            named = {word for word in _words(tree) if "." in word and word in self.paths}
            found[module] = ((homes | named) & self.paths.keys()) - {self.folder.name}
        return found

    def functions(self, module: str) -> set[str]:
        """Functions and classes at the top of a module, and methods as `Class.method`."""
        found = set()
        for node in self.syntax[module].body:
            if isinstance(node, Function | ast.ClassDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, Function)}
        return found

    def identifiers(self, module: str) -> set[str]:
        """Names, attributes and imported names in the code of a module; its own definitions are none."""
        found = set()
        for node in ast.walk(self.syntax[module]):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.add(node.name.rpartition(".")[2])
        return found

    def longest_function(self) -> tuple[int, str]:
        """The lines of the longest function, and its file."""
        return max(
            ((node.end_lineno or 0) - node.lineno + 1, str(self.paths[module].relative_to(self.folder)))
            for module, tree in self.syntax.items()
            for node in ast.walk(tree)
            if isinstance(node, Function)
        )

    def tests_of_model_classes(self) -> list[str]:
        """Places outside `models` that ask for a model's class."""
        models = f"{self.folder.name}.models"
        found = []
        for module in self.paths:
            if module.startswith(models):
                continue
            classes = {id(node) for name, node in self.uses(module) if name.startswith(f"{models}.")}
            for node in ast.walk(self.syntax[module]):
                asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                if asks and node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
                    found += [
                        f"{module}:{node.lineno}" for one in ast.walk(node.args[1]) if id(one) in classes
                    ]
        return found

    def naming(self, words: set[str]) -> list[str]:
        """Modules that name one of these: by an identifier, by a whole string, or by their file's name.

        Names under `if TYPE_CHECKING` are left out: everything runs without them.
        """
        stems = {word.replace("-", "_") for word in words}
        return [
            module
            for module, tree in self.syntax.items()
            if module.split(".")[1:2] != [EXPERIMENTS]
            and (self.paths[module].stem in stems or words & _words_that_run(tree))
        ]

    def importing(self, module: str) -> list[str]:
        """Modules that import this one, or something of it."""
        full = f"{self.folder.name}.{module}"
        return [
            other
            for other in self.paths
            if any(name == full or name.startswith(f"{full}.") for name in self._imports[other].values())
        ]


def _for_typing(tree: ast.Module) -> list[ast.stmt]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    return [
        inner
        for block in blocks
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for inner in block.body
    ]


def _words_that_run(tree: ast.Module) -> set[str]:
    for_typing = Counter(word for node in _for_typing(tree) for word in _words(node))
    return set(Counter(_words(tree)) - for_typing)


def _words(tree: ast.AST) -> Iterator[str]:
    """Identifiers and strings of a module; a docstring never equals a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
