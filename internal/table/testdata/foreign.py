"""Writes the files of TestForeignFiles: pip install pyarrow polars duckdb; python foreign.py"""
import datetime, decimal
import duckdb, numpy as np, polars, pyarrow as pa, pyarrow.parquet as pq

n = 60
rows = range(n)
columns = {
    "id": pa.array([2**53 + 1 + i for i in rows], pa.int64()),
    "f32": pa.array([i / 4 for i in rows], pa.float32()),
    "f64": pa.array([None if i % 5 == 0 else i / 3 for i in rows], pa.float64()),
    "i8": pa.array([i - 30 for i in rows], pa.int8()),
    "u32": pa.array([4_000_000_000 - i for i in rows], pa.uint32()),
    "flag": pa.array([None if i == 40 else i < 23 or i % 3 == 0 for i in rows], pa.bool_()),
    "name": pa.array([None if i % 10 == 3 else f"r{i % 7}" for i in rows], pa.string()),
    "when": pa.array([datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=i, milliseconds=i) for i in rows], pa.timestamp("us")),
    "day": pa.array([datetime.date(2026, 1, 1) + datetime.timedelta(days=i) for i in rows], pa.date32()),
    "price": pa.array([decimal.Decimal(i - 30) / 100 for i in rows], pa.decimal128(9, 2)),
}
written = pa.table(columns)
pq.write_table(written, "pyarrow.parquet")
pq.write_table(written, "pyarrow-v2.parquet", data_page_version="2.0", compression="zstd", row_group_size=25)
pq.write_table(written, "pyarrow-lz4.parquet", compression="lz4", data_page_size=100)
pq.write_table(
    written, "pyarrow-delta.parquet", compression="gzip", use_dictionary=False,
    column_encoding={"id": "DELTA_BINARY_PACKED", "i8": "DELTA_BINARY_PACKED", "name": "DELTA_LENGTH_BYTE_ARRAY", "f64": "BYTE_STREAM_SPLIT"},
)
pq.write_table(
    written.append_column("half", pa.array(np.array([i / 8 for i in rows], np.float16))), "pyarrow-half.parquet", compression="none",
)
pq.write_table(written.append_column("list", pa.array([[i] for i in rows])), "pyarrow-nested.parquet")
pq.write_table(written, "pyarrow-prefix.parquet", use_dictionary=False, column_encoding={"name": "DELTA_BYTE_ARRAY"})
polars.from_arrow(written).write_parquet("polars.parquet", row_group_size=30)
duckdb.sql("copy (select * from written) to 'duckdb.parquet' (format parquet)")
duckdb.sql("copy (select * from written) to 'duckdb-v2.parquet' (format parquet, parquet_version v2, compression zstd)")
