import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.normalization.batch_norm import batch_norm, instance_norm, trained_batch_norm
from lowerfix.testing import assert_same, check_rewrite, export


class Norms(torch.nn.Module):
    """Norms side by side, on rows, signals, images and volumes."""

    def __init__(self, **norms: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norms = torch.nn.ModuleDict(norms)
        for norm in norms.values():
            for value in (*norm.parameters(), *norm.buffers()):
                if value.is_floating_point():
                    value.data.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.clamp(-8, 8)  # kernels differ about what cancels and overflows in large sums
        views = {1: x[:, :, 0, 0, 0], 2: x[:, :, 0, 0], 3: x[:, :, 0], 4: x}
        return tuple(norm(views[int(name[-1])]) for name, norm in self.norms.items())


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    model = Norms(
        rows_1=torch.nn.BatchNorm1d(3),
        volumes_4=torch.nn.BatchNorm3d(3),
        batch_3=torch.nn.BatchNorm2d(3, track_running_stats=False),
        rows_of_the_batch_1=torch.nn.BatchNorm1d(3, affine=False, track_running_stats=False),
        signals_2=torch.nn.InstanceNorm1d(3),
        images_3=torch.nn.InstanceNorm2d(3, affine=True),
        tracked_3=torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    )
    check_rewrite(model, (torch.randn(2, 3, 2, 4, 4),), target="vgf", expect="batch-norm", tolerance=1e-3)


@pytest.mark.slow
def test_rows_and_instances_in_int8_on_ethos_u85() -> None:
    model = Norms(rows_1=torch.nn.BatchNorm1d(4), images_3=torch.nn.InstanceNorm2d(4, affine=True))
    checked = check_rewrite(
        model, (torch.randn(2, 4, 2, 4, 4),), target="ethos-u85", expect="batch-norm", tolerance=1e-3
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(2, 4), max_size=3))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    x = torch.randn(2, 3, *sizes, dtype=dtype)
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("nan"), 1e20]))
    weight, bias = (data.draw(st.sampled_from([None, torch.rand(3, dtype=dtype)])) for _ in range(2))
    mean, var = torch.randn(3, dtype=dtype), torch.rand(3, dtype=dtype)
    for statistics in ((None, None, True), (mean, var, False)):
        running_mean, running_var, own = statistics
        arguments = (x, weight, bias, running_mean, running_var, own, 0.1, 1e-3, False)
        assert_same(torch.batch_norm(*arguments), batch_norm(*arguments), 1e-4)
        if sizes:
            assert_same(torch.instance_norm(*arguments), instance_norm(*arguments), 1e-4)


def test_images_that_the_backend_takes_are_left_alone() -> None:
    program = export(torch.nn.BatchNorm2d(3), (torch.randn(1, 3, 4, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 4), max_size=3), st.booleans(), st.floats(0, 1), st.integers(0, 99))
def test_in_training_the_statistics_move_as_they_do_in_pytorch(
    sizes: list[int], affine: bool, momentum: float, seed: int
) -> None:
    torch.manual_seed(seed)
    weight, bias = (torch.rand(3), torch.rand(3)) if affine else (None, None)
    arguments = (torch.randn(2, 3, *sizes), weight, bias, torch.randn(3), torch.rand(3), True, momentum, 1e-3)
    theirs = torch.ops.aten._native_batch_norm_legit_functional.default(*arguments)
    assert_same(theirs, trained_batch_norm(*arguments), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vgf", "xnnpack"])
def test_a_norm_that_trains_goes_whole_and_keeps_its_statistics(target: str) -> None:
    def program() -> torch.export.ExportedProgram:
        torch.manual_seed(0)
        return torch.export.export(torch.nn.BatchNorm2d(3).train(), (x,))

    x = torch.randn(2, 3, 4, 4)
    ours, eager = lowerfix.apply(program(), target=target), program()
    with torch.no_grad():
        assert_same(eager.module()(x), ours.module()(x), 1e-5)
    lowered = lowering.lower(ours, target, compile=False)
    assert lowered.delegates == 1
    assert set(lowered.cpu_ops) <= {"copy", "add.Tensor"}  # the statistics, and the int64 count of batches
    model = torch.nn.BatchNorm2d(3).train()
    statistics = {}
    for name, result in (("eager", eager), ("ours", ours)):
        module = result.module()
        with torch.no_grad():
            module(x)
        statistics[name] = {key: value for key, value in module.named_buffers() if key in dict(model.named_buffers())}
    assert_same(statistics["eager"], statistics["ours"], 1e-5)


@pytest.mark.parametrize("norm", [instance_norm])
def test_training_and_half_precision_are_declined(norm) -> None:  # type: ignore[no-untyped-def]
    x, mean, var = torch.randn(2, 3, 4), torch.zeros(3), torch.ones(3)
    with pytest.raises(Decline, match=r"call eval\(\)"):
        norm(x, None, None, mean, var, True, 0.1, 1e-5, False)
    for half in (norm, batch_norm):
        with pytest.raises(Decline, match="float32"):
            half(x.half(), None, None, None, None, True, 0.1, 1e-5, False)


@pytest.mark.slow
def test_stock_leaves_a_norm_without_running_statistics_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired in part."""
    program = export(lambda x: F.instance_norm(x), (torch.randn(1, 3, 4, 4),))
    assert lowering.lower(program, "vgf", compile=False).cpu_ops
