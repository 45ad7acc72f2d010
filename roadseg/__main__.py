"""Run the command line as `python -m roadseg`."""

from roadseg.cli import main

main(prog_name="roadseg")
