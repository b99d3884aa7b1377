"""Benchmarks: run `python -m benchmarks NAME` from the root of a checkout."""
