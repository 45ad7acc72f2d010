"""Run the command line as `python -m roadseg`, which is also how launchers start it."""

from roadseg.cli import main
from roadseg.learn.processes import reporting

with reporting():
    main(prog_name="roadseg")
