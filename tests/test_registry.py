"""The catalogue: what can be registered, what is refused, and passes of other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import lowerfix
from lowerfix import pipeline, registry, rewriting
from lowerfix.base import Pass, kebab, pascal
from lowerfix.errors import LowerfixError
from lowerfix.rewritepass import RewritePass

aten = torch.ops.aten


class Example(Pass):
    id = "example"

    def run(self, program: Any, context: Any) -> bool:
        return False


@pytest.fixture(autouse=True)
def catalogue() -> Iterator[None]:
    """What a test registers is gone after it."""
    registry.all_passes()
    registered, declared = dict(registry._registered), list(rewriting._declared)
    yield
    registry._registered.clear()
    registry._registered.update(registered)
    rewriting._declared[:] = declared
    forget()


def forget() -> None:
    registry._by_target.cache_clear()
    pipeline._default_order.cache_clear()
    pipeline.oracle_for.cache_clear()


def named(id: str, module: str = __name__) -> type[Pass]:
    return type("Named", (Example,), {"id": id, "__module__": module})


def module_with_rewrites(name: str) -> ModuleType:
    module = ModuleType(name, "What the pass does.")

    def hardswish(x: Tensor) -> Tensor:
        return x * torch.clamp(x + 3, 0, 6) / 6

    hardswish.__module__ = name
    module.hardswish = rewriting.rewrite(aten.hardswish.default)(hardswish)  # type: ignore[attr-defined]
    return module


def test_a_class_is_found_by_its_id() -> None:
    registry.register(Example)
    assert registry.get("example") is Example
    assert "example" in registry.all_passes()
    assert lowerfix.passes.get("example").id == "example"
    assert lowerfix.passes.Example is Example


def test_registering_a_class_twice_is_no_error() -> None:
    assert registry.register(Example) is registry.register(Example)


def test_two_passes_of_one_id_are_both_named() -> None:
    registry.register(Example)
    with pytest.raises(LowerfixError, match=r"two passes are called 'example': .*Example and .*Named"):
        registry.register(named("example"))


@pytest.mark.parametrize("id", ["", "CamelCase", "snake_case", "two words", "-", "double--dash", "ünï"])
def test_an_id_has_to_be_kebab_case(id: str) -> None:
    with pytest.raises(LowerfixError, match="kebab-case"):
        registry.register(named(id))


@pytest.mark.parametrize("module", ["passes", "passes.elementwise.mish"])
def test_a_class_imported_past_the_link_is_refused(module: str) -> None:
    with pytest.raises(LowerfixError, match=f"has to be imported as lowerfix.{module}"):
        registry.register(named("example", module))


def test_a_module_of_functions_is_one_pass() -> None:
    registry.register_module(module_with_rewrites("elsewhere.my_hard_swish"))
    forget()
    cls = registry.get("my-hard-swish")
    assert issubclass(cls, RewritePass)
    assert cls.__doc__ == "What the pass does."
    assert cls.after == ("fold-constants",)
    assert [p.id for p in registry.serving(aten.hardswish.default)] == ["my-hard-swish"]
    assert "my-hard-swish" in pipeline.Pipeline.default().ids


def test_a_module_may_say_when_it_runs_and_retires() -> None:
    module = module_with_rewrites("elsewhere.timed")
    module.AFTER, module.RETIRE_WHEN = ("mish",), "executorch 9"  # type: ignore[attr-defined]
    registry.register_module(module)
    cls = registry.get("timed")
    assert (cls.after, cls.retire_when) == (("mish",), "executorch 9")


def test_what_a_module_only_imports_is_not_its_own() -> None:
    module = ModuleType("elsewhere.imports")
    module.Example = Example  # type: ignore[attr-defined]
    registry.register_module(module)
    assert "example" not in registry._registered


def test_alternatives_are_sorted_by_cost() -> None:
    for cost in (3.0, 1.0, 2.0):

        def function(x: Tensor) -> Tensor:
            return x

        function.__module__ = "elsewhere.costs"
        rewriting.rewrite(aten.hardswish.default, cost=cost)(function)
    assert [rewrite.cost for rewrite in rewriting.declared("elsewhere.costs")] == [1.0, 2.0, 3.0]


def test_an_unknown_id_gets_the_nearest_and_all() -> None:
    with pytest.raises(
        LowerfixError, match=r"unknown pass 'conv-transpose-1d'; did you mean 'conv-transpose1d'"
    ) as error:
        registry.get("conv-transpose-1d")
    assert "fold-constants" in str(error.value)
    with pytest.raises(LowerfixError, match="did you mean 'conv-transpose1d'"):
        registry.get("ConvTranspose1d")
    with pytest.raises(LowerfixError) as error:
        registry.get("??")
    assert "did you mean" not in str(error.value)


def test_unknown_attributes_of_passes_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="NoSuchPass"):
        lowerfix.passes.NoSuchPass  # noqa: B018
    assert not hasattr(lowerfix, "no_such_name")


def test_every_rewrite_pass_says_what_it_does() -> None:
    for cls in registry.all_passes().values():
        module = sys.modules[cls.__module__]
        assert (module.__doc__ or "").strip()
        assert cls.__module__.startswith("lowerfix.passes.")


# Passes of other packages ---------------------------------------------------------------------------------------------


def reload(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Load the catalogue as a new process would, with these entry points installed."""
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "lowerfix.passes" else ())
    monkeypatch.setattr(registry, "_load", lru_cache(registry._load.__wrapped__))
    registry._registered.clear()
    forget()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "somebodys_passes"
    (tmp_path / f"{name}.py").write_text(
        """
import torch
from lowerfix.base import Pass
from lowerfix.rewriting import rewrite

class Theirs(Pass):
    id = "theirs"
    def run(self, program, context):
        return False

@rewrite(torch.ops.aten.hardswish.default)
def hardswish(x):
    return x * torch.clamp(x + 3, 0, 6) / 6

NUMBER = 7
""",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def test_an_entry_point_may_be_a_class(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reload(monkeypatch, EntryPoint("theirs", f"{package}:Theirs", "lowerfix.passes"))
    assert registry.get("theirs").__module__ == package
    assert "somebodys-passes" not in registry.all_passes()


def test_an_entry_point_may_be_a_module(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reload(monkeypatch, EntryPoint("theirs", package, "lowerfix.passes"))
    assert {"theirs", "somebodys-passes"} <= set(registry.all_passes())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module", "cannot be loaded: ModuleNotFoundError"),
        (":Gone", "AttributeError"),
        (":NUMBER", "neither a Pass"),
    ],
)
def test_a_broken_entry_point_is_named(value: str, why: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reload(monkeypatch, EntryPoint("theirs", package + value if value[0] == ":" else value, "lowerfix.passes"))
    for _ in range(2):  # the second time as well: a notebook goes on after an error
        with pytest.raises(LowerfixError, match=rf"pass 'theirs' of package .*{why}"):
            registry.all_passes()


def test_a_cycle_of_constraints_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(type("A", (Example,), {"id": "a-first", "after": ("b-first",)}))
    registry.register(type("B", (Example,), {"id": "b-first", "after": ("a-first",)}))
    forget()
    with pytest.raises(LowerfixError, match=r"cycle: .*-first -> .*-first"):
        pipeline.Pipeline.default()


def test_names_are_converted() -> None:
    assert kebab("ConvTranspose1d") == kebab("conv_transpose1d") == "conv-transpose1d"
    assert pascal("conv-transpose1d") == "ConvTranspose1d"
    assert all(pascal(id).isidentifier() for id in registry.all_passes())
