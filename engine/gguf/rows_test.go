package gguf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Rows of a model whose File is closed can be read, until the reader is closed, too. A file that has shrunk is an error.
func TestRowsOutliveTheirFile(t *testing.T) {
	var b Builder
	b.Set("general.architecture", "llama")
	b.TensorF32("first", []uint64{2}, []float32{1, 2})
	b.TensorF32("table", []uint64{2, 3}, []float32{0, 0, 10, 11, 20, 21})
	dir := t.TempDir()
	paths, err := b.WriteSplits(dir, "m", 1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	table, _ := f.Tensor("table")
	rows, err := f.Rows(table)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := f.Tensor("first")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.ReadTensor(table, make([]byte, table.Bytes)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file gives a tensor: %v", err)
	}
	if _, err := f.Rows(first); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file gives a reader: %v", err)
	}
	dst := make([]byte, 8)
	if err := rows.Read(dst, 1); err != nil || dst[3] != 0x41 || dst[2] != 0x20 { // 10
		t.Errorf("row 1 is %x, %v", dst, err)
	}
	for _, row := range []int{-1, 3} {
		if err := rows.Read(dst, row); !errors.Is(err, ErrValue) {
			t.Errorf("row %d of 3: %v", row, err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, filepath.Base(paths[1])), table.Offset+8); err != nil {
		t.Fatal(err)
	}
	if err := rows.Read(dst, 2); !errors.Is(err, ErrTruncated) {
		t.Errorf("a row behind the end of the file: %v", err)
	}
	if err := errors.Join(rows.Close(), rows.Close()); err != nil {
		t.Error(err)
	}
	if err := rows.Read(dst, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed reader reads: %v", err)
	}
}
