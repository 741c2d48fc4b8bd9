import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix import lowering, targets
from lowerfix.testing import check_rewrite, export


class Block(torch.nn.Module):
    """The seed's block: Mish between two convolutions."""

    def __init__(self, activation: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv1d(8, 8, 3, padding=1), torch.nn.Conv1d(8, 8, 3, padding=1)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.activation(self.first(x)))


def test_xnnpack_takes_it_whole() -> None:
    check_rewrite(F.mish, (torch.randn(2, 8, 16) * 3,), target="xnnpack", expect="mish", tolerance=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ethos-u55", "ethos-u85"])
def test_between_convolutions_it_is_one_delegate_in_int8(target: str) -> None:
    checked = check_rewrite(Block(torch.nn.Mish()), (torch.randn(1, 8, 16),), target=target, expect="mish",
                            tolerance=2e-6)  # fmt: skip
    assert checked.lowered.inner_quantize == 0


@pytest.mark.slow
def test_in_int8_it_is_as_exact_as_silu_which_has_its_own_table() -> None:
    x = torch.linspace(-8, 8, 4096).reshape(1, 16, 256)

    def error(function) -> float:  # type: ignore[no-untyped-def]
        program = lowerfix.apply(export(function, (x,)), target="ethos-u85")
        lowered = lowering.lower(lowering.quantize(program, "ethos-u85", [(x,)]), "ethos-u85", compile=False)
        return float((lowering.execute(lowered, (x,))[0] - function(x)).square().mean().sqrt())

    assert error(F.mish) < 1.02 * error(F.silu)


def test_the_form_for_int8_is_right_at_the_ends_and_within_2e6_between() -> None:
    from lowerfix.passes.elementwise.mish import mish_in_int8
    from lowerfix.rewriting import computing_in_int8

    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e38, -3e38])
    x = torch.cat([torch.linspace(-110, 110, 100_001), special])
    with computing_in_int8():
        torch.testing.assert_close(mish_in_int8(x), F.mish(x), rtol=1e-6, atol=2e-6, equal_nan=True)


def test_the_form_for_int8_is_declined_in_float() -> None:
    from lowerfix.passes.elementwise.mish import mish_in_int8

    with pytest.raises(lowerfix.Decline, match="relative accuracy"):
        mish_in_int8(torch.randn(3))


@pytest.mark.slow
def test_an_in_place_mish_is_rewritten_too() -> None:
    checked = check_rewrite(Block(torch.nn.Mish(inplace=True)), (torch.randn(1, 8, 16),), target="xnnpack",
                            expect="mish", tolerance=2e-6)  # fmt: skip
    assert "mish" not in str(checked.after.graph)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_formula_holds_in_other_float_types(dtype: torch.dtype) -> None:
    from lowerfix.passes.elementwise.mish import mish

    x = torch.cat([torch.linspace(-30, 30, 1001), torch.tensor([float("inf"), -float("inf"), float("nan")])]).to(dtype)
    bound = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(mish(x), F.mish(x), rtol=bound, atol=bound / 4, equal_nan=True)


def test_small_results_keep_their_relative_accuracy() -> None:
    from lowerfix.passes.elementwise.mish import mish

    x = torch.linspace(-80, -5, 500)
    exact = F.mish(x.double())
    assert float(((mish(x).double() - exact) / exact).abs().max()) < 1e-6


def test_where_the_backend_copes_the_graph_is_untouched() -> None:
    for target, function in (("vgf", F.silu), ("vgf", F.elu), ("ethos-u85", F.silu), ("ethos-u85", F.elu)):
        program = export(function, (torch.randn(2, 8),))
        assert str(lowerfix.apply(program, target=target).graph) == str(program.graph), (target, function)


@pytest.mark.slow
def test_an_integer_input_is_declined_with_its_reason() -> None:
    program = export(F.mish, (torch.randn(4),))
    for node in program.graph.nodes:  # torch refuses to export it, so the dtype is changed by hand
        if isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["val"] = node.meta["val"].to(torch.int64)
    report = lowerfix.Report()
    lowerfix.apply(program, target="xnnpack", report=report)
    [finding] = report.of("declined")
    assert "Mish of torch.int64 is not defined" in finding.reason


def test_after_quantization_it_is_dormant_and_says_what_to_do() -> None:
    inputs = (torch.randn(1, 8, 16),)
    stock = lowering.quantize(export(Block(torch.nn.Mish()), inputs), "ethos-u85", [inputs])
    report = lowerfix.Report()
    lowerfix.apply(stock, target="ethos-u85", report=report)
    [finding] = [f for f in report.of("dormant") if f.pass_id == "mish"]
    assert "before prepare_pt2e" in finding.reason


def test_the_quantizer_of_the_target_is_what_decides() -> None:
    assert targets.get("ethos-u85").quantized
    assert not targets.get("vgf").quantized
