"""The JavaScript of Vega-Embed in one file, which draws the charts of a page without a network."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from quorumd.output_files import write_output
from quorumd.pipeline.user_cache import cache_directory


def vega_script(environment: Mapping[str, str]) -> str:
    """Return the script, from the cache of the user if it is there: bundling takes seconds."""
    import vl_convert

    cached = cache_directory(environment) / f"vega-embed-{version('vl-convert-python')}.js"
    try:
        script = cached.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script = ""
    if script.endswith(_END):
        return script
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Such text would end the script element of the page.
    script = bundle.replace("</script", r"<\/script") + _END
    _save(cached, script)
    return script


_END = "\n// end of Vega-Embed\n"
"""The end of the script: a cached file without it is truncated."""


def _save(path: Path, script: str) -> None:
    # Without a cache, the next page has to bundle the script again.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, script)
