"""Streams of randomness are independent, and their positions can be compared."""

from __future__ import annotations

from quorumd.simulator.environment.entropy import Streams


def test_draw_from_one_stream_does_not_affect_others() -> None:
    plain, drawn = Streams(1), Streams(1)
    drawn.stream("fault", 0).random()
    assert plain.stream("fault", 1).random() == drawn.stream("fault", 1).random()
    assert plain.stream("fault", 1).random() != plain.stream("fault", 2).random()


def test_hash_of_draws_covers_streams_and_positions() -> None:
    def hash_of(*names: str, draws: int = 1, seed: int = 1) -> str:
        streams = Streams(seed)
        opened = [streams.stream(name) for name in names]
        for _ in range(draws):
            opened[0].randrange(1000)
        return streams.draws_hash()

    assert hash_of("a", "b") == hash_of("a", "b")
    different = [
        hash_of("a", "b"),
        hash_of("a", "b", draws=2),
        hash_of("b", "a"),
        hash_of("a"),
        hash_of("a", "b", seed=2),
    ]
    assert len(set(different)) == len(different)
