"""`make shape` counts what it says it counts, on a package whose figures are known by heart."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
FILES = {
    "__init__.py": "",
    "errors.py": "class Failed(Exception): ...\n",
    "models/__init__.py": 'HOME = {"mf": "MF"}\n',
    "models/mf.py": """
        from house.kernels.ntk import kernel
        class MF: ...
        def fit():
            return kernel()
        """,
    "kernels/__init__.py": "",
    "kernels/ntk.py": """
        def kernel():
            return _inner()
        def _inner(): ...
        def unused(): ...
        """,
    "cli/__init__.py": "",
    "cli/app.py": """
        from typing import TYPE_CHECKING
        from house.cli import show
        if TYPE_CHECKING:
            from house.models.mf import MF
        def run():
            from house.models import mf
            first = isinstance(first, mf.MF)
            show.show(mf.fit())
            show.line()
            return show.line()
        """,
    "cli/show.py": """
        def show(what):
            from house.cli.app import run
        def line(): ...
        """,
    "cli/typed.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from house.models.mf import MF
        """,
    "paper/table1.py": 'MODEL = "mf"\n',
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    for name, text in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
    from source_tree import Tree

    return Tree(tmp_path / "house")


def test_functions_of_one_caller(tree: Any) -> None:
    """`line` has two, `_inner` has its own module's, `unused` has none, `run` is imported but not called."""
    assert sorted(tree.one_caller()) == [
        "house.cli.show.show",
        "house.kernels.ntk.kernel",
        "house.models.mf.fit",
    ]


def test_cycles_count_lazy_imports_and_not_those_of_types(tree: Any) -> None:
    assert tree.cycles() == [["house.cli.app", "house.cli.show"]]


def test_longest_function(tree: Any) -> None:
    assert tree.longest_function() == (6, "cli/app.py")


def test_questions_for_a_model_s_class(tree: Any) -> None:
    assert tree.tests_of_model_classes() == ["house.cli.app:7"]


def test_files_that_name_a_model_or_import_the_kernel(tree: Any) -> None:
    assert tree.naming({"mf", "MF"}) == ["house.cli.app", "house.models", "house.models.mf"]
    assert tree.importing("kernels.ntk") == ["house.models.mf"]


def test_a_journey_counts_files_lines_and_changes_of_room(tree: Any) -> None:
    import shape

    lines = {"cli/app.py": 10, "models/mf.py": 4, "kernels/ntk.py": 5, "cli/show.py": 3, "errors.py": 1}
    assert shape.measure(["cli/app.py", "cli/show.py", "models/mf.py", "cli/app.py"], lines) == "4 / 27 / 2"
    assert shape.measure(["cli/app.py", "errors.py", "models/mf.py"], lines) == "3 / 15 / 2"
    assert shape.spread([["a"], ["a", "b", "c"]]) == "1–3"
