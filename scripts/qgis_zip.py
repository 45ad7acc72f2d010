#!/usr/bin/env python
"""Write the QGIS plugin as a zip file, as the plugin repository of QGIS asks for it.

The repository refuses a plugin without the addresses of its source and its maintainers, which
depend on where this project is published.

    scripts/qgis_zip.py --repository https://example.org/roadseg --email roadseg@example.org
"""

import argparse
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from roadseg.commands.tools.qgis import PLUGIN, plugin_files
from roadseg.system.files import atomic_write

ROOT = Path(__file__).parents[1]


def write_zip(path, *, repository, tracker, email):
    """Write the plugin and the licence below one folder; equal plugins have equal bytes."""
    addresses = {
        "homepage": repository,
        "repository": repository,
        "tracker": tracker,
        "email": email,
    }
    lines = "".join(f"{key}={address}\n" for key, address in addresses.items())
    texts = {file.name: file.read_bytes() for file in (*plugin_files(), ROOT / "LICENSE")}
    texts["metadata.txt"] += lines.encode()
    with atomic_write(path) as partial, ZipFile(partial, "w", ZIP_DEFLATED) as archive:
        for name, text in sorted(texts.items()):
            member = ZipInfo(f"{PLUGIN}/{name}")
            member.external_attr = 0o644 << 16
            archive.writestr(member, text, ZIP_DEFLATED)


def main():
    """Read the addresses, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repository", required=True, metavar="URL", help="of the source")
    parser.add_argument("--tracker", metavar="URL", help="of issues; else /issues of the source")
    parser.add_argument("--email", required=True, help="of the maintainers")
    parser.add_argument("--output", type=Path, default=Path(f"{PLUGIN}.zip"))
    args = parser.parse_args()
    tracker = args.tracker or f"{args.repository}/issues"
    write_zip(args.output, repository=args.repository, tracker=tracker, email=args.email)
    print(args.output)


if __name__ == "__main__":
    main()
