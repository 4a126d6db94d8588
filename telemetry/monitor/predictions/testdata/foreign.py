"""Writes foreign.parquet: a file of another library, for the tests of reading.

    python foreign.py

needs the package pyarrow.
"""
import pyarrow
import pyarrow.parquet

rows = 1000
table = pyarrow.table({
    "id": [f"r{i % 7}" for i in range(rows)],
    "label": pyarrow.array([None if i % 10 == 3 else i % 2 for i in range(rows)], pyarrow.int32()),
    "amount": pyarrow.array([i / 4 for i in range(rows)], pyarrow.float32()),
    "exact": pyarrow.array([i / 3 for i in range(rows)], pyarrow.float64()),
    "big": pyarrow.array([i * 10**12 for i in range(rows)], pyarrow.int64()),
    "flag": [i % 3 == 0 for i in range(rows)],
    "list": [[i, i] for i in range(rows)],
    "tag": pyarrow.array(["a" if i % 2 else None for i in range(rows)]).dictionary_encode(),
})
pyarrow.parquet.write_table(table, "foreign.parquet", compression="snappy", row_group_size=300, data_page_size=512)
