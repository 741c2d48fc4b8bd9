import pytest
import torch

import lowerfix
from lowerfix.testing import assert_same, check_rewrite, export

MASK = torch.tensor([[1, 0, 1], [0, -7, 2**40]])
CHAINS = {
    "unsqueeze": lambda m: m.unsqueeze(-1).float(),
    "several": lambda m: m[:, None].transpose(1, 2).reshape(3, 2).float(),
    "expand": lambda m: m.unsqueeze(-1).expand(2, 3, 4).float(),
    "to int32": lambda m: m.flatten().to(torch.int32).float(),
    "slice and select": lambda m: m[:, 1:].select(0, 1).float(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_only_the_cast_of_the_input_stays_on_the_cpu(name: str) -> None:
    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x * CHAINS[name](mask).sum()

    checked = check_rewrite(
        model,
        (torch.randn(4), MASK % 5),
        target="vgf",
        expect={"cast-before-view", "strip-guards"},  # a check of the cast's dtype reads the cast too
        more_inputs=[(torch.randn(4), MASK)],
        allowed_left=["_to_dim_order_copy"],
        tolerance=1e-5,
    )
    assert checked.lowered.cpu_ops == {"_to_dim_order_copy": 1}


def test_a_view_that_others_read_is_left_alone() -> None:
    def model(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        view = mask.unsqueeze(-1)
        return view.float() * 2, view

    program = export(model, (MASK,))
    result = lowerfix.apply(program, target="vgf")
    assert [n.meta["val"].dtype for n in result.graph.nodes if "unsqueeze" in str(n.target)] == [torch.int64]
    assert_same(program.module()(MASK), result.module()(MASK))


@pytest.mark.parametrize("target", ["vgf", "xnnpack"])
def test_a_view_that_the_backend_takes_is_left_alone(target: str) -> None:
    program = export(lambda x: x.reshape(4, 2).to(torch.float16).float(), (torch.randn(2, 4),))
    assert str(lowerfix.apply(program, target=target, only="cast-before-view").graph) == str(program.graph)


def test_a_program_with_in_place_ops_is_left_alone() -> None:
    program = export(lambda x, m: x.add_(1) * m.unsqueeze(-1).float(), (torch.randn(2, 3, 1), MASK))
    assert str(lowerfix.apply(program, target="vgf", only="cast-before-view").graph) == str(program.graph)


@pytest.mark.slow
def test_a_lone_cast_at_the_end_gains_nothing_and_is_left_alone() -> None:
    """Where nothing takes the result, the view would only change places with the cast."""
    program = export(lambda m: m.flatten().to(torch.int16), (MASK,))
    result = lowerfix.apply(program, target="ethos-u85")
    assert_same(program.module()(MASK), result.module()(MASK))


def test_strides_are_kept_for_later_views() -> None:
    program = export(lambda m: m.unsqueeze(-1).expand(2, 3, 4).float().view(-1) * 2, (MASK,))
    result = lowerfix.apply(program, target="vgf")
    assert_same(program.module()(MASK), result.module()(MASK))
