"""What all tests share: answers of the oracle are kept for one run only, and a target whose backend is a list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from lowerfix import pipeline
from lowerfix.oracle import Answer, Oracle, Question, Refusal
from lowerfix.program import Stage
from lowerfix.source import op_name
from lowerfix.targets import Requirement, Target


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for the run, shared by its processes, and never the user's own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "lowerfix-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWERFIX_CACHE_DIR", str(folder))
        yield
    pipeline.oracle_for.cache_clear()


@dataclass(frozen=True)
class Refusing(Target):
    """Takes every op but some. For the engine's own logic only: what a backend takes is asked of the real ones."""

    refused: tuple[str, ...] = ()
    requirements: ClassVar[tuple[Requirement, ...]] = ()

    def partitioner(self) -> Any:
        raise NotImplementedError

    executable_partitioner = quantizer = partitioner


class _List(Oracle):
    kept = frozenset()  # type: ignore[assignment]

    def _probe(self, questions: list[Question]) -> list[Answer]:
        self.probes += 1
        answers = []
        for question in questions:
            names = [op_name(node.target) for node in question.graph.nodes if node.op == "call_function"]
            answers.append(Answer(tuple(Refusal(name, "no") for name in names if name in self.target.refused)))
        return answers


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Target]:
    """Makes a target that refuses the ops named, such as ``aten.mish.default``, and takes all others."""
    oracles: dict[tuple[Target, Stage], Oracle] = {}
    real = pipeline.oracle_for

    def oracle_for(target: Target, stage: Stage) -> Oracle:
        if not isinstance(target, Refusing):
            return real(target, stage)
        key = (target, stage)
        if key not in oracles:
            oracles[key] = _List(target, False, lambda program: program)
            oracles[key]._disk._folder = None
        return oracles[key]

    monkeypatch.setattr(pipeline, "oracle_for", oracle_for)
    return lambda *refused, **options: Refusing("refusing", refused=refused, **options)
