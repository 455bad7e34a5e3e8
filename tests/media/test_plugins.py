"""HEIC and JPEG XL: decoded where their plug-in is installed, else the failure names the extra."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from io import BytesIO
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from tests.media.pictures import HEIGHT, ORIENTATION, WIDTH, encoded, noise
from vcache_cli.errors import MediaError
from vcache_cli.media import PillowDecoder, notice_text, plugins, versions
from vcache_cli.profile import Profile

DECODER = PillowDecoder(Profile("test", 1, "transformers", ("5",)))
HEADS = {
    "HEIC": bytes([0, 0, 0, 24]) + b"ftypheic" + bytes(4) + b"mif1heic" + bytes(64),
    "JPEG XL": b"\xff\x0a" + bytes(40),
}


def loaded(name: str) -> str:
    """The format's name for `Image.save`; the test is skipped where the plug-in is missing."""
    plugin = plugins.PLUGINS[name]
    try:
        module = importlib.import_module(plugin.module)
    except ImportError:
        pytest.skip(f"the extra `{plugin.extra}` is not installed")
    if plugin.register:
        getattr(module, plugin.register)()
    return plugin.pillow_format


@pytest.mark.parametrize("name", HEADS)
def test_without_the_plugin_the_failure_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugins.PLUGINS[name]
    absent = replace(plugin, module="no_such_plugin")
    monkeypatch.setitem(plugins.PLUGINS, name, absent)
    for ask in (DECODER.decode, DECODER.measure):
        with pytest.raises(MediaError, match="is not installed") as error:
            ask(HEADS[name])
        assert error.value.item_kind == "unsupported"
        assert f"pip install 'vcache-cli[{plugin.extra}]'" in error.value.hint


def test_a_plugin_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(plugins.PLUGINS["HEIC"], module="broken_plugin.inside")
    monkeypatch.setitem(sys.modules, "broken_plugin", ModuleType("broken_plugin"))
    monkeypatch.setitem(plugins.PLUGINS, "HEIC", broken)
    with pytest.raises(MediaError, match=r"cannot be loaded|is not installed"):
        DECODER.decode(HEADS["HEIC"])


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_with_the_plugin_it_decodes_as_pillow_does(name: str, mode: str) -> None:
    kind = loaded(name)
    data = encoded(noise(mode), kind)
    frames = DECODER.decode(data)
    with Image.open(BytesIO(data)) as image:
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(frames.rgb[0], expected)
    assert DECODER.measure(data) == (frames.width, frames.height) == (WIDTH, HEIGHT)
    assert frames.warnings[-1] == "needs_plugin"
    assert "server" in notice_text("needs_plugin")
    assert plugins.PLUGINS[name].package in versions()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_with_the_plugin_the_header_tells_the_size(name: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    data = encoded(noise(), loaded(name), exif=exif.tobytes())
    shrinking = PillowDecoder(replace(DECODER.profile, max_side=11))
    for decoder in (DECODER, shrinking):
        frames = decoder.decode(data)
        assert decoder.measure(data) == (frames.width, frames.height)


@pytest.mark.parametrize("name", HEADS)
def test_with_the_plugin_damage_is_a_media_error(name: str) -> None:
    data = encoded(noise(), loaded(name))
    for cut in (40, len(data) // 2):
        with pytest.raises(MediaError):
            DECODER.decode(data[:cut])


def test_a_jpeg_xl_bomb_is_refused_before_it_is_opened() -> None:
    data = encoded(noise(), loaded("JPEG XL"))
    small = PillowDecoder(DECODER.profile, max_pixels=WIDTH * HEIGHT - 1)
    with pytest.raises(MediaError, match="the limit is"):
        small.decode(data)
