"""Gradients for variables with structure: symmetric, triangular, on the simplex. Two conventions, both proved.

G is the gradient of a loss L with respect to an unconstrained variable, and the loss near a point is <G, X> but for a
constant. The variable is written with its free entries F, and differentiated:

    symmetric          free entries  G + G^T - I o G        within the space  (G + G^T) / 2
    lower triangular   free entries  G where j <= i         within the space  the same
    simplex            free entries  G[i] - G[last]         within the space  G[i] - mean(G)

The gradient within the space is the one vector of the space whose inner product with every direction V of the space is
that of G. The two are different arrays: for log det of a symmetric S they are 2 S^-1 - I o S^-1 and S^-1.
"""

from sympy import Eq, Expr

from derive.gradient import Gradient
from derive.language import Sum, delta, dims, indices, iverson, tensors
from derive.program import Program
from derive.structured import Convention, is_free_entry, structured, structured_gradient

FREE, WITHIN = Convention.FREE_ENTRIES, Convention.WITHIN_SPACE
n = dims("n")[0]
i, j, k = indices("i j k", n)
F, G, V = tensors("F G V", n, n)
f, g, v = tensors("f g v", n)


def loss_of(name: str, title: str, pairing: Expr) -> Gradient:
    """The gradient program of <G, X>, in which X is written with its free entries."""
    program = Program(name, title, origin=__name__)
    return program.gradient(program.define("loss", [], pairing))


# Symmetric matrices.
symmetric = loss_of("symmetric", "a loss of a symmetric matrix", Sum(G[i, j] * structured("symmetric", F, i, j), i, j))
dF, dloss = symmetric["dF"], symmetric["dloss"]
symmetric.claim(
    "symmetric-free", dF[i, j], dloss * structured_gradient("symmetric", G, i, j, convention=FREE),
    given=[is_free_entry("symmetric", i, j)], name="derivative in the free entries: G + G^T - I o G",
)  # fmt: skip
symmetric.claim("symmetric-not-free", dF[i, j], 0, given=[i > j], name="entries below the diagonal are not free")
within = structured_gradient("symmetric", G, i, j, convention=WITHIN)
swapped = structured_gradient("symmetric", G, j, i, convention=WITHIN)
symmetric.claim("symmetric-within", within, swapped, name="(G + G^T) / 2 is symmetric")
symmetric.claim(
    "symmetric-within", Sum(within * V[i, j], i, j), Sum(G[i, j] * V[i, j], i, j), given=[Eq(V[i, j], V[j, i])],
    name="and has G's inner product with every symmetric V",
)  # fmt: skip
symmetric.steps(
    "symmetric",
    Sum(G[i, j] * structured("symmetric", F, i, j), i, j),
    Sum(iverson(i <= j) * G[i, j] * F[i, j] + iverson(i > j) * G[i, j] * F[j, i], i, j),
    Sum(iverson(i <= j) * G[i, j] * F[i, j] + iverson(i < j) * G[j, i] * F[i, j], i, j),
    Sum(iverson(i <= j) * structured_gradient("symmetric", G, i, j, convention=FREE) * F[i, j], i, j),
    because=[
        "an entry below the diagonal is the one above it",
        "i and j change names in the second sum",
        "so a free entry off the diagonal meets G[i, j] and G[j, i], one on it G[i, i] alone",
    ],
)
symmetric.claim(
    "symmetric-apart",
    structured_gradient("symmetric", G, i, j, convention=FREE),
    (2 - delta(i, j)) * within,
    name="the two conventions differ by 2 off the diagonal",
)

# Lower triangular matrices: the free entries are orthogonal coordinates, so both conventions agree.
triangular = loss_of(
    "triangular", "a loss of a triangular matrix", Sum(G[i, j] * structured("lower triangular", F, i, j), i, j)
)
triangular.claim(
    "triangular-free", triangular["dF"][i, j],
    triangular["dloss"] * structured_gradient("lower triangular", G, i, j, convention=FREE),
    name="G where j <= i, else 0",
)  # fmt: skip
triangular.claim(
    "triangular-within",
    Sum(structured_gradient("lower triangular", G, i, j, convention=WITHIN) * iverson(j <= i) * V[i, j], i, j),
    Sum(G[i, j] * iverson(j <= i) * V[i, j], i, j), name="which has G's inner product with every triangular V",
)  # fmt: skip

# The simplex.
simplex = loss_of("simplex", "a loss of a point of the simplex", Sum(g[i] * structured("simplex", f, i), i))
simplex.claim("simplex-sum", Sum(structured("simplex", f, i), i), 1, name="the entries sum to 1")
simplex.claim(
    "simplex-free", simplex["df"][i], simplex["dloss"] * structured_gradient("simplex", g, i, convention=FREE),
    given=[is_free_entry("simplex", i)], name="derivative in the free entries: G[i] - G[last]",
)  # fmt: skip
along = structured_gradient("simplex", g, i, convention=WITHIN)
simplex.claim("simplex-within", Sum(along, i), 0, name="G - mean(G) is a direction of the space")
simplex.claim(
    "simplex-within", Sum(along * v[i], i), Sum(g[i] * v[i], i), given=[Eq(Sum(v[k], k), 0)],
    name="and has G's inner product with every direction of the space",
)  # fmt: skip
