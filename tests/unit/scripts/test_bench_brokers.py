"""The tables of the broker benchmark for the documentation."""

from __future__ import annotations

from scripts.bench.brokers import KAFKA, QUORUMD, BrokerReport, Case, Idle, Sample


def test_markdown_has_the_medians_of_both_systems() -> None:
    ours = [Sample(rate, 1.25, 0.5, 2 * rate, 0.25) for rate in (300.0, 100.0, 1200.4)]
    theirs = [Sample(150.0, 2.0, 4.0, 70.0, 8.0)] * 3
    report = BrokerReport(
        "compiled",
        {
            Case("1", 1024, 10): {QUORUMD: ours, KAFKA: theirs},
            Case("all", 100, 1, 1): {QUORUMD: theirs, KAFKA: ours},
        },
        memory_mib={QUORUMD: 81.4, KAFKA: 441.0},
        first_record_s={QUORUMD: [0.4, 0.3, 0.35], KAFKA: [3.1]},
        caught_up={QUORUMD: [590.0], KAFKA: [178.0]},
        idle={QUORUMD: Idle(90.0, 0.017), KAFKA: Idle(400.0, 0.81)},
    )
    loads, single = report.markdown().split("\n\n")
    heading, rule, first, second = loads.splitlines()
    assert heading == (
        "| acks | bytes per record | partitions | produced MB/s: quorumd | Kafka | p99 ms: quorumd | Kafka | "
        "CPU s/GB produced: quorumd | Kafka | consumed MB/s: quorumd | Kafka | CPU s/GB consumed: quorumd | Kafka |"
    )
    assert rule == "| --- | --- |" + " ---: |" * 11
    assert first == "| 1 | 1,024 | 10 | 300 | 150 | 1.2 | 2.0 | 0.5 | 4.0 | 600 | 70 | 0.2 | 8.0 |"
    assert second == (
        "| all | 100, one record per batch | 1 | 150 | 300 | 2.0 | 1.2 | 4.0 | 0.5 | 70 | 600 | 8.0 | 0.2 |"
    )
    assert [row.split("|")[2:4] for row in single.splitlines()[2:]] == [
        [" 81 ", " 441 "],
        [" 0.35 ", " 3.10 "],
        [" 590 ", " 178 "],
        [" 90 ", " 400 "],
        [" 1.7 ", " 81.0 "],
    ]


def test_memory_after_the_loads_has_a_target() -> None:
    sample = Sample(300.0, 1.25, 0.5, 600.0, 0.25)
    report = BrokerReport(
        "compiled",
        {Case("1", 1024, 10): {QUORUMD: [sample]}},
        memory_mib={QUORUMD: 151.0},
        first_record_s={QUORUMD: [0.4]},
        caught_up={QUORUMD: [590.0]},
        idle={QUORUMD: Idle(90.0, 0.017)},
    )
    assert report.missed() == ["after the loads: 151 MiB, the target is 150 MiB"]
    report.memory_mib[QUORUMD] = 150.0
    assert report.missed() == []
