import torch

import lowerfix
from lowerfix.testing import assert_same, export

INPUTS = (torch.randn(1, 3, 16, 16),)


class ConvMean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).mean((2, 3))


def test_the_quantizer_takes_the_module_with_its_guards() -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = lowerfix.wrap_quantizer(lowerfix.targets.get("ethos-u85").quantizer(), target="ethos-u85")
    prepared = prepare_pt2e(export(ConvMean(), INPUTS).module(check_guards=True), quantizer)
    prepared(*INPUTS)
    assert "quantize_per_tensor" in convert_pt2e(prepared).code


def test_the_guard_call_goes_and_nothing_else() -> None:
    module = export(ConvMean(), INPUTS).module(check_guards=True)
    result = lowerfix.apply(module, target="vgf", only="strip-guards")
    ops = [str(node.target) for node in module.graph.nodes if node.target != "_guards_fn"]
    assert [str(node.target) for node in result.graph.nodes] == ops
    assert any(node.target == "_guards_fn" for node in module.graph.nodes), "the input was changed"
    assert_same(module(*INPUTS), result(*INPUTS))


def test_metadata_assertions_go() -> None:
    program = export(lambda x: x.to(torch.float64) * 2, (torch.randn(4),))
    assert "_assert_tensor_metadata" in str(program.graph)
    result = lowerfix.apply(program, target="vgf", only="strip-guards")
    assert "_assert_tensor_metadata" not in str(result.graph)


def test_what_a_user_asserts_about_values_stays() -> None:
    class Checked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.sum().to(torch.int64).item()
            torch._check(n > 0)
            return x * 2

    program = export(Checked(), (torch.ones(4),))
    count = str(program.graph).count("_assert_scalar")
    result = lowerfix.apply(program, target="vgf", only="strip-guards")
    assert count > 0
    assert str(result.graph).count("_assert_scalar") == count
