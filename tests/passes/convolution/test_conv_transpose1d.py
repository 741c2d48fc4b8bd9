import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import assert_same, check_rewrite, export

FORMS = {
    "plain": {"stride": 2, "padding": 1},
    "output padding": {"stride": 2, "padding": 1, "output_padding": 1},
    "groups": {"stride": 2, "groups": 4},
    "no bias": {"bias": False},
    "stride above the kernel": {"stride": 6},
}


def _layer(**options) -> torch.nn.Module:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return torch.nn.ConvTranspose1d(8, 4, 4, **options)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_it_goes_whole_and_is_bit_exact(form: str) -> None:
    check_rewrite(_layer(**FORMS[form]), (torch.randn(2, 8, 12),), target="vgf", expect="conv-transpose1d")


@pytest.mark.slow
def test_dilated_it_is_summed_tap_by_tap() -> None:
    layer = _layer(stride=2, padding=3, output_padding=1, dilation=3)
    check_rewrite(layer, (torch.randn(2, 8, 12),), target="vgf", expect="conv-transpose1d", tolerance=1e-5)


def test_without_a_batch() -> None:
    check_rewrite(_layer(stride=2), (torch.randn(8, 12),), target="vgf", expect="conv-transpose1d")


@pytest.mark.slow
def test_in_int8_on_ethos_u85() -> None:
    layer = _layer(stride=2, padding=1)
    checked = check_rewrite(layer, (torch.randn(1, 8, 12),), target="ethos-u85", expect="conv-transpose1d")
    assert checked.lowered.inner_quantize == 0


def test_stock_leaves_it_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired."""
    program = export(_layer(stride=2), (torch.randn(1, 8, 12),))
    assert lowering.lower(program, "vgf", compile=False).cpu_ops == {"convolution": 1}


def test_the_weight_stays_a_parameter_and_is_not_copied() -> None:
    layer = _layer(stride=2)
    program = export(layer, (torch.randn(1, 8, 12),))
    result = lowerfix.apply(program, target="vgf")
    [name] = [spec.target for spec in result.graph_signature.input_specs if spec.target and "weight" in spec.target]
    stored = result.state_dict[name]
    assert isinstance(stored, torch.nn.Parameter)
    assert stored.shape == (8, 4, 1, 4)
    assert stored.data_ptr() == layer.weight.data_ptr()


@pytest.mark.slow
def test_a_weight_that_is_computed_keeps_its_numbers() -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv_transpose1d(x, w, stride=2)

    inputs = (torch.randn(2, 8, 12), torch.randn(8, 4, 3))
    program = export(model, inputs)
    assert_same(program.module()(*inputs), lowerfix.apply(program, target="vgf").module()(*inputs), 1e-5)


def test_xnnpack_has_the_op_and_keeps_it() -> None:
    program = export(_layer(stride=2, padding=1), (torch.randn(2, 8, 12),))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)


def test_other_convolutions_are_left_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(4, 8, 3), _layer(stride=2))
    result = lowerfix.apply(export(model, (torch.randn(2, 4, 12),)), target="vgf")
    names = [str(node.target) for node in result.graph.nodes]
    assert "aten.conv1d.default" in names
    assert "aten.conv_transpose1d.default" not in names
