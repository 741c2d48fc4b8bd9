import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.pooling.max_pool_with_indices import adaptive_max_pool, max_pool_with_indices
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, indices = F.max_pool2d(x[:, :, 0], 2, 2, 1, return_indices=True)
    return (
        F.adaptive_max_pool3d(x, (1, 2, 3)),
        F.adaptive_max_pool2d(x[:, 0], (2, 5)),
        F.adaptive_max_pool1d(x[:, 0, 0], 2),
        values,
        indices.to(torch.float32),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 2, 4, 5),)
    lowered_inputs = list(adversarial_inputs(inputs))[-4:]
    check_rewrite(forms, inputs, target="tosa-fp", expect="max-pool-with-indices", lowered_inputs=lowered_inputs)


@pytest.mark.slow
def test_values_in_int8_on_ethos_u55() -> None:
    checked = check_rewrite(
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
        (torch.randn(1, 4, 5, 7),),
        target="ethos-u55",
        expect="max-pool-with-indices",
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    x = torch.randint(-3, 3, (*data.draw(st.sampled_from([(), (2,)])), 2, *numbers(1, 6))).float()
    flat = x.view(-1)
    for special in data.draw(st.lists(st.sampled_from([float("nan"), float("inf"), float("-inf")]), max_size=3)):
        flat[data.draw(st.integers(0, flat.numel() - 1))] = special
    size = numbers(1, 5)
    adaptive = getattr(torch.ops.aten, f"adaptive_max_pool{rank}d").default
    assert_same(adaptive(x, size), adaptive_max_pool(x, size))
    if rank == 1:
        return
    kernel, dilation, ceil_mode = numbers(1, 3), numbers(1, 2), data.draw(st.booleans())
    padding = [data.draw(st.integers(0, n // 2)) for n in kernel]
    stride = data.draw(st.sampled_from([[], numbers(1, 3)]))
    op = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices").default
    try:
        expected = op(x, kernel, stride, padding, dilation, ceil_mode)
    except RuntimeError:  # nothing would be left
        return
    try:
        actual = max_pool_with_indices(x, kernel, stride, padding, dilation, ceil_mode)
    except Decline:
        assert max(dilation) > 1  # only then can a window step over the image
        return
    assert_same(expected, actual)


def test_a_pool_whose_indices_are_not_read_is_left_alone() -> None:
    program = export(lambda x: F.max_pool2d(x, 2, return_indices=True)[0], (torch.randn(1, 2, 4, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="for float32"):
        adaptive_max_pool(torch.ones(1, 4, dtype=torch.float64), [2])
    with pytest.raises(Decline, match="at most 125"):
        max_pool_with_indices(torch.ones(1, 1, 20, 20), [12, 12])
    with pytest.raises(Decline, match="does not number"):
        adaptive_max_pool(torch.ones(1, 1, 1).expand(1, 5000, 5000), [1, 1])
