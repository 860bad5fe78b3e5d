"""python -m gatewise."""

from gatewise.cli import main

main()
