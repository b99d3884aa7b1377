"""The torch kernels as operators: opcheck, gradcheck, torch.compile, torch.func, DDP; and what they refuse."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from codegen.checking.sampling import Case, Shape, draw, sizes_of
from derive.language import Flag, Scalar, Tensor
from derive.library import load
from derive.program import Program

torch = pytest.importorskip("torch")
LIBRARY = {program.name: program for program in load() if program.request is not None}


def registered() -> dict[str, str]:
    """The names of all registered functions, each with the program that it is of: other schedules have their own."""
    found = {}
    for program in sorted(LIBRARY):
        module = importlib.import_module(f"generated.torch.{program}")
        found |= {made.rules.name: program for name, made in vars(module).items() if name.endswith("_operator")}
    return found


FUNCTIONS = registered()
DIFFERENTIATED = [name for name, program in FUNCTIONS.items() if LIBRARY[program].request.wrt]  # type: ignore[union-attr]


class Call:
    """One call of a registered kernel: small float64 inputs with distinct sizes, those of the gradient requiring it."""

    def __init__(self, name: str, *, grad: bool = True, seed: int = 0) -> None:
        self.program: Program = LIBRARY[FUNCTIONS[name]]
        self.module = importlib.import_module(f"generated.torch.{self.program.name}")
        self.function: Callable[..., Any] = getattr(self.module, name)
        made = [value.rules for key, value in vars(self.module).items() if key.endswith("_operator")]
        self.rules = next(rules for rules in made if rules.name == name)
        assert self.program.request is not None
        variables = {str(symbol.name) for symbol in self.program.request.wrt} if grad else set()
        plain, leading, least = sizes_of(self.program)
        sizes = {size: max(2, least.get(size, 1)) + turn % 2 for turn, size in enumerate(plain)}
        shape = Shape(sizes | dict.fromkeys(leading, 2), dict.fromkeys(leading, (2,)))
        flags = {str(known.name): True for known in self.program.all_inputs() if isinstance(known, Flag)}
        inputs, _ = draw(self.program, Case(1, shape, flags, bare=False), seed, attempt=1)
        self.arrays: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        for known in self.program.all_inputs():
            name, value = str(known.name), inputs[str(known.name)]
            if isinstance(known, Tensor):
                self.arrays[name] = torch.tensor(np.ascontiguousarray(value), requires_grad=name in variables)
            elif isinstance(known, Scalar) and name in variables:
                self.options[name] = torch.tensor(float(value), dtype=torch.float64, requires_grad=True)
            else:
                self.options[name] = value
        self.variables = [name for name in (*self.arrays, *self.options) if name in variables]

    def __call__(self, **changed: Any) -> Any:
        arrays = {name: changed.pop(name, value) for name, value in self.arrays.items()}
        return self.function(*arrays.values(), **(self.options | changed))

    def inputs(self) -> list[Any]:
        """The tensors that the gradient is taken for."""
        both = self.arrays | self.options
        return [both[name] for name in self.variables]

    def at(self, *values: Any) -> Any:
        """The value with other tensors for these."""
        return self(**dict(zip(self.variables, values, strict=True)))

    def operands(self) -> tuple[Any, ...]:
        """The arguments of the forward operator."""
        return (*self.arrays.values(), *(self.options[option.name] for option in self.rules.options))


def first(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple) else outputs


@pytest.mark.parametrize("name", FUNCTIONS)
def test_opcheck(name: str) -> None:
    call = Call(name)
    torch.library.opcheck(call.rules.operator, call.operands())
    if not call.variables:
        return
    held: dict[str, Any] = {}

    class Context:
        needs_input_grad = (False,) * len(call.operands())
        save_for_backward = staticmethod(lambda *tensors: held.update(tensors=tensors))
        set_materialize_grads = staticmethod(lambda _: None)

    with torch.no_grad():
        outputs = call.rules.operator(*call.operands())
    context = Context()
    call.rules.save(context, call.operands(), outputs)
    upstream = torch.full_like(first(outputs), 0.7)
    tensors = [tensor.detach() for tensor in held["tensors"]]
    torch.library.opcheck(call.rules.backward_operator, (upstream, *tensors, *context.numbers))


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradcheck(name: str) -> None:
    call = Call(name)
    assert torch.autograd.gradcheck(call.at, call.inputs(), fast_mode=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_is_that_of_the_plain_kernel(name: str) -> None:
    call = Call(name, grad=False)
    plain = getattr(call.module, f"{name}_forward")(*call.arrays.values(), **call.options)
    plain = plain[:-1] if name in DIFFERENTIATED else plain
    for found, expected in zip(
        torch.utils._pytree.tree_leaves(call()), torch.utils._pytree.tree_leaves(plain), strict=True
    ):
        assert torch.equal(found, expected)


# ---------------------------------------------------------------------------------------------------------------------
# Compilers and transforms.

COMPILED = ["attention", "cross_entropy", "info_nce", "layer_norm", "adamw", "attention_merge"]


@pytest.mark.parametrize("name", COMPILED)
def test_compile_without_a_graph_break(name: str) -> None:
    compare_compiled(Call(name), "aot_eager")


def test_compile_with_inductor() -> None:
    compare_compiled(Call("softmax"), "inductor")


def compare_compiled(call: Call, backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(call.at if call.variables else call, backend=backend, fullgraph=True)
    found, expected = first(compiled(*call.inputs())), first(call())
    torch.testing.assert_close(found, expected)
    if call.variables:
        upstream = torch.linspace(0.5, 1.5, found.numel(), dtype=found.dtype).reshape(found.shape)
        torch.testing.assert_close(
            torch.autograd.grad(found, call.inputs(), upstream), torch.autograd.grad(expected, call.inputs(), upstream)
        )


def test_export() -> None:
    class Block(torch.nn.Module):
        def forward(self, *arrays: Any) -> Any:
            return call.function(*arrays, causal=True)

    call = Call("attention", grad=False)
    program = torch.export.export(Block(), tuple(call.arrays.values()))
    assert any("gradproof.attention" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(*call.arrays.values()), call(causal=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_a_loop(name: str) -> None:
    """Over a batch of all arrays; by one more leading dimension where entries do not meet, else one after the other."""
    one, other = Call(name, grad=False, seed=1), Call(name, grad=False, seed=2)
    arrays = [torch.stack([a, b], dim=-1) for a, b in zip(one.arrays.values(), other.arrays.values(), strict=True)]
    found = torch.vmap(lambda *values: first(one.function(*values, **one.options)), in_dims=-1)(*arrays)
    expected = [first(one()), first(one.function(*other.arrays.values(), **one.options))]
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("name", ["attention", "layer_norm", "batch_norm", "info_nce", "embedding"])
def test_gradient_of_each_sample(name: str) -> None:
    calls = [Call(name, seed=seed) for seed in (1, 2, 3)]
    batches = [
        torch.stack([made.detach() for made in tensors]) for tensors in zip(*(c.inputs() for c in calls), strict=True)
    ]

    def loss(*values: Any) -> Any:
        return calls[0].at(*values).square().sum()

    found = torch.func.vmap(torch.func.grad(loss, argnums=tuple(range(len(batches)))))(*batches)
    for place in range(3):
        values = [batch[place].clone().requires_grad_() for batch in batches]
        torch.testing.assert_close([part[place] for part in found], list(torch.autograd.grad(loss(*values), values)))


def test_vmap_over_a_weight_a_number_and_nothing() -> None:
    call = Call("info_nce", grad=False)
    taus = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    found = torch.vmap(lambda tau: call(tau=tau))(taus)
    torch.testing.assert_close(found, torch.stack([call(tau=tau) for tau in taus]))
    norm = Call("layer_norm", grad=False)
    gammas = torch.stack([norm.arrays["gamma"], -norm.arrays["gamma"]])
    found = torch.vmap(lambda gamma: norm(gamma=gamma))(gammas)
    torch.testing.assert_close(found, torch.stack([norm(gamma=gamma) for gamma in gammas]))


def test_jacobian() -> None:
    call = Call("softmax")
    (z,) = call.inputs()
    p = call()
    expected = torch.diag_embed(p) - p[..., :, None] * p[..., None, :]
    found = torch.func.jacrev(call.at)(z.detach())
    torch.testing.assert_close(
        torch.einsum("aibj->abij", found), torch.einsum("aij,ab->abij", expected, torch.eye(2).double())
    )


def test_distributed_data_parallel(tmp_path: Path) -> None:
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:

        class Norm(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gamma, self.beta = (
                    torch.nn.Parameter(call.arrays[name].detach().clone()) for name in ("gamma", "beta")
                )

            def forward(self, x: Any) -> Any:
                return call.function(x, self.gamma, self.beta, **call.options)

        call = Call("layer_norm")
        model = torch.nn.parallel.DistributedDataParallel(Norm())
        model(call.arrays["x"]).square().sum().backward()
        expected = torch.autograd.grad(call().square().sum(), [call.arrays["gamma"], call.arrays["beta"]])
        torch.testing.assert_close([parameter.grad for parameter in model.parameters()], list(expected))
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("name", ["attention", "cross_entropy", "info_nce", "transformer_block"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precisions(name: str, kind: Any) -> None:
    """The value is that of float32 inputs, rounded; gradients have the type of what they are gradients for."""
    call = Call(name)
    half = [made.detach().to(kind).requires_grad_() for made in call.inputs()]
    others = {n: a.to(kind) for n, a in call.arrays.items() if n not in call.variables and a.is_floating_point()}
    output = call(**dict(zip(call.variables, half, strict=True)), **others)
    single = [made.detach().float().requires_grad_() for made in half]
    wide = call(**dict(zip(call.variables, single, strict=True)), **{n: a.float() for n, a in others.items()})
    assert output.dtype == kind
    assert torch.equal(output, wide.to(kind))
    found = torch.autograd.grad(output, half, torch.ones_like(output))
    for one, other in zip(found, torch.autograd.grad(wide, single, torch.ones_like(wide)), strict=True):
        assert one.dtype == kind
        # An output that is read again is saved as it is returned, in half precision.
        error = (one.float() - other).abs().max()
        assert error <= 4 * torch.finfo(kind).eps * other.abs().max()


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_neither_autocast_nor_a_default_device_reaches_into_a_kernel(name: str) -> None:
    """A product in half precision would not fit into memory for single precision; a number belongs on the host."""
    call = Call(name)
    arrays = {
        name: value.detach().float().requires_grad_(value.requires_grad) if value.is_floating_point() else value
        for name, value in call.arrays.items()
    }
    options = {name: float(value) if torch.is_tensor(value) else value for name, value in call.options.items()}
    inputs = [value for value in arrays.values() if value.requires_grad]

    def run() -> list[Any]:
        output = first(call.function(*arrays.values(), **options))
        return [output, *torch.autograd.grad(output.sum(), inputs)]

    expected = run()
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        found = run()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_fake_kernels_know_shape_type_and_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.no_grad():
        Q, K, V = (torch.empty(3, 1, length, 4, dtype=torch.bfloat16, device="cuda") for length in (5, 7, 7))
        O, *kept = torch.ops.gradproof.attention(Q, K, V, True)
    assert (O.shape, O.dtype, O.device.type) == (Q.shape, torch.bfloat16, "cuda")
    assert all(made.device.type == "cuda" for made in kept if made.ndim)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_may_be_written_into(name: str) -> None:
    """As PyTorch's own may: they are no views. Where the backward pass reads them again, autograd says so."""
    call = Call(name)
    output = first(call(**{known: 1 * made for known, made in call.arrays.items() if known in call.variables}))
    assert not output._is_view()
    output += 1
    if call.variables:
        try:
            found = torch.autograd.grad(output.sum(), call.inputs())
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017 - either way is right
        else:
            torch.testing.assert_close(found, torch.autograd.grad(first(call()).sum(), call.inputs()))


# ---------------------------------------------------------------------------------------------------------------------
# What is refused.


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_second_derivatives_are_refused(name: str) -> None:
    """Also where the upstream gradient is constant: the gradient depends on the inputs through what is saved."""
    call = Call(name)
    output = call()
    gradients = torch.autograd.grad(output, call.inputs(), torch.ones_like(output), create_graph=True)
    dependent = [gradient for gradient in gradients if gradient.requires_grad]
    if not dependent:
        # Linear in everything: then the gradient is a constant indeed.
        again = torch.autograd.grad(
            call.at(*(2 * made for made in call.inputs())), call.inputs(), torch.ones_like(output)
        )
        torch.testing.assert_close([2 * made for made in gradients], list(again))
        return
    with pytest.raises(NotImplementedError, match=f"{name}: second derivatives are not derived"):
        sum(gradient.sum() for gradient in dependent).backward()


def test_forward_mode_is_refused() -> None:
    call = Call("softmax", grad=False)
    z = call.arrays["z"]
    with pytest.raises(NotImplementedError, match="softmax: forward-mode derivatives are not derived"):
        torch.func.jvp(call.function, (z,), (torch.ones_like(z),))


@pytest.mark.parametrize("name", ["attention", "softmax", "adamw"])
def test_forward_mode_is_refused_by_the_operators_too(name: str) -> None:
    """A compiler traces the operator, and PyTorch takes one without a rule for tangents as constant."""
    call = Call(name, grad=False)
    first_array, *others = call.operands()

    def run(array: Any) -> Any:
        return first(call.rules.operator(array, *others))

    with pytest.raises(NotImplementedError, match=f"{name}: forward-mode derivatives are not derived"):
        torch.func.jvp(run, (first_array,), (first_array,))
    torch._dynamo.reset()
    compiled = torch.compile(lambda array: torch.func.jvp(run, (array,), (array,)), backend="aot_eager")
    with pytest.raises(Exception, match=f"{name}: forward-mode derivatives are not derived"):
        compiled(first_array)
    with torch.autograd.forward_ad.dual_level():
        call.rules.operator(*call.operands())  # nothing has a tangent


def test_an_input_without_a_derived_gradient_is_refused() -> None:
    call = Call("focal")
    with pytest.raises(
        NotImplementedError,
        match=r"focal: y requires grad, but has no gradient here \(derived are the gradients of x\)",
    ):
        call(y=call.arrays["y"].requires_grad_())
    with torch.no_grad():
        call()


def test_a_kernel_without_a_gradient_refuses_inputs_that_require_one() -> None:
    call = Call("attention_merge")
    outputs = call.arrays["outputs"].requires_grad_()
    with pytest.raises(
        NotImplementedError, match=r"attention_merge: outputs requires grad, but .* \(none is derived\)"
    ):
        call()
    with pytest.raises(NotImplementedError, match="outputs requires grad"):
        call.rules.operator(*call.operands())
    with torch.no_grad():
        O, _ = call()
    assert not O.requires_grad
    assert outputs.requires_grad


def test_what_an_operator_keeps_cannot_be_differentiated() -> None:
    call = Call("attention")
    _, A = torch.ops.gradproof.attention(*call.operands())[:2]
    assert not A.requires_grad


# ---------------------------------------------------------------------------------------------------------------------
# Modules that are loaded twice.


def loaded_again(name: str, number: int, change: tuple[str, str] = ("", "")) -> ModuleType:
    """A second copy of a generated module, under a name of its own, its text changed."""
    path = Path(str(importlib.import_module(f"generated.torch.{name}").__file__))
    package = f"second_kernels_{number}"
    spec = importlib.util.spec_from_file_location(
        package, path.parent / "__init__.py", submodule_search_locations=[str(path.parent)]
    )
    assert spec is not None
    parent = importlib.util.module_from_spec(spec)
    sys.modules[package] = parent
    module = ModuleType(f"{package}.{name}")
    module.__package__ = package
    sys.modules[module.__name__] = module
    exec(
        compile(path.read_text().replace(*change) if change[0] else path.read_text(), str(path), "exec"),
        module.__dict__,
    )
    return module


def test_a_graph_compiled_for_other_kernels_does_not_run() -> None:
    call = Call("softmax", grad=False)
    captured: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        captured.append(graph.code)
        return graph

    torch._dynamo.reset()
    torch.compile(call, backend=backend, fullgraph=True)()
    assert call.rules.version in captured[0]
    with pytest.raises(RuntimeError, match="softmax: the graph was compiled for kernels v00000000, these are v"):
        call.rules.operator(*call.operands(), "v00000000")


def test_two_versions_of_a_module_do_not_meet() -> None:
    call = Call("softplus", grad=False)
    x = call.arrays["x"]
    same = loaded_again("softplus", 1)
    other = loaded_again("softplus", 2, ("return restore(y,", "return restore(2 * y,"))
    names = [module._operator.rules.operator.name() for module in (call.module, same, other)]
    assert len(set(names)) == 3
    torch.testing.assert_close(same.softplus(x), call())
    torch.testing.assert_close(other.softplus(x), 2 * call())
    torch.testing.assert_close(call.function(x), call())
    for package in ("second_kernels_1", "second_kernels_2"):
        for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == package]:
            del sys.modules[loaded]
    del same, other
    gc.collect()
    left = [name.split("::")[1] for name in names if hasattr(torch.ops.gradproof, name.split("::")[1])]
    assert left == [names[0].split("::")[1]]
    torch.testing.assert_close(call.function(x), torch.nn.functional.softplus(x))
