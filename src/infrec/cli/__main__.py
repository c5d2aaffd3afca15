"""`python -m infrec.cli` is `infrec`."""

from infrec.cli import main

main()
