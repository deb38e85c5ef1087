"""Records as Arrow columns, decoded by numpy: no Python object a record.

    decode_records(data, batches, node, segment, position, columns, packed) -> pyarrow.RecordBatch     (.records)
        The records of whole batches of a piece of a file (scan.Batches), as columns of schemas.RECORDS, those named
        in `columns` and in that order. `position` is that of the piece in the file. Types and versions that are not
        known give rows with `raw`, never an exception; records that cannot be told apart or read give `fault`.
    plain_rows(data, batches, node, segment, position) -> list[dict]                                     (.plain)
        The same rows by the node's own codec, a record at a time: the oracle of the tests, and what decodes the
        types that are too rare to be worth arrays.

    fault_rows(faults, node, segment, columns, packed), with_faults(rows, faults, node, segment)         (.records)
        Rows for the damaged places that a scan found.
    bad_records(rows) -> list[Fault]                                                                     (.records)
        The other way round: what rows say could not be read.
    records_table(columns, packed) -> Table                                                              (.records)
        Names and types of the columns that decode_records gives.

Everything a record says is in its row: in columns of their own, or whole in `data`.

    record_walk   where the records are, and which shape each has
    shapes        what records have in common whose lengths, counts and tags are the same: where their fields are
    layouts       the frequent types: their fields, and the columns these go to
    configs       ConfigRecords, which have no columns, as JSON
    gather        numbers at many places of a buffer at once
    cells         Arrow columns made of shapes and of what else was read
"""

from quorumd.pipeline.decode.plain import plain_rows as plain_rows
from quorumd.pipeline.decode.records import bad_records as bad_records
from quorumd.pipeline.decode.records import decode_records as decode_records
from quorumd.pipeline.decode.records import fault_rows as fault_rows
from quorumd.pipeline.decode.records import records_table as records_table
from quorumd.pipeline.decode.records import with_faults as with_faults
