"""Injected faults: each is found at its offset, and nothing else is reported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from quorumd.errors import InputIncomplete
from quorumd.pipeline.audit.audit import AuditReport, audit_here
from quorumd.pipeline.audit.findings import Finding, Severity
from scripts.log_generator import LogShape, generate
from tests.support.log import damaged_logs
from tests.support.log.damaged_logs import segments
from tests.support.log.log_files import batches

VOTERS = (1, 2, 3)
RECORDS = 150_000
"""Covers more than two buckets of digests."""
EPOCH_RECORDS = 40_000
SOMEWHERE = 70_001
"""An offset in the second bucket, not in the first batch of anything."""
EVERYWHERE = (5, 65_530, SOMEWHERE, RECORDS - 100)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("original")
    shape = LogShape(
        records=RECORDS, batch_records=16, segment_bytes=1 << 20, nodes=3, epoch_records=EPOCH_RECORDS
    )
    log = generate(directory, shape)
    for data_directory in log.directories.values():
        damaged_logs.save_state(data_directory, log.epoch, leader=-1, voted=-1)
    return directory


@pytest.fixture
def nodes(original: Path, tmp_path: Path) -> Iterator[dict[int, Path]]:
    """Three complete copies of a log, by node."""
    shutil.copytree(original, tmp_path / "copy")
    yield {node: tmp_path / "copy" / f"node-{node}" for node in VOTERS}
    shutil.rmtree(tmp_path / "copy")


def audited(nodes: dict[int, Path]) -> AuditReport:
    return audit_here({node: str(directory) for node, directory in nodes.items()})


def alarms(report: AuditReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity > Severity.INFO]


def the_alarm(report: AuditReport) -> Finding:
    (finding,) = alarms(report)
    assert not report.is_clean
    return finding


def reported(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.node, finding.offset_lo, finding.offset_hi


def test_sound_copies_have_no_findings(nodes: dict[int, Path]) -> None:
    report = audited(nodes)
    end = damaged_logs.end_offset(nodes[1])
    assert report.findings == ()
    assert report.is_clean
    assert report.commitment.up_to == end
    assert report.voters == VOTERS
    assert {copy.records for copy in report.copies.values()} == {end}
    assert all(pair.parts_at == end for pair in report.pairs.values())


@pytest.mark.parametrize("offset", EVERYWHERE)
def test_flipped_bit_is_found(nodes: dict[int, Path], offset: int) -> None:
    batch = damaged_logs.flip_bit(nodes[2], offset)
    finding = the_alarm(audited(nodes))
    assert reported(finding) == ("BAD_CRC", 2, batch.base_offset, batch.end_offset)
    assert finding.position == batch.position
    assert finding.severity == Severity.CRITICAL
    assert finding.committed


@pytest.mark.parametrize("offset", EVERYWHERE)
def test_change_with_matching_crc_is_found(nodes: dict[int, Path], offset: int) -> None:
    batch = damaged_logs.change_silently(nodes[3], offset)
    finding = the_alarm(audited(nodes))
    assert reported(finding) == ("DIVERGED", 3, batch.base_offset, batch.end_offset)
    assert finding.severity == Severity.CRITICAL
    assert finding.committed
    assert finding.epoch_lo == finding.epoch_hi == batch.epoch


def test_different_changes_on_all_nodes_are_found(nodes: dict[int, Path]) -> None:
    first = damaged_logs.change_silently(nodes[1], 100)
    second = damaged_logs.drop_batch(nodes[2], SOMEWHERE)
    third = damaged_logs.flip_bit(nodes[3], 120_000)
    found = alarms(audited(nodes))
    assert [reported(finding)[2:] for finding in found] == [
        (batch.base_offset, batch.end_offset) for batch in (first, second, third)
    ]
    assert [finding.code for finding in found] == ["DIVERGED", "GAP", "BAD_CRC"]
    assert all(finding.committed for finding in found)


@pytest.mark.parametrize("offset", EVERYWHERE)
def test_missing_batch_is_found(nodes: dict[int, Path], offset: int) -> None:
    batch = damaged_logs.drop_batch(nodes[1], offset)
    assert reported(the_alarm(audited(nodes))) == ("GAP", 1, batch.base_offset, batch.end_offset)


def test_missing_segment_is_found(nodes: dict[int, Path]) -> None:
    _, second, third, *_ = segments(nodes[1])
    second.unlink()
    finding = the_alarm(audited(nodes))
    assert reported(finding) == ("GAP", 1, int(second.stem), int(third.stem))
    assert finding.segment == third.name


def test_bytes_without_batch_are_found(nodes: dict[int, Path]) -> None:
    batch = damaged_logs.spoil(nodes[1], SOMEWHERE)
    finding = the_alarm(audited(nodes))
    assert reported(finding) == ("BROKEN_CHAIN", 1, batch.base_offset, batch.end_offset)
    assert finding.position == batch.position


def test_swapped_segments_are_found(nodes: dict[int, Path]) -> None:
    one, two = damaged_logs.swap_segments(nodes[1], 1, 2)
    found = alarms(audited(nodes))
    assert {finding.severity for finding in found} == {Severity.CRITICAL}
    assert {finding.node for finding in found} == {1}
    assert (found[0].code, found[0].offset_lo) == ("GAP", int(one.stem))
    assert ("OVERLAP", two.name) in {(finding.code, finding.segment) for finding in found}


def test_segment_of_other_log_is_found(nodes: dict[int, Path], tmp_path: Path) -> None:
    shape = LogShape(
        records=RECORDS, batch_records=16, segment_bytes=1 << 20, nodes=1, epoch_records=EPOCH_RECORDS, seed=2
    )
    other = generate(tmp_path / "other", shape).directories[1]
    mine, others = segments(nodes[1])[0], segments(other)[0]
    pairs = zip(batches(mine), batches(others), strict=False)
    first = next(one.base_offset for one, two in pairs if one.data != two.data)
    mine.write_bytes(others.read_bytes())
    found = alarms(audited(nodes))
    assert reported(found[0])[:3] == ("DIVERGED", 1, first)
    assert {finding.node for finding in found} == {1}


@pytest.mark.parametrize("epoch", [1, 7])
def test_changed_epoch_is_found(nodes: dict[int, Path], epoch: int) -> None:
    batch = damaged_logs.change_epoch(nodes[1], SOMEWHERE, epoch)
    found = alarms(audited(nodes))
    assert batch.base_offset in {finding.offset_lo for finding in found}
    assert {finding.node for finding in found} == {1}
    assert {finding.code for finding in found} >= {"EPOCH_REGRESSION"}


def test_lagging_copy_is_information(nodes: dict[int, Path]) -> None:
    end = damaged_logs.cut(nodes[3], SOMEWHERE)
    report = audited(nodes)
    (finding,) = report.findings
    assert report.is_clean
    assert reported(finding) == ("BEHIND", 3, end, report.commitment.up_to)


def test_copy_below_its_high_watermark_is_found(nodes: dict[int, Path]) -> None:
    damaged_logs.save_high_watermark(nodes[3], 100_000)
    end = damaged_logs.cut(nodes[3], SOMEWHERE)
    assert reported(the_alarm(audited(nodes))) == ("CUT_SHORT", 3, end, 100_000)


def test_uncommitted_tail_is_information(nodes: dict[int, Path]) -> None:
    offset = damaged_logs.cut(nodes[3], SOMEWHERE)
    last = damaged_logs.batch_at(nodes[1], SOMEWHERE)[1]
    # The others continued in the epoch that node 3 missed, and are in later epochs by now.
    start = damaged_logs.add_tail(nodes[3], last.epoch + 1, leader=3, voters=VOTERS)
    report = audited(nodes)
    assert start == offset
    assert report.is_clean is False
    # According to the others' logs, that epoch has a different leader.
    assert {finding.code for finding in alarms(report)} == {"LEADER_CONTRADICTION"}


def test_ends_of_different_epochs_are_compared(nodes: dict[int, Path]) -> None:
    """Node 3 led an epoch, wrote, and was isolated; the others began the next epoch without it."""
    epoch = audited(nodes).copies[1].last_epoch
    offset = damaged_logs.add_tail(nodes[3], epoch + 1, leader=3, voters=VOTERS)
    for node in (1, 2):
        damaged_logs.add_tail(nodes[node], epoch + 2, leader=1, voters=VOTERS)
    for node in VOTERS:
        damaged_logs.save_state(nodes[node], epoch + 2, leader=1, voted=-1)
    report = audited(nodes)
    (finding,) = report.findings
    assert report.is_clean
    assert reported(finding) == ("UNCOMMITTED_TAIL", 3, offset, offset + 4)
    assert finding.committed is False
    assert report.commitment.up_to == offset + 4


def test_two_committed_ends_are_critical(nodes: dict[int, Path]) -> None:
    epoch = audited(nodes).copies[1].last_epoch
    offset = damaged_logs.add_tail(nodes[3], epoch + 1, leader=3, voters=VOTERS)
    damaged_logs.save_high_watermark(nodes[3], offset + 2)
    for node in (1, 2):
        damaged_logs.add_tail(nodes[node], epoch + 2, leader=1, voters=VOTERS)
    for node in VOTERS:
        damaged_logs.save_state(nodes[node], epoch + 2, leader=1, voted=-1)
    finding = the_alarm(audited(nodes))
    assert reported(finding)[:3] == ("DIVERGED", 3, offset)
    assert finding.committed
    assert (
        "(copies of a majority of the voters, node 2 among them; high-watermark checkpoint of node 3)"
        in finding.detail
    )


def test_torn_tail_is_reported(nodes: dict[int, Path]) -> None:
    last = damaged_logs.tear_tail(nodes[2])
    report = audited(nodes)
    assert report.is_clean
    codes = {finding.code: finding for finding in report.findings}
    assert set(codes) == {"TORN_TAIL", "BEHIND"}
    assert reported(codes["TORN_TAIL"])[:3] == ("TORN_TAIL", 2, last.base_offset)
    assert codes["TORN_TAIL"].position == last.position


def test_torn_tail_below_flushed_offset_is_critical(nodes: dict[int, Path]) -> None:
    last = damaged_logs.tear_tail(nodes[2])
    damaged_logs.save_high_watermark(nodes[2], last.end_offset)
    found = alarms(audited(nodes))
    assert {finding.code for finding in found} == {"TORN_TAIL", "CUT_SHORT"}
    assert {finding.offset_lo for finding in found} == {last.base_offset}


def test_torn_segment_before_last_is_found(nodes: dict[int, Path]) -> None:
    segment = segments(nodes[2])[0]
    segment.write_bytes(segment.read_bytes()[:-5])
    found = alarms(audited(nodes))
    (finding,) = found
    assert finding.severity == Severity.CRITICAL
    assert (finding.code, finding.segment, finding.offset_hi) == (
        "TORN_TAIL", segment.name, int(segments(nodes[2])[1].stem),
    )  # fmt: skip


def test_forged_vote_is_found(nodes: dict[int, Path]) -> None:
    report = audited(nodes)
    epoch = report.copies[1].last_epoch
    # The generator lets the leader and the next node vote for the leader.
    leader = VOTERS[epoch % 3]
    other = next(node for node in VOTERS if node != leader)
    for node in VOTERS:
        damaged_logs.save_state(nodes[node], epoch, leader=leader, voted=other)
    found = alarms(audited(nodes))
    assert {finding.code for finding in found} == {"VOTE_CONTRADICTION"}
    assert len(found) == 2
    start = report.copies[1].epoch_starts[-1].offset
    assert {(finding.offset_lo, finding.epoch_lo, finding.peer) for finding in found} == {
        (start, epoch, leader)
    }


def test_leader_contradicting_log_is_found(nodes: dict[int, Path]) -> None:
    epoch = audited(nodes).copies[1].last_epoch
    wrong = VOTERS[(epoch + 1) % 3]
    damaged_logs.save_state(nodes[2], epoch, leader=wrong, voted=-1)
    finding = the_alarm(audited(nodes))
    assert (finding.code, finding.node, finding.epoch_lo) == ("LEADER_CONTRADICTION", 2, epoch)


def test_quorum_state_of_earlier_epoch_is_found(nodes: dict[int, Path]) -> None:
    epoch = audited(nodes).copies[1].last_epoch
    damaged_logs.save_state(nodes[2], epoch - 1, leader=-1, voted=-1)
    finding = the_alarm(audited(nodes))
    assert (finding.code, finding.node, finding.epoch_lo, finding.epoch_hi) == (
        "STATE_BEHIND_LOG", 2, epoch - 1, epoch,
    )  # fmt: skip


def test_log_without_its_start_is_found(nodes: dict[int, Path]) -> None:
    first, second, *_ = segments(nodes[1])
    first.unlink()
    report = audited(nodes)
    finding = the_alarm(report)
    assert reported(finding) == ("UNCOVERED_START", 1, 0, int(second.stem))
    assert report.commitment.up_to == damaged_logs.end_offset(nodes[2])


def test_missing_directory_is_reported(nodes: dict[int, Path]) -> None:
    with pytest.raises(InputIncomplete, match=r"node 2\b"):
        audited({**nodes, 2: nodes[2] / "nothing"})


def figure_8(nodes: dict[int, Path]) -> int:
    """Nodes 1 and 2 have records of an epoch; node 3 led a later one without them (Raft paper, figure 8 c)."""
    epoch = audited(nodes).copies[1].last_epoch
    for node in (1, 2):
        offset = damaged_logs.add_tail(nodes[node], epoch + 1, leader=1, voters=VOTERS)
    damaged_logs.add_tail(nodes[3], epoch + 2, leader=3, voters=VOTERS)
    for node in VOTERS:
        damaged_logs.save_state(nodes[node], epoch + 3, leader=-1, voted=-1)
    return offset


def test_majority_unknown_to_later_leader_proves_no_commit(nodes: dict[int, Path]) -> None:
    offset = figure_8(nodes)
    report = audited(nodes)
    assert report.commitment.up_to == offset
    (finding,) = report.findings
    assert finding.severity == Severity.INFO
    assert (finding.code, finding.offset_lo, finding.committed) == ("UNCOMMITTED_TAIL", offset, False)


def test_later_leader_without_committed_records_is_critical(nodes: dict[int, Path]) -> None:
    offset = figure_8(nodes)
    for node in VOTERS:
        damaged_logs.save_state(nodes[node], report_epoch(nodes) - (node != 3), leader=-1, voted=-1)
    damaged_logs.save_high_watermark(nodes[1], offset + 1)
    finding = the_alarm(audited(nodes))
    assert reported(finding)[:3] == ("DIVERGED", 3, offset)
    assert "lacked records committed" in finding.detail


def report_epoch(nodes: dict[int, Path]) -> int:
    return audited(nodes).copies[3].last_epoch


def test_correct_one_of_two_copies_is_unknown(nodes: dict[int, Path]) -> None:
    del nodes[3]
    batch = damaged_logs.change_silently(nodes[1], SOMEWHERE)
    finding = the_alarm(audited(nodes))
    assert reported(finding)[2:] == (batch.base_offset, batch.end_offset)
    assert {finding.node, finding.peer} == {1, 2}
    assert "which one is correct" in finding.detail


def test_one_voter_of_three_proves_no_commit(nodes: dict[int, Path]) -> None:
    report = audited({1: nodes[1]})
    assert report.voters == VOTERS
    assert report.commitment.up_to == 0
    assert report.is_clean


def test_directories_of_different_clusters_and_nodes_are_found(nodes: dict[int, Path]) -> None:
    for node, cluster in ((1, "a"), (2, "a"), (3, "b")):
        directory = nodes[node]
        text = f"version=1\ncluster.id={cluster}\nnode.id={node % 3 + 1}\ndirectory.id={'A' * 21}{'Qgw'[node - 1]}\n"
        (directory / "meta.properties").write_text(text)
    found = sorted((finding.code, finding.node or 0) for finding in alarms(audited(nodes)))
    assert found == [
        ("OTHER_CLUSTER", 3),
        ("WRONG_DIRECTORY", 1),
        ("WRONG_DIRECTORY", 2),
        ("WRONG_DIRECTORY", 3),
    ]


def test_unreadable_sidecar_file_is_found(nodes: dict[int, Path]) -> None:
    (damaged_logs.partition_path(nodes[2]) / "quorum-state").write_text("{")
    finding = the_alarm(audited(nodes))
    assert (finding.code, finding.node) == ("STATE_UNREADABLE", 2)


def test_overlapping_damage_is_reported(nodes: dict[int, Path]) -> None:
    """Arbitrary bytes anywhere in all copies give findings, but no exception."""
    random = Random(6)
    for directory in nodes.values():
        for segment in segments(directory):
            data = bytearray(segment.read_bytes())
            for _ in range(20):
                at, size = random.randrange(len(data)), random.choice((1, 4, 300, 5000))
                data[at : at + size] = random.choice((bytes(size), random.randbytes(size), b""))
            segment.write_bytes(data)
    report = audited(nodes)
    assert not report.is_clean
    assert {finding.node for finding in alarms(report)} == set(VOTERS)
