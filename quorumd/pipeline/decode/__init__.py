"""Records as Arrow columns, decoded by numpy without a Python object per record.

    decode_records(data, batches, node, segment, position, columns, packed) -> pyarrow.RecordBatch     (.records)
        The records of whole batches of a piece of a file (scan.Batches), as columns of schemas.RECORDS, those named
        in `columns` and in that order. `position` is that of the piece in the file. Unknown types and versions yield
        rows with `raw`, never an exception; records that cannot be delimited or decoded yield rows with `fault`.
    plain_rows(data, batches, node, segment, position) -> list[dict]                                     (.plain)
        The same rows, decoded by the node's own codec one record at a time: the oracle of the tests, and the
        decoder of rare types.

    fault_rows(faults, node, segment, columns, packed), with_faults(rows, faults, node, segment)         (.records)
        Rows for the faults that a scan found.
    bad_records(rows) -> list[Fault]                                                                     (.records)
        The inverse: the faults that rows report.
    records_table(columns, packed) -> Table                                                              (.records)
        Names and types of the columns that decode_records returns.

The row of a record holds all of its fields, either in their own columns or in `data`.

    record_walk  the position and the shape of each record
    shapes       the positions of fields, shared by records with the same lengths, counts and tags
    layouts      the fields of frequent types, and the column of each field
    configs      ConfigRecords, which have no columns, as JSON
    gather       numbers at many places of a buffer at once
    cells        Arrow columns, from records of all shapes
"""

from quorumd.pipeline.decode.plain import plain_rows as plain_rows
from quorumd.pipeline.decode.records import bad_records as bad_records
from quorumd.pipeline.decode.records import decode_records as decode_records
from quorumd.pipeline.decode.records import fault_rows as fault_rows
from quorumd.pipeline.decode.records import records_table as records_table
from quorumd.pipeline.decode.records import with_faults as with_faults
