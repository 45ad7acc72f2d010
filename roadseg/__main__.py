"""Run the command line as `python -m roadseg`, which is also how launchers start it."""

from roadseg.commands.cli.main import main
from roadseg.learn.hardware.launchers import end_with_launcher

end_with_launcher()
main(prog_name="roadseg")
