import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.softplus import softplus, softplus_by_clamp, softplus_by_log
from lowerfix.testing import adversarial, adversarial_inputs, check_rewrite, export


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 0.3, 4.0])
def test_xnnpack_takes_it_whole_by_log(beta: float) -> None:
    checked = check_rewrite(lambda x: F.softplus(x, beta), (torch.randn(2, 8, 16) * 3,), target="xnnpack",
                            expect="softplus", tolerance=2e-6)  # fmt: skip
    assert "log1p" not in str(checked.after.graph)


@pytest.mark.slow
def test_xnnpack_takes_a_low_threshold_whole() -> None:
    inputs = (torch.randn(2, 8, 16),)
    check_rewrite(lambda x: F.softplus(x, 3, 0.2), inputs, target="xnnpack", expect="softplus", tolerance=2e-6,
                  lowered_inputs=list(adversarial_inputs(inputs)))  # fmt: skip


@pytest.mark.slow
def test_ethos_u85_takes_it_whole_by_log1p() -> None:
    checked = check_rewrite(F.softplus, (torch.randn(2, 8, 16) * 3,), target="ethos-u85", expect="softplus",
                            tolerance=2e-6)  # fmt: skip
    assert "log1p" in str(checked.after.graph)


@pytest.mark.parametrize("threshold", [20.0, 15.0, 1.0, 0.0, -1.0])
@pytest.mark.parametrize("beta", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("form", [softplus, softplus_by_log])
def test_every_threshold_is_kept(form, beta: float, threshold: float) -> None:  # type: ignore[no-untyped-def]
    base = torch.cat([torch.linspace(-40, 40, 2001), torch.tensor([threshold / beta])])
    for x in (base, *adversarial(base)):
        expected = F.softplus(x, beta, threshold)
        torch.testing.assert_close(form(x, beta, threshold), expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("threshold", [20.0, 15.0, 1.0, 0.0])
@pytest.mark.parametrize("beta", [1.0, 0.5, 3.0])
def test_every_threshold_is_kept_without_a_comparison(beta: float, threshold: float) -> None:
    base = torch.cat([torch.linspace(-40, 40, 2001), torch.tensor([threshold / beta])])
    for x in (base, *adversarial(base)):
        expected = F.softplus(x, beta, threshold)
        torch.testing.assert_close(
            softplus_by_clamp(x, beta, threshold), expected, rtol=1e-6, atol=1e-6, equal_nan=True
        )
    with pytest.raises(Decline, match="negative"):
        softplus_by_clamp(base, beta, -1.0)


@pytest.mark.parametrize("form", [softplus, softplus_by_log])
@pytest.mark.parametrize("beta", [1.0, 1e-3, 1e3])
def test_small_results_keep_their_relative_accuracy(form, beta: float) -> None:  # type: ignore[no-untyped-def]
    x = torch.linspace(-80, -1, 500) / beta
    exact = F.softplus(x.double(), beta)
    # exp(z) itself has a relative error of |z| times a rounding.
    assert float(((form(x, beta).double() - exact) / exact).abs().max()) < 80 * 2**-23


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_formula_holds_in_other_float_types(dtype: torch.dtype) -> None:
    x = torch.linspace(-30, 30, 1001).to(dtype)
    bound = max(2 * torch.finfo(dtype).eps, 4e-9)
    torch.testing.assert_close(softplus(x), F.softplus(x), rtol=bound, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beta", "threshold", "reason"),
    [
        (-1.0, 20.0, "beta is -1.0"),
        (1e-40, 20.0, "beta is 1e-40"),
        (1.0, 1e9, "overflows above 88.7"),
        (1.0, float("inf"), "overflows above 88.7"),
        (1.0, float("nan"), "overflows above 88.7"),
    ],
)
def test_what_rounding_or_overflow_would_change_is_declined(beta: float, threshold: float, reason: str) -> None:
    report = lowerfix.Report()
    program = export(lambda x: F.softplus(x, beta, threshold), (torch.randn(4),))
    assert str(lowerfix.apply(program, target="xnnpack", report=report).graph) == str(program.graph)
    [finding] = report.of("declined")
    assert reason in finding.reason


def test_vgf_takes_it_as_it_is() -> None:
    program = export(F.softplus, (torch.randn(4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)
