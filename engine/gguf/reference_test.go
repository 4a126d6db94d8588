package gguf

import (
	"path/filepath"
	"testing"

	"weir/internal/reference"
)

func TestReferenceFilesParseAndRead(t *testing.T) {
	reference.Slow(t)
	paths, err := filepath.Glob(filepath.Join(reference.Path(t, "testdata"), "*", "*.gguf"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no reference files: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			readEverything(t, f, int(f.FileBytes()))
			if arch, ok, err := f.String("general.architecture"); !ok || err != nil || arch == "" {
				t.Errorf("architecture %q, %v, %v", arch, ok, err)
			}
			if tokens, ok, err := f.Strings("tokenizer.ggml.tokens"); !ok || err != nil || len(tokens) < 500 {
				t.Errorf("%d tokens, %v, %v", len(tokens), ok, err)
			}
			rebuild(t, f)
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func BenchmarkOpenVocabulary(b *testing.B) {
	path := reference.Path(b, "testdata/tokenizers/vocab-llama-bpe.gguf")
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
