import torch
from torch.export import exported_program

from lowerfix.composites import listed_once


def test_the_list_is_torchs_own_and_is_made_once() -> None:
    original = exported_program._collect_all_valid_cia_ops
    expected = original()
    with listed_once():
        first = exported_program._collect_all_valid_cia_ops()
        assert exported_program._collect_all_valid_cia_ops() is first
    assert first == expected
    assert exported_program._collect_all_valid_cia_ops is original


def test_an_operator_that_is_registered_later_is_in_it() -> None:
    with listed_once():
        before = exported_program._collect_all_valid_cia_ops()
        library = torch.library.Library("lowerfix_test", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
        twice = torch.ops.lowerfix_test.twice.default
        after = exported_program._collect_all_valid_cia_ops()
        library._destroy()
    assert twice in after - before
