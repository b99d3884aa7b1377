"""The step size of an update: a linear rise, then half a cosine down to a share of the peak.

    rate(s) = peak s / rise                                                       for s <= rise
    rate(s) = peak (final + (1 - final) (1 + cos(pi p)) / 2)   otherwise, with    p = (s - rise) / (steps - rise)

The number s of an update counts from 1. Without a rise, rise = 0, the first update is on the cosine already. Whoever
trains asks for one step or for all of them, as a vector. The cosine is that of Loshchilov and Hutter 2017, equation 5.
"""

from sympy import Eq, cos, pi

from derive.language import dims, leading_index, scalar, scalars, tensor, where
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
s = tensor("s", N)
peak, steps = scalars("peak steps", positive=True)
rise, final = scalar("rise"), scalar("final")

step_size = Program("step_size", "step sizes that rise and then fall along a cosine", [s, peak, rise, steps, final])
progress = step_size.define("progress", [n], where(s[n] <= rise, 0, (s[n] - rise) / (steps - rise)))
cosine = step_size.define("cosine", [n], peak * (final + (1 - final) * (1 + cos(pi * progress[n])) / 2))
rate = step_size.define("rate", [n], where(s[n] <= rise, peak * s[n] / rise, cosine[n]))
step_size.kernel(rate)
step_size.claim(
    "step-size-rise", rate[n], peak * s[n] / rise, given=[s[n] <= rise], name="first it rises in proportion to the step"
)
step_size.claim("step-size-peak", rate[n], peak, given=[Eq(s[n], rise)], name="the rise ends at the peak")
step_size.claim(
    "step-size-fall", rate[n],
    peak * (final + (1 - final) * (1 + cos(pi * (s[n] - rise) / (steps - rise))) / 2), given=[s[n] > rise],
    name="then it falls along half a cosine",
)  # fmt: skip
step_size.claim(
    "step-size-start", cosine[n], peak, given=[Eq(s[n], rise)], name="which begins at the peak: nowhere does it jump"
)
step_size.claim(
    "step-size-middle", rate[n], peak * (1 + final) / 2, given=[Eq(2 * s[n], rise + steps), steps > rise],
    name="half of the way down is half of the fall",
)  # fmt: skip
step_size.claim(
    "step-size-end", rate[n], peak * final, given=[Eq(s[n], steps), steps > rise], name="the last step has its share"
)
