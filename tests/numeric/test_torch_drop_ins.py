"""The functions of `gradproof.torch` against those of PyTorch: on PyTorch's own sample inputs, values and gradients."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's test library, which has the sample inputs, imports it

from torch.nn import functional  # noqa: E402

import gradproof.torch as ours  # noqa: E402

# Each function, PyTorch's name for its sample inputs, how many of them there are to compare with at least, and the
# arguments that may be refused. A sample that is refused for anything else fails.
SAMPLES = {
    "scaled_dot_product_attention": ("nn.functional.scaled_dot_product_attention", 12, {"dropout_p"}),
    "cross_entropy": ("nn.functional.cross_entropy", 14, {"weight", "reduction", "label_smoothing"}),
    "mse_loss": ("nn.functional.mse_loss", 6, set()),
    "layer_norm": ("nn.functional.layer_norm", 6, set()),
    "rms_norm": ("nn.functional.rms_norm", 6, set()),
    "batch_norm": ("nn.functional.batch_norm", 1, {"running_mean", "training"}),
    "softmax": ("softmax", 7, set()),
    "log_softmax": ("log_softmax", 7, set()),
    "logsumexp": ("logsumexp", 15, set()),
    "gelu": ("nn.functional.gelu", 8, set()),
    "silu": ("nn.functional.silu", 3, set()),
    "softplus": ("nn.functional.softplus", 0, {"beta", "threshold"}),
    "logsigmoid": ("nn.functional.logsigmoid", 3, set()),
    "linear": ("nn.functional.linear", 18, set()),
    "embedding": ("nn.functional.embedding", 3, {"padding_idx", "max_norm", "scale_grad_by_freq"}),
    "cosine_similarity": ("nn.functional.cosine_similarity", 9, set()),
}


def theirs(name: str) -> Callable[..., Any]:
    return torch.logsumexp if name == "logsumexp" else getattr(functional, name)


def tensors_of(values: Any) -> list[Any]:
    return [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(values)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]


def compare(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    found, expected = getattr(ours, name)(*arguments, **options), theirs(name)(*arguments, **options)
    torch.testing.assert_close(found, expected, equal_nan=True)
    inputs = tensors_of((arguments, options))
    if inputs:
        upstream = torch.linspace(0.5, 1.5, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
        gradients = (torch.autograd.grad(made, inputs, upstream, allow_unused=True) for made in (found, expected))
        for one, other in zip(*gradients, strict=True):
            zero = torch.zeros(()) if one is None or other is None else None
            assert zero is None or (one is None and other is None)
            if one is not None:
                torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_inputs(name: str) -> None:
    # Only here, because it takes seconds to import, in every worker that collects this file.
    from torch.testing._internal.common_methods_invocations import op_db

    source, least, refusable = SAMPLES[name]
    compared, refused = 0, []
    for info in op_db:
        if info.name != source or torch.float64 not in info.dtypes:
            continue
        for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
            arguments, options = (sample.input, *sample.args), dict(sample.kwargs)
            if name == "embedding":
                arguments = (sample.args[0], sample.input)
            try:
                getattr(ours, name)(*arguments, **options)
            except NotImplementedError as error:
                refused.append(str(error))
                continue
            except ValueError as error:
                if "expected N >= 1" not in str(error):  # a mean over nothing: PyTorch gives nan
                    raise
                continue
            compare(name, arguments, options)
            compared += 1
        break
    assert compared >= least, (compared, refused)
    assert {reason.split(": ")[1].split("=")[0] for reason in refused} <= refusable


# PyTorch's have no signature to compare with; the samples are called by its names.
BUILT_IN = (
    "logsumexp",
    "gelu",
    "softplus",
    "logsigmoid",
    "linear",
    "scaled_dot_product_attention",
    "cosine_similarity",
)


@pytest.mark.parametrize("name", [name for name in ours.__all__ if name not in BUILT_IN])
def test_signature_is_that_of_pytorch(name: str) -> None:
    theirs_of = getattr(torch.nn, name, None) or theirs(name)
    expected = inspect.signature(theirs_of.forward if isinstance(theirs_of, type) else theirs_of).parameters
    made = getattr(ours, name)
    found = inspect.signature(made.forward if isinstance(made, type) else made).parameters
    assert [*found] == [*expected]
    assert [part.default for part in found.values()] == [part.default for part in expected.values()]


# ---------------------------------------------------------------------------------------------------------------------
# What the sample inputs do not have.


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def heads(queries: int = 5, keys: int = 7) -> tuple[Any, Any, Any]:
    return drawn(2, 3, queries, 4, seed=1), drawn(2, 3, keys, 4, seed=2), drawn(2, 3, keys, 6, seed=3)


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"scale": 0.3},
        {"scale": 0.3, "is_causal": True},
        {"attn_mask": torch.arange(7) < torch.arange(1, 6)[:, None]},
        {"attn_mask": torch.arange(7) < 4, "scale": 0.3},
        {"attn_mask": drawn(3, 5, 7, seed=4)},
        {"attn_mask": torch.where(torch.arange(7) < 4, 0.0, -torch.inf).double()},
    ],
)
def test_attention(options: dict[str, Any]) -> None:
    if "attn_mask" in options:
        options = options | {"attn_mask": options["attn_mask"].broadcast_to(2, 3, 5, 7)}
    compare("scaled_dot_product_attention", heads(), options)


def test_attention_with_broadcast_leading_dimensions_and_groups() -> None:
    Q, K, V = heads()
    compare("scaled_dot_product_attention", (Q, K[:1], V[:1]), {})
    compare("scaled_dot_product_attention", (drawn(2, 6, 5, 4), K, V), {"enable_gqa": True, "is_causal": True})


def test_attention_over_no_key_and_from_many_on() -> None:
    Q, K, V = heads()
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    O = ours.scaled_dot_product_attention(Q, K, V, mask)
    assert not O[:, :, 2].any()
    assert O[:, :, 1].all()
    empty = ours.scaled_dot_product_attention(Q, K[:, :, :0], V[:, :, :0])
    assert empty.shape == (2, 3, 5, 6)
    assert not empty.any()
    compare("scaled_dot_product_attention", (drawn(1, 2, 8), drawn(1, 4100, 8, seed=1), drawn(1, 4100, 8, seed=2)), {})


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_with_weights_and_ignored_targets(reduction: str, weighted: bool) -> None:
    z, w = drawn(4, 5, 3), drawn(5).detach().exp()
    target = torch.randint(5, (4, 3), generator=torch.Generator().manual_seed(5))
    target[1:3, 0] = -100
    compare("cross_entropy", (z, target), {"reduction": reduction, "weight": w if weighted else None})
    compare("cross_entropy", (z, target % 5), {"reduction": reduction, "ignore_index": 2})
    compare("cross_entropy", (z[0, :, 0], torch.tensor(3)), {"reduction": reduction})


def test_cross_entropy_of_shares_and_with_smoothing() -> None:
    z, y = drawn(4, 5, 3), drawn(4, 5, 3, seed=1).detach().softmax(1).requires_grad_()
    compare("cross_entropy", (z, y), {})
    compare("cross_entropy", (z, torch.ones(4, 3, dtype=torch.int64)), {"label_smoothing": 0.2})


def test_cross_entropy_over_no_target_is_zero() -> None:
    z = drawn(4, 5)
    loss = ours.cross_entropy(z, torch.full((4,), -100))
    (dz,) = torch.autograd.grad(loss, z)
    assert loss == 0
    assert not dz.any()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: ours.scaled_dot_product_attention(*heads(), dropout_p=0.1), "dropout_p=0.1"),
        (lambda: ours.scaled_dot_product_attention(*heads(), attn_mask=drawn(5, 7), scale=0.3), "scale=0.3"),
        (lambda: ours.scaled_dot_product_attention(*heads(), enable_gqa=True, scale=0.3), "scale=0.3"),
        (lambda: ours.cross_entropy(drawn(4, 5), torch.ones(4).long(), reduce=True), "reduce=True"),
        (lambda: ours.cross_entropy(drawn(4, 5), drawn(4, 5).detach(), reduction="sum"), "reduction='sum'"),
        (
            lambda: ours.cross_entropy(drawn(4, 5), torch.ones(4).long(), label_smoothing=0.1, ignore_index=1),
            "ignore_index=1",
        ),
        (lambda: ours.batch_norm(drawn(4, 5), None, None), "training=False"),
        (lambda: ours.batch_norm(drawn(4, 5), torch.zeros(5), torch.ones(5), training=True), "running_mean="),
        (lambda: ours.softmax(drawn(4, 5)), "dim=None"),
        (lambda: ours.softplus(drawn(4), beta=2), "beta=2"),
        (lambda: ours.silu(drawn(4), inplace=True), "inplace=True"),
        (lambda: ours.embedding(torch.ones(4).long(), drawn(4, 5), padding_idx=0), "padding_idx=0"),
        (lambda: ours.mse_loss(drawn(4), drawn(4), weight=torch.ones(4)), "weight="),
        (lambda: ours.dropout(drawn(4), inplace=True), "inplace=True"),
    ],
)
def test_what_no_kernel_is_derived_for_is_refused_by_name(call: Callable[[], Any], argument: str) -> None:
    with pytest.raises(NotImplementedError, match=argument):
        call()


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="expected one of mean, sum, none, found 'max'"):
        ours.cross_entropy(drawn(4, 5), torch.ones(4).long(), reduction="max")
    with pytest.raises(ValueError, match=r"target: expected entries in 0 \.\. 4"):
        ours.cross_entropy(drawn(4, 5), torch.full((4,), 5))
    with pytest.raises(ValueError, match="normalized_shape"):
        ours.layer_norm(drawn(4, 5), (4,))
    with pytest.raises(ValueError, match="found both"):
        ours.scaled_dot_product_attention(*heads(), torch.ones(5, 7).bool(), is_causal=True)
    with pytest.raises(ValueError, match=r"mse_loss|squared_error|expected leading dimensions"):
        ours.mse_loss(drawn(4), drawn(3))


def test_dropout() -> None:
    x = torch.ones(10_000, requires_grad=True)
    torch.manual_seed(1)
    y = ours.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal(y.detach(), x.grad)
    assert set(y.tolist()) == {0.0, 1 / 0.75} or torch.allclose(y[y != 0], torch.tensor(1 / 0.75))
    assert abs(float((y == 0).float().mean()) - 0.25) < 0.03
    assert ours.dropout(x, 0.25, training=False) is x


MODULES = [
    (lambda lib: lib.LayerNorm((3, 4)), (2, 3, 4)),
    (lambda lib: lib.RMSNorm(4, eps=1e-6), (2, 3, 4)),
    (lambda lib: lib.GELU(approximate="tanh"), (2, 3)),
    (lambda lib: lib.SiLU(), (2, 3)),
    (lambda lib: lib.Softplus(), (2, 3)),
    (lambda lib: lib.LogSigmoid(), (2, 3)),
    (lambda lib: lib.Softmax(dim=0), (2, 3)),
    (lambda lib: lib.LogSoftmax(dim=1), (2, 3)),
    (lambda lib: lib.Linear(4, 5, bias=False), (2, 3, 4)),
]


@pytest.mark.parametrize("place", range(len(MODULES)))
def test_modules(place: int) -> None:
    make, shape = MODULES[place]
    mine, original = make(ours).double(), make(torch.nn).double()
    mine.load_state_dict(original.state_dict())
    x = drawn(*shape)
    torch.testing.assert_close(mine(x), original(x))
    found = torch.autograd.grad(mine(x).sin().sum(), [x, *mine.parameters()])
    torch.testing.assert_close(found, torch.autograd.grad(original(x).sin().sum(), [x, *original.parameters()]))


def test_modules_with_other_inputs() -> None:
    z, target = drawn(4, 5), torch.tensor([1, 2, -100, 0])
    w = torch.arange(1.0, 6.0).double()
    torch.testing.assert_close(ours.CrossEntropyLoss(w)(z, target), torch.nn.CrossEntropyLoss(w)(z, target))
    torch.testing.assert_close(ours.MSELoss()(z, z.detach().cos()), torch.nn.MSELoss()(z, z.detach().cos()))
    torch.testing.assert_close(ours.CosineSimilarity()(z, z.cos()), torch.nn.CosineSimilarity()(z, z.cos()))
    mine, original = ours.Embedding(5, 3), torch.nn.Embedding(5, 3)
    mine.load_state_dict(original.state_dict())
    assert torch.equal(mine(torch.tensor([[1, 4]])), original(torch.tensor([[1, 4]])))
    assert ours.Dropout(0.5).eval()(z) is z


def test_a_model_compiles_without_a_graph_break() -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(ours.Linear(4, 8), ours.GELU(), ours.LayerNorm(8), ours.Linear(8, 3)).double()
    target = torch.tensor([0, 2])

    def loss(x: Any) -> Any:
        return ours.cross_entropy(model(x), target)

    x = drawn(2, 4)
    found = torch.compile(loss, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(found, loss(x))
    inputs = [x, *model.parameters()]
    torch.testing.assert_close(torch.autograd.grad(found, inputs), torch.autograd.grad(loss(x), inputs))


# ---------------------------------------------------------------------------------------------------------------------

ALLOWED = {
    "torch": {"Tensor", "dtype", "finfo", "nn", "rand_like", "uint8"},
    "UNTYPED": {"broadcast_shapes", "broadcast_tensors", "unflatten"},
}


def test_adapters_hold_no_arithmetic() -> None:
    """Every number comes from a kernel: the modules move axes, fill in defaults and hand on."""
    folder = Path(str(ours.__file__)).parent
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, (ast.BinOp, ast.AugAssign)):
                assert isinstance(node.op, ast.BitOr), where  # X | None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ALLOWED:
                assert node.attr in ALLOWED[node.value.id], f"{where}: torch.{node.attr}"
