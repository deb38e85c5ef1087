"""Consensus, pure: an event in, effects out (KIP-595 draft, Raft paper sections 5 to 8, KIP-996, KIP-853).

`RaftEngine.step(event, now)` is the whole interface. It takes one value of `events`, changes the engine's
memory, and returns one `Effects`: what to save, truncate and append, what to send now, what to send once all
that is durable, how far the log is committed. It reads the log through `LogView` and nothing else of
the world: `now` (monotonic milliseconds) and a `below(bound)` function for random waits are arguments.

Contract between engine and caller
    * After each step the caller performs the effects in this order before the next step: `save`,
      `truncate_to`, `append`, `send`. `LogView` must show the truncation and the appends at once.
    * `send_after_flush` leaves when `save` and everything in the log at that moment are durable. No message
      at all leaves while an earlier `save` is not durable yet: they queue behind it, in order.
    * The caller flushes whenever something was appended or truncated and reports `Flushed(end_offset)` with
      the end offset that is durable; it may leave that out while the engine does not lead, since becoming a
      leader appends. Flushes gather: one may cover many appends.
    * The caller arms one timer for `engine.deadline` and reports `TimerFired` when it has passed. Early or
      superfluous TimerFired events are harmless.
    * Every request in `send` / `send_after_flush` comes back exactly once, as `ResponseReceived` or
      `PeerRequestFailed`
      with the same request object; the engine itself decides whether and when to ask again.
    * `PeerDiscovered` is also told of the node itself: its address goes into the first voter record.
    * `Flushed` of a flush that began before a truncation reports no more than the truncation left.
    * An append that the log refuses for want of room: `send` still leaves, requests in `send_after_flush` come
      back as `PeerRequestFailed`, `new_high_watermark` counts as far as the log goes, and `StorageFull` is the next
      event.
    * `snapshot_chunk` is kept at once; when the snapshot is whole the caller checks it beside the event thread and
      reports `SnapshotChecked`; until then no other `snapshot_chunk` comes. `reset_to_snapshot` replaces
      the log before the next step, durably.
    * `fatal` in Effects means: stop the process, nothing of the other effects was set.

Files, in reading order
    messages, events, effects   what goes in and out, flat; `log_view`, `quorum_state`, `settings` beside them
    voters                      VoterSet, majorities, the history of voter sets with rollback
    roles                       the roles, which may follow which, what each remembers
    replica                     what a replica remembers in all roles, and the verbs on it
    transitions                 newer epochs and leaders found: moves that any role can make
    start, unattached, election, candidate, leader, fetch_service, voter_changes, follower, other
                                what each does on which event; vote rules are in `election`, the leader's side of
                                fetching in `fetch_service` and of who votes in `voter_changes`, what most roles do
                                alike in `other`
    snapshot_service, snapshot_fetching
                                the leader's and the follower's side of fetching a snapshot in place of records
    membership                  from the voters of now to those that shall be, one voter a step
    reads                       read-index rounds
    description                 DescribeQuorum
    engine                      the table (event, role) -> handler, and the read-only view

Departures from the draft are listed in the docstring of `quorumd.protocol`; the holes of the draft are decided
where the code obeys the decision, and a test names each.
"""
