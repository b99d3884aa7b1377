"""`python -m gradproof.training ...` is `gradproof train ...`: the entrance for torchrun.

torchrun --nproc-per-node 2 -m gradproof.training --engine torch --steps 1000
"""

import sys

from gradproof.cli.main import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]], prog_name="gradproof")
