"""`python -m gradproof`: the command line, under the same name as the console script."""

from gradproof.cli.main import main

main(prog_name="gradproof")
