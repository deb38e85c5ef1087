"""`quorumd pipeline warm`: create the archive with which Spark starts in half the time."""

from __future__ import annotations

import os

import click

from quorumd.cli.pipeline.progress import display


@click.command()
@click.option("--remove", is_flag=True, help="Remove the archives of all versions instead.")
@click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
def warm(remove: bool, no_progress: bool) -> None:
    """Cache Spark's classes for this user, which halves its start time.

    Runs the jobs of the pipeline on a small log and archives the Java classes that they loaded, 200 MB in
    $XDG_CACHE_HOME/quorumd (~/.cache/quorumd). This takes half a minute. Run it again after an update of Java or
    Spark: an archive of another version is not used.

    \b
    Examples:
      quorumd pipeline warm
      quorumd pipeline warm --remove
    """
    if remove:
        from quorumd.pipeline.spark.class_archive import remove_archives

        for path in remove_archives(os.environ):
            click.echo(f"removed {path}")
        return
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.spark.warm import make_archive

    with display("starting Spark", not no_progress) as show:
        made = make_archive(show)
    click.echo(f"{made.archive} ({made.archive.stat().st_size / 1e6:.0f} MB)")
    click.echo(f"Spark starts in {made.after_s:.1f} s, {made.before_s:.1f} s without it")
