"""Programs of every kind survive a rewrite: valid, with the same interface and numbers, the input as it was."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map

import lowerfix
from lowerfix import lowering
from lowerfix.errors import LowerfixError
from lowerfix.program import Program, depends_on_data

REFUSED = ("aten.mish.default", "aten.conv_transpose1d.default", "aten.argmin.default")
X = torch.linspace(-3, 3, 64).reshape(2, 4, 8)


@pytest.fixture
def target(refusing: Callable[..., Any]) -> Any:
    return refusing(*REFUSED)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Upsample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ConvTranspose1d(4, 4, 3)

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(self.up(input))


class Named(nn.Module):
    def forward(self, max: Tensor, type: Tensor, print: Tensor) -> Any:
        return F.mish(max) + type, print * 2


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 8))
        self.register_buffer("last", torch.zeros(4, 8), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(F.mish(x[0]))
        self.last.copy_(F.mish(self.seen))
        return F.mish(self.seen + 1) + self.last


class WritesThroughView(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.kept[1:3].copy_(F.mish(x[0, :2]))
        return F.mish(x) + self.kept


class IndexPut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 8))
        self.register_buffer("at", torch.tensor([0, 2]))

    def forward(self, x: Tensor) -> Any:
        self.kept.index_put_((self.at,), F.mish(x[0, :2]))
        fresh = torch.zeros(4, 8)
        fresh.index_put_((self.at + 1,), x[0, :2])
        return F.mish(self.kept), fresh


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Any:
        y = x * 2
        F.mish(y, inplace=True)
        y.add_(1)
        return F.mish(y), y


class WritesInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.add_(1)
        return F.mish(x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.ConvTranspose1d(4, 4, 3), nn.ConvTranspose1d(4, 4, 3)
        self.two.weight = self.one.weight
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor, unused: Tensor) -> Tensor:
        return self.two(self.one(x)) + self.one.weight.sum()


class Keywords(nn.Module):
    def forward(self, x: Tensor, *, scale: Tensor, flag: bool = True) -> Tensor:
        return F.mish(x) * scale


class NotTensors(nn.Module):
    def forward(self, x: Tensor, n: int, f: float, b: bool, none: None) -> Any:
        return F.mish(x) * n + f if b else x


class Control(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: F.mish(y), lambda y: y * 2, (F.mish(x),))


class NoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Upsample()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = self.inner(x)
        return y + F.mish(x.sum())


class Lifted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x) + torch.tensor(1.5) + torch.arange(8) * 2


class Sizes(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return F.mish(x.reshape(x.shape[0] * x.shape[1], -1)), x.shape[0], x.argmin(-1, keepdim=True) + x.shape[0]


class DataDependent(nn.Module):
    def forward(self, x: Tensor) -> Any:
        n = (x.sum() * 0 + 3).to(torch.int64).item()
        torch._check(n >= 0)
        torch._check(n <= 4)
        return F.mish(x[0, :n]), n


def case(name: str, model: nn.Module, *inputs: Any, **options: Any) -> Any:
    return pytest.param(model, inputs, options, id=name)


CASES = [
    case("an input called input", Upsample(), X),
    case("inputs called like builtins", Named(), X, X, X),
    case("mutated buffers", Counting(), X),
    case("a buffer written through a view", WritesThroughView(), X),
    case("index_put_", IndexPut(), X),
    case("mish_ and add_", InPlace(), X),
    case("an input that is written to", WritesInput(), X),
    case("tied weights, an unused input and an unused parameter", Tied(), X, X),
    case("outputs that are inputs", Function(lambda x: (x, F.mish(x), x))),
    case("constant outputs", Function(lambda x: (1, None, F.mish(x), 2.5, True))),
    case("constant tensor outputs", Function(lambda x: (torch.arange(3), F.mish(x), torch.tensor(3.0)))),
    case("nested outputs", Function(lambda x: {"a": [F.mish(x), {"b": x.argmin(-1)}], "c": (x * 2,)})),
    case("one output twice", Function(lambda x: (lambda y: (y, y, y + 1))(F.mish(x)))),
    case("nested inputs", Function(lambda x: F.mish(x["a"]) + x["b"][0]), {"a": X, "b": [X]}),
    case("keyword inputs", Keywords(), X, kwargs={"scale": torch.tensor(2.0), "flag": True}),
    case("inputs that are no tensors", NotTensors(), X, 3, 2.5, True, None),
    case("0-d", Function(F.mish), torch.tensor(1.0)),
    case("0-d argmin", Function(lambda x: x.argmin()), torch.tensor(1.0)),
    case("empty", Function(F.mish), torch.zeros(0, 4)),
    case("bfloat16", Upsample().bfloat16(), X.bfloat16()),
    case("half", Upsample().half(), X.half()),
    case("double", Upsample().double(), X.double()),
    case("torch.cond", Control(), X),
    case("torch.no_grad", NoGrad(), X),
    case("tensors made in forward", Lifted(), X),
    case("weight norm", nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(4, 4, 3)), X),
    case("strict export", Upsample(), X, strict=True),
    case("channels last", Function(F.mish), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    case("strides a later view needs", Function(lambda x: F.mish(x.transpose(0, 2)).transpose(0, 2).view(-1)), X),
    case("a bounded batch", Upsample(), X, dynamic_shapes=({0: Dim("batch", min=1, max=8)},)),
    case("an unbounded batch", Upsample(), X, dynamic_shapes=({0: Dim("batch")},)),
    case("a dynamic length", Upsample(), X, dynamic_shapes=({2: Dim("length")},)),
    case("everything dynamic", Upsample(), X, dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO},)),
    case("sizes that are values", Sizes(), X, dynamic_shapes=({0: Dim("batch", min=1, max=8)},)),
    case("a size that depends on data", DataDependent(), X),
    case("a boolean mask", Function(lambda x: F.mish(x[x > 0])), X),
]


def copies(values: Any) -> Any:
    return tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, values)


def snapshot(program: ExportedProgram) -> list[Any]:
    """All that a user can see of a program, with the identity and the content of its tensors."""
    stored = {**program.state_dict, **program.constants}
    modules = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [
        [module.print_readable(print_output=False) for module in modules],
        [module.training for module in modules],
        str(program.graph_signature),
        str(program.module_call_graph),
        str(program.range_constraints),
        {key: (id(value), getattr(value, "_version", 0)) for key, value in stored.items()},
        assumptions(program),
    ]


def assumptions(program: ExportedProgram) -> Any:
    """What is assumed of the symbolic sizes: guards, sizes that were pinned, and ranges."""
    mode = Program(program).fake_mode
    if mode is None or mode.shape_env is None:
        return None
    sizes = mode.shape_env
    return str(sizes.guards), str(sizes.replacements), str(sizes.var_to_range)


def run(program: ExportedProgram, inputs: Any, kwargs: Any) -> Any:
    """Two calls, as the second one sees what the first has left in the buffers; the program's tensors are restored."""
    stored = [v for v in (*program.state_dict.values(), *program.constants.values()) if isinstance(v, Tensor)]
    before = [value.clone() for value in stored]
    with torch.no_grad():
        module = program.module()
        results = [module(*copies(inputs), **copies(kwargs)) for _ in range(2)]
        for value, content in zip(stored, before, strict=True):
            value.copy_(content)
    return results


def assert_equal(expected: Any, actual: Any, strides: bool = True) -> None:
    ours, their = tree_leaves(expected), tree_leaves(actual)
    assert len(ours) == len(their)
    for one, other in zip(ours, their, strict=True):
        if isinstance(one, Tensor):
            low = one.dtype in (torch.bfloat16, torch.float16)
            bound = {"rtol": 1e-2, "atol": 1e-2} if low else {}
            torch.testing.assert_close(other, one, check_stride=strides, **bound)
        else:
            assert type(one) is type(other)
            assert one == other


@pytest.mark.parametrize(("model", "inputs", "options"), CASES)
def test_rewritten_program_is_as_good_as_the_original(
    model: nn.Module, inputs: Any, options: dict[str, Any], target: Any
) -> None:
    from executorch.exir import to_edge
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    options = dict(options)
    kwargs = options.pop("kwargs", {})
    inputs = inputs or (X,)
    program = torch.export.export(model.eval(), copies(inputs), copies(kwargs), **options)
    before = snapshot(program)

    result = lowerfix.apply(program, target=target)

    assert snapshot(program) == before
    assert isinstance(result, ExportedProgram)
    result.validate()
    assert result.graph_signature.user_inputs == program.graph_signature.user_inputs
    assert str(result.range_constraints) == str(program.range_constraints)
    names = {node.target for node in result.graph.nodes}
    left_alone = isinstance(model, InPlace) or any(map(depends_on_data, program.graph.nodes))
    assert torch.ops.aten.mish.default not in names or left_alone
    assert torch.ops.aten.conv_transpose1d.default not in names

    again = lowerfix.apply(result, target=target)
    assert str(again.graph) == str(result.graph)
    assert str(again.graph_signature) == str(result.graph_signature)

    expected = run(program, inputs, kwargs)
    assert_equal(expected, run(result, inputs, kwargs))
    file = io.BytesIO()
    torch.export.save(result, file)
    file.seek(0)
    assert_equal(expected, run(torch.export.load(file), inputs, kwargs))
    assert_equal(expected, run(result.run_decompositions({}), inputs, kwargs))
    edge = to_edge(result).exported_program()  # verifies the ATen dialect first
    EXIREdgeDialectVerifier()(edge.graph_module)
    assert_equal(expected, run(edge, inputs, kwargs), strides=False)


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_a_dynamic_batch_stays_dynamic(batch: int, target: Any) -> None:
    model = Upsample().eval()
    program = torch.export.export(model, (X,), dynamic_shapes=({0: Dim("batch", min=1, max=8)},))
    result = lowerfix.apply(program, target=target)
    x = torch.randn(batch, 4, 8)
    torch.testing.assert_close(result.module()(x), model(x))


@pytest.mark.parametrize("length", [2, 5, 31])
def test_a_dynamic_length_stays_dynamic(length: int, target: Any) -> None:
    model = Upsample().eval()
    program = torch.export.export(model, (X,), dynamic_shapes=({2: Dim("length")},))
    result = lowerfix.apply(program, target=target)
    x = torch.randn(2, 4, length)
    torch.testing.assert_close(result.module()(x), model(x))


def test_weights_are_shared_not_copied(target: Any) -> None:
    program = torch.export.export(Upsample().eval(), (X,))
    result = lowerfix.apply(program, target=target)
    assert result.state_dict["up.bias"] is program.state_dict["up.bias"]
    [folded] = [value for name, value in result.state_dict.items() if name != "up.bias"]
    assert folded.shape == (4, 4, 1, 3)
    assert folded.data_ptr() == program.state_dict["up.weight"].data_ptr()


def test_parameters_that_nothing_reads_any_more_are_dropped(target: Any) -> None:
    result = lowerfix.apply(torch.export.export(Upsample().eval(), (X,)), target=target)
    assert "up.weight" not in result.state_dict
    assert len(result.state_dict) == 2


def test_a_parameter_that_was_unused_before_is_kept(target: Any) -> None:
    program = torch.export.export(Tied().eval(), (X, X))
    result = lowerfix.apply(program, target=target)
    assert result.state_dict["unused"] is program.state_dict["unused"]
    assert result.graph_signature.parameters.count("unused") == program.graph_signature.parameters.count("unused")


def test_a_stored_tensor_does_not_take_the_name_of_another(target: Any) -> None:
    """A folded sum is called ``add_folded``; so is a buffer of this model."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("add_folded", torch.tensor([5.0, 6.0]))
            self.one, self.two = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0, 4.0]))

        def forward(self, x: Tensor) -> Tensor:
            return x * (self.one + self.two) + self.add_folded

    program = torch.export.export(Model(), (torch.ones(2),))
    result = lowerfix.apply(program, target=target)
    assert result.state_dict["add_folded"] is program.state_dict["add_folded"]
    assert torch.equal(result.module()(torch.ones(2)), torch.tensor([9.0, 12.0]))


def test_a_second_run_does_not_overwrite_what_the_first_has_stored(target: Any) -> None:
    """What was stored as ``add_folded`` is still read when another pass makes an ``add`` and that is folded as well."""
    weight = torch.tensor([1.0, 2.0])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Parameter(weight), nn.Parameter(weight * 10)

        def forward(self, x: Tensor) -> Tensor:
            return x * (self.one + 1) + self.two

    class AddTwice(lowerfix.base.Pass):
        id = "add-twice"

        def run(self, program: Program, context: Any) -> bool:
            [node] = program.graph.find_nodes(op="placeholder", target="p_two")
            if any(user.target is torch.ops.aten.add.Tensor and user.args[1] == 3 for user in node.users):
                return False
            with program.graph.inserting_after(node):
                new = program.graph.call_function(torch.ops.aten.add.Tensor, (node, 3))
            new.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
            return True

    program = torch.export.export(Model(), (torch.ones(2),))
    first = lowerfix.apply(program, target=target, only="fold-constants")
    [stored] = [name for name in first.state_dict if name not in program.state_dict]
    added = AddTwice()(first, target=target).exported_program
    second = lowerfix.apply(added, target=target, only="fold-constants")
    assert torch.equal(second.state_dict[stored], first.state_dict[stored])
    assert torch.equal(second.module()(torch.ones(2)), (weight + 1) + weight * 10 + 3)


def test_what_shares_memory_with_a_mutated_buffer_is_not_folded(target: Any) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("whole", torch.zeros(4))
            self.register_buffer("part", self.whole[:2])

        def forward(self, x: Tensor) -> Tensor:
            self.whole.add_(1)
            return x + (self.part + 1)

    program = torch.export.export(Model(), (torch.zeros(2),))
    expected = run(program, (torch.zeros(2),), {})
    assert_equal(expected, run(lowerfix.apply(program, target=target), (torch.zeros(2),), {}))


def test_a_mutated_buffer_is_not_folded(target: Any) -> None:
    program = torch.export.export(Counting(), (X,))
    result = lowerfix.apply(program, target=target)
    assert {"seen"} == set(result.state_dict)
    assert set(result.graph_signature.buffers) == {"seen", "last"}


def test_submodule_signatures_survive_unflatten(target: Any) -> None:
    model = nn.Sequential(Upsample(), Upsample()).eval()
    program = torch.export.export(model, (X,), preserve_module_call_signature=("0", "1"))
    result = lowerfix.apply(program, target=target)
    torch.testing.assert_close(torch.export.unflatten(result)(X), model(X))


def test_the_body_of_control_flow_is_reported_and_left_as_it_is(target: Any) -> None:
    program = torch.export.export(Control(), (X,))
    report = lowerfix.Report()
    result = lowerfix.apply(program, target=target, report=report)
    [finding] = report.of("declined")
    assert "body of a control-flow op" in finding.reason
    assert finding.op == "cond"
    assert f"{__file__}:" in finding.source
    assert len(report.of("rewritten")) == 1
    bodies = [m for m in result.graph_module.modules() if isinstance(m, torch.fx.GraphModule)][1:]
    assert any(node.target is torch.ops.aten.mish.default for body in bodies for node in body.graph.nodes)


def test_training_flags_of_shared_bodies_are_not_touched(target: Any) -> None:
    program = torch.export.export(Control(), (X,))
    module = program.module(check_guards=False)
    body = next(m for name, m in module.named_modules() if name)
    body.training = not module.training
    lowerfix.apply(module, target=target)
    assert body.training is not module.training


@pytest.mark.parametrize("model", [Upsample(), Counting(), Control(), Tied()], ids=lambda model: type(model).__name__)
def test_graph_module_gives_the_same_as_the_program(model: nn.Module, target: Any) -> None:
    inputs = (X, X) if isinstance(model, Tied) else (X,)
    program = torch.export.export(model.eval(), inputs)
    expected = run(program, inputs, {})
    module = program.module()
    text, keys = str(module.graph), list(module.state_dict())
    result = lowerfix.apply(module, target=target)
    assert str(module.graph) == text
    assert list(module.state_dict()) == keys
    assert isinstance(result, torch.fx.GraphModule)
    with torch.no_grad():
        assert_equal(expected, [result(*copies(inputs)) for _ in range(2)])


def test_graph_module_keeps_its_attributes_and_hooks(target: Any) -> None:
    """prepare_pt2e and what follows look at ``meta``, at the class name and at the input spec."""
    module = torch.export.export(Keywords(), (X,), {"scale": torch.tensor(2.0)}).module(check_guards=False)
    module.meta["mine"] = 1
    result = lowerfix.apply(module, target=target)
    assert result.meta["mine"] == 1
    assert type(result).__name__ == type(module).__name__
    torch.testing.assert_close(result(X, scale=torch.tensor(3.0)), F.mish(X) * 3)


def test_check_finds_an_op_without_a_value() -> None:
    program = Program(torch.export.export(Function(F.mish), (X,)))
    output = program.graph.output_node()
    with program.graph.inserting_before(output):
        new = program.graph.call_function(torch.ops.aten.relu.default, (output.args[0][0],))
    output.args = ((new,),)
    with pytest.raises(LowerfixError, match=r"relu.*without a value"):
        program.check()


def test_check_finds_a_changed_output() -> None:
    program = Program(torch.export.export(Function(F.mish), (X,)))
    output = program.graph.output_node()
    output.args = ((output.args[0][0].args[0], output.args[0][0]),)
    with pytest.raises(LowerfixError, match="other outputs"):
        program.check()


def test_check_finds_a_graph_that_is_not_well_formed() -> None:
    program = Program(torch.export.export(Function(lambda x: F.mish(x) + 1), (X,)))
    mish, add = (node for node in program.graph.nodes if node.op == "call_function")
    add.append(mish)
    with pytest.raises(LowerfixError, match="not well-formed"):
        program.check()


def test_a_program_that_an_earlier_lowering_has_emptied_says_so() -> None:
    program = torch.export.export(nn.BatchNorm1d(4).eval(), (torch.randn(2, 4),))
    del program.state_dict["running_mean"]
    with pytest.raises(LowerfixError, match=r"lost its tensor 'running_mean'.*export the model again"):
        lowerfix.apply(program, target="tosa-fp")


def test_lowering_the_result_leaves_the_input_complete() -> None:
    """ExecuTorch takes tensors out of the dicts of the program that it lowers."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("order", torch.tensor([2, 0, 1]), persistent=False)

        def forward(self, x: Tensor) -> Any:
            return x[self.order] * 2

    program = torch.export.export(Shifted(), (torch.randn(3, 4),))
    before = {**program.state_dict, **program.constants}
    lowering.lower(lowerfix.apply(program, target="tosa-fp"), "tosa-fp", compile=False)
    assert {**program.state_dict, **program.constants}.keys() == before.keys()
