import pytest
import torch

import lowerfix
from lowerfix.passes.selection.argmin import argmin, argmin_int32
from lowerfix.testing import assert_same, check_rewrite, export

FORMS = {
    "read as int32": lambda x: x.argmin(-1).to(torch.int32),
    "keepdim": lambda x: x.argmin(1, keepdim=True).to(torch.int32),
    "first dimension": lambda x: x.argmin(0).to(torch.int32),
    "flattened": lambda x: x.argmin().to(torch.int32),
    "flattened, keepdim": lambda x: x.argmin(keepdim=True).to(torch.int32),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_goes_whole_with_ties_and_nan_as_in_eager(form: str) -> None:
    check_rewrite(FORMS[form], (torch.randn(6, 16),), target="vgf", expect="argmin")


def test_an_index_that_leaves_as_int64_keeps_only_that_cast_on_the_cpu() -> None:
    checked = check_rewrite(
        lambda x: x.argmin(-1),
        (torch.randn(6, 16),),
        target="tosa-fp",
        expect="argmin",
        allowed_left=["_to_dim_order_copy"],
    )
    assert checked.lowered.cpu_ops == {"_to_dim_order_copy": 1}


def test_integers_include_their_minimum() -> None:
    extremes = torch.tensor([[127, -128, 0, -128], [0, 127, -1, 1]], dtype=torch.int8)
    inputs = (torch.tensor([[3, 1, 1, 2], [0, 5, 5, 7]], dtype=torch.int8),)
    check_rewrite(FORMS["read as int32"], inputs, target="vgf", expect="argmin", more_inputs=[(extremes,)])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("form", [argmin, argmin_int32])
def test_no_integer_type_overflows(form, dtype: torch.dtype) -> None:  # type: ignore[no-untyped-def]
    info = torch.iinfo(dtype)
    x = torch.tensor([[info.max, info.min, 1, info.min], [1, info.max, 0, 1]], dtype=dtype)
    for dim in (None, 0, -1):
        for keepdim in (False, True):
            assert torch.equal(form(x, dim, keepdim), x.argmin(dim, keepdim))


@pytest.mark.slow
def test_a_codebook_lookup_is_one_delegate_on_ethos_u85() -> None:
    class Nearest(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.project, self.codes = torch.nn.Linear(8, 16), torch.nn.Embedding(16, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.codes(self.project(x).argmin(-1))

    checked = check_rewrite(Nearest(), (torch.randn(6, 8),), target="ethos-u85", expect="argmin", tolerance=1e-6)
    assert checked.lowered.inner_quantize == 0


@pytest.mark.slow
def test_a_backend_without_argmax_keeps_it_and_says_why() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmin(-1)

    report = lowerfix.Report()
    program = export(Model(), (torch.randn(6, 16),))
    result = lowerfix.apply(program, target="xnnpack", report=report)
    assert str(result.graph) == str(program.graph)
    [finding] = report.of("declined")
    assert finding.pass_id == "argmin"
    assert "argmax" in finding.reason
    assert __file__ in finding.source


def test_argmax_beside_it_is_left_alone() -> None:
    program = export(lambda x: (x.argmax(-1).to(torch.int32), x.argmin(-1).to(torch.int32)), (torch.randn(6, 16),))
    result = lowerfix.apply(program, target="vgf")
    names = [node.name for node in result.graph.nodes]
    assert "argmax" in names
    assert "argmin" not in names
    x = torch.tensor([[1.0, 1.0, 0.0, 0.0], [2.0, float("nan"), -1.0, float("-inf")]]).repeat(3, 4)
    assert_same(program.module()(x), result.module()(x))
