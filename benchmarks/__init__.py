"""Benchmarks: run `python -m benchmarks NAME` from the root of a checkout.

Importing this package removes OPENBLAS_CORETYPE from the environment, before NumPy is imported and OpenBLAS reads it: a
core type that is set there by hand makes NumPy's products run on another processor's code, which no peer has to bear.
"""

import os

os.environ.pop("OPENBLAS_CORETYPE", None)
