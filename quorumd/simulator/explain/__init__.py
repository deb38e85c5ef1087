"""Explains a failing seed: `timeline` and `wire_tap` record what happened and which messages were sent,
`sequence_diagram` and `diagram_page` render it as one HTML page, `shrink` finds the shortest run that violates
the same invariant."""
