"""The consensus engine, without I/O: one event in, effects out (KIP-595 draft, Raft paper sections 5 to 8, KIP-996,
KIP-853).

`RaftEngine.step(event, now)` is the whole interface. It takes one of `events`, updates the engine's state and
returns one `Effects`: what to save, truncate and append, what to send at once, what to send after the next flush,
and the high watermark. The engine reads the log through `LogView`, and has no clock and no randomness of its own:
`now` (monotonic milliseconds) and `randrange(bound)` are arguments.

Contract between engine and caller
    * After each step the caller performs the effects in this order before the next step: `save`,
      `truncate_to`, `append`, `send`. `LogView` must show the truncation and the appends at once.
    * `send_after_flush` is sent when `save` and everything in the log at that moment are durable. No message is
      sent while an earlier `save` is not yet durable: messages queue behind it, in order.
    * The caller flushes after each append or truncation and reports `FlushCompleted(end_offset)` with the durable
      end offset. One flush may cover many appends. The event may be omitted while the engine does not lead: a new
      leader appends a record, and the flush of that record is reported.
    * The caller arms one timer for `engine.deadline` and reports `TimerFired` when it has passed. Early or
      superfluous TimerFired events are harmless.
    * Every request in `send` / `send_after_flush` completes exactly once, as `ResponseReceived` or
      `PeerRequestFailed` with the same request object; the engine decides whether and when to retry.
    * `PeerDiscovered` is also reported for the node itself: its address goes into the first voter record.
    * `FlushCompleted` for a flush that began before a truncation reports at most the end offset after the
      truncation.
    * If an append fails because the disk is full, `send` and the responses in `send_after_flush` are still sent, its
      requests complete as `PeerRequestFailed`, `new_high_watermark` applies up to the log end offset, and
      `StorageFull` is the next event.
    * `snapshot_chunk` is written at once. When the snapshot is complete, the caller verifies it off the event thread
      and reports `SnapshotChecked`; until then the engine emits no other `snapshot_chunk`. `reset_to_snapshot`
      replaces the log durably before the next step.
    * If `fatal` is set, no other effect is, and the caller stops the process.

Files, in reading order
    messages, events, effects   input and output types, with `log_view`, `quorum_state` and `settings`
    voters                      VoterSet, majorities, the history of voter sets with rollback
    roles                       the roles, the transitions between them, the state of each
    replica                     the state shared by all roles, and operations on it
    transitions                 transitions from any role: into a newer epoch, and to follower
    start, unattached, election, candidate, leader, fetch_service, voter_changes, follower, defaults
                                the handlers of each role: `election` has the vote rules, `fetch_service` and
                                `voter_changes` the leader's handling of fetches and voters, `defaults` the handlers
                                that most roles share
    snapshot_service, snapshot_fetching
                                the leader's and the follower's side of FetchSnapshot
    newer_epochs, voter_proof   which messages raise the epoch, and which fetches count as a voter's progress
    membership                  the next step from the current voters to the target voters
    read_index                  read-index rounds
    description                 DescribeQuorum
    engine                      the dispatch table (event, role) -> handler, and read-only properties

The draft leaves questions open, which docs/decisions.md numbers as holes. Code that implements a decision cites its
number ("hole 14"), and the name of a test has it.
"""
