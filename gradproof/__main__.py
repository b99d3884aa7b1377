"""`python -m gradproof`: the command line, under the same name as the console script."""

from gradproof.cli.entrance import enter

enter()
