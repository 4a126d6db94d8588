// Package table reads rows of CSV and Parquet files in pieces of bounded size, and writes rows with further columns to files of
// these formats. A [Source] is one or several files with the same columns; a [Chunk] is some of their rows, column by column; a
// [Writer] takes chunks in order, once other goroutines have prepared them.
//
// Files may be hostile: a record of CSV, a page of Parquet, and the pages that must be in memory together are bounded before
// memory is taken for them, by what the bytes say and not by what a header promises.
package table
