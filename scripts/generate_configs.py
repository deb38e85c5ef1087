"""Generate quorumd/controller/config_definitions.py from the jars of a release of Kafka.

    python scripts/generate_configs.py --jars build/stock-tools/4.4.0

`make stock-tools` downloads the jars. One line per config, its fields separated by spaces:

resource   TOPIC, GROUP, CLIENT_METRICS or BROKER
name
type       of Kafka's ConfigDef
default    null, or = and the value
rule       constraint of values: MIN:MAX (MAX may be missing), with |N for one value outside the range;
           in=A,B or case-insensitive=A,B for one of several; items=A,B for a list of these items, or of any
           non-empty items if none is named, and some-items=A,B if the list must not be empty; replicas, non-empty
           and offset-reset
synonym    the broker config that is the default of this one
internal   not described unless it is set
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
READER = ROOT / "scripts" / "ConfigDefinitions.java"
TARGET = ROOT / "quorumd" / "controller" / "config_definitions.py"
HEAD = '''"""Generated from Kafka {release} by scripts/generate_configs.py, which explains the fields."""

from __future__ import annotations

from typing import Final

RELEASE: Final = "{release}"
DEFINITIONS: Final = """\\
'''


@click.command()
@click.option(
    "--jars",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="Read the jars in this directory.",
)
def main(jars: Path) -> None:
    """Regenerate the definitions of all configs."""
    (core,) = jars.glob("kafka_2.13-*.jar")
    release = core.stem.removeprefix("kafka_2.13-")
    java = shutil.which("java")
    if java is None:
        raise click.ClickException("java not found: install Java 17")
    done = subprocess.run(
        [java, "-cp", f"{jars}/*", str(READER)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(done.stderr.strip())
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    if any(len(row) != 7 or len(field.split()) != 1 for row in rows for field in row):
        raise click.ClickException("a field of Kafka's definitions contains a space")
    TARGET.write_text(HEAD.format(release=release) + "".join(f"{' '.join(row)}\n" for row in rows) + '"""\n')
    click.echo(f"{TARGET.relative_to(ROOT)}: {len(rows)} configs of Kafka {release}")


if __name__ == "__main__":
    main()
