"""The command line: one module for each command, and what they share.

Last stage of the data flow. A command chooses programs (`selection`), calls one stage of the library, shows how far it
is (`meter`) and prints the outcome (`render`). No command computes anything itself, and every exit code is decided in
the command's own module; `main` only turns errors into messages.
"""
