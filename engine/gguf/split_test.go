package gguf

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// splits writes a model of three files and returns their paths.
func splits(t *testing.T) []string {
	t.Helper()
	paths, err := small().WriteSplits(t.TempDir(), "model", 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 3 || !strings.HasSuffix(paths[2], "model-00003-of-00003.gguf") {
		t.Fatalf("files %v", paths)
	}
	return paths
}

// rewrite puts another file in the place of path.
func rewrite(t *testing.T, path string, b *Builder) {
	t.Helper()
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
}

func splitPart(no, count uint16, tensors int32) *Builder {
	b := &Builder{}
	b.Set(splitNoKey, no)
	b.Set(splitCountKey, count)
	b.Set(splitTensorsKey, tensors)
	return b
}

func TestOpenReadsAllFilesOfASplitModel(t *testing.T) {
	paths := splits(t)
	f, err := Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	whole := small()
	checkTensors(t, f, whole)
	if arch, _, _ := f.String("general.architecture"); arch != "llama" {
		t.Errorf("architecture %q", arch)
	}
	var size int64
	for i, path := range paths {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
		if f.Tensors[i].Split != i {
			t.Errorf("tensor %d is in file %d", i, f.Tensors[i].Split)
		}
	}
	if f.FileBytes() != size {
		t.Errorf("%d bytes, want %d", f.FileBytes(), size)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.ReadTensor(&f.Tensors[0], make([]byte, f.Tensors[0].Bytes)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOpenRefusesInconsistentSplits(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(t *testing.T, paths []string) (open string)
		want   error
		says   string
	}{
		{"second file opened", func(_ *testing.T, p []string) string { return p[1] }, ErrSplit, "open "},
		{"file missing", func(t *testing.T, p []string) string {
			if err := os.Remove(p[1]); err != nil {
				t.Fatal(err)
			}
			return p[0]
		}, fs.ErrNotExist, "file 2 of 3"},
		{"file under another name", func(t *testing.T, p []string) string {
			if err := os.Rename(p[0], p[0]+".bak"); err != nil {
				t.Fatal(err)
			}
			return p[0] + ".bak"
		}, ErrSplit, "must be named *-00001-of-00003.gguf"},
		{"same number twice", func(t *testing.T, p []string) string {
			rewrite(t, p[2], splitPart(1, 3, 3))
			return p[0]
		}, ErrSplit, "split.no is 1"},
		{"other count", func(t *testing.T, p []string) string {
			rewrite(t, p[2], splitPart(2, 4, 3))
			return p[0]
		}, ErrSplit, "split.count 4"},
		{"file that is no part", func(t *testing.T, p []string) string {
			rewrite(t, p[1], small())
			return p[0]
		}, ErrSplit, "split.count 0"},
		{"tensors missing", func(t *testing.T, p []string) string {
			rewrite(t, p[2], splitPart(2, 3, 3))
			return p[0]
		}, ErrSplit, "hold 2 tensors, split.tensors.count says 3"},
		{"tensor in two files", func(t *testing.T, p []string) string {
			b := splitPart(2, 3, 3)
			b.TensorF32("token_embd.weight", []uint64{1}, []float32{1})
			rewrite(t, p[2], b)
			return p[0]
		}, ErrSplit, `"token_embd.weight" is in an earlier file`},
		{"file cut", func(t *testing.T, p []string) string {
			if err := os.Truncate(p[2], 100); err != nil {
				t.Fatal(err)
			}
			return p[0]
		}, ErrTruncated, "file 3 of 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Open(c.breaks(t, splits(t)))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v\nwant %v that says %q", err, c.want, c.says)
			}
			if f != nil {
				t.Error("a file came with the error")
			}
		})
	}
}

func TestOpenRefusesAMissingFile(t *testing.T) {
	if _, err := Open(t.TempDir() + "/none.gguf"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
