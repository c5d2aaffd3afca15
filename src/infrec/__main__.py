"""`python -m infrec` is `infrec`."""

from infrec.cli import main

main()
