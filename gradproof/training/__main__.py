"""`python -m gradproof.training ...` is `gradproof train ...`: the entrance for torchrun.

torchrun --nproc-per-node 2 -m gradproof.training --engine torch --steps 1000
"""

import sys

from gradproof.cli.entrance import enter

if __name__ == "__main__":
    enter(["train", *sys.argv[1:]])
