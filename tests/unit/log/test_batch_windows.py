"""Reading a file window by window finds the same batches as one scan of the whole file."""

from __future__ import annotations

import pytest

from quorumd.log import batch_windows
from quorumd.log.batch_windows import Window, read_windows
from quorumd.protocol.batch_scan import BatchRules, Gapless, scan
from quorumd.protocol.record_batch import encode_batch


class Bytes:
    """A file in memory, which another process truncates to `truncated_size` after its size is read."""

    def __init__(self, data: bytes, truncated_size: int | None = None) -> None:
        self._data = data
        self._truncated = data[:truncated_size]
        self.lengths: list[int] = []

    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, length: int) -> bytes:
        self.lengths.append(length)
        return self._truncated[position : position + length]


BATCHES = [encode_batch(n, 1 + n // 3, 5, [b"v" * size]) for n, size in enumerate((3, 500, 1, 20, 90, 2))]
WHOLE = b"".join(BATCHES)
"""Batches of 68 to 567 bytes."""


@pytest.fixture(params=[61, 100, 200, 700, 1 << 20])
def window_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(batch_windows, "_WINDOW_BYTES", request.param)
    return int(request.param)


def found(windows: list[Window]) -> list[bytes]:
    return [w.data[h.position : h.position + h.size] for w in windows for h in w.headers]


def ends(windows: list[Window]) -> tuple[int, str]:
    *before, last = windows
    assert not any(window.fault or window.is_cut_off for window in before)
    return last.end, last.fault


@pytest.mark.parametrize("zeros", [0, 3, 60, 61, 900])
def test_file_cut_anywhere_yields_its_whole_batches(window_bytes: int, zeros: int) -> None:
    for size in range(1, len(WHOLE) + 1, 7):
        data = WHOLE[:size] + bytes(zeros)
        windows = list(read_windows(Bytes(data), Gapless(0)))
        expected = scan(data, Gapless(0))
        assert found(windows) == [data[h.position : h.position + h.size] for h in expected.headers]
        end, fault = ends(windows)
        assert end == expected.end
        assert (fault != "") == (expected.fault != "")
        assert windows[-1].is_cut_off == expected.incomplete


def test_reading_starts_at_a_position(window_bytes: int) -> None:
    start = len(BATCHES[0] + BATCHES[1])
    assert found(list(read_windows(Bytes(WHOLE), Gapless(2, 1), start))) == BATCHES[2:]


def test_reading_stops_at_an_end(window_bytes: int) -> None:
    file = Bytes(WHOLE)
    end = len(BATCHES[0] + BATCHES[1])
    assert found(list(read_windows(file, Gapless(0), end=end))) == BATCHES[:2]
    assert found(windows := list(read_windows(file, Gapless(0), end=end - 1))) == BATCHES[:1]
    assert windows[-1].is_cut_off


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (encode_batch(4, 2, 5, [b"v"]), "offset 3 was expected"),
        (encode_batch(3, 0, 5, [b"v"]), "epoch 0 after epoch 1"),
        (BATCHES[3][:-1] + b"x", "the CRC does not match"),
    ],
)
def test_first_invalid_batch_ends_the_file_unless_only_the_structure_counts(
    window_bytes: int, wrong: bytes, text: str
) -> None:
    file = Bytes(b"".join(BATCHES[:3]) + wrong + BATCHES[4])
    windows = list(read_windows(file, Gapless(0)))
    assert found(windows) == BATCHES[:3]
    assert ends(windows) == (len(b"".join(BATCHES[:3])), text)
    assert not windows[-1].is_cut_off
    assert found(list(read_windows(file, BatchRules()))) == [*BATCHES[:3], wrong, BATCHES[4]]


def test_batch_larger_than_the_limit_is_not_read(window_bytes: int) -> None:
    file = Bytes(WHOLE)
    windows = list(read_windows(file, Gapless(0), max_batch_bytes=len(BATCHES[1]) - 1))
    assert max(file.lengths) <= max(window_bytes, len(BATCHES[1]) - 1)
    if window_bytes < len(BATCHES[1]):
        assert found(windows) == BATCHES[:1]
        assert windows[-1].is_cut_off


@pytest.mark.parametrize("kept", [0, 1, 40, len(BATCHES[0]), len(BATCHES[0]) + 70, len(WHOLE) - 1])
def test_file_truncated_while_it_is_read_ends_there(window_bytes: int, kept: int) -> None:
    windows = list(read_windows(Bytes(WHOLE, kept), Gapless(0)))
    assert found(windows) == BATCHES[: len(scan(WHOLE[:kept], Gapless()).headers)]
    assert windows[-1].end == scan(WHOLE[:kept], Gapless()).end


def test_empty_file_has_no_window() -> None:
    assert list(read_windows(Bytes(b""), Gapless())) == []
