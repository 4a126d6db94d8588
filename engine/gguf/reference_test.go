package gguf

import (
	"path/filepath"
	"testing"
)

// referenceData is beside the repository where the files are at hand.
const referenceData = "../../../shared/testdata"

func TestReferenceFilesParseAndRead(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(referenceData, "*", "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("the reference data ../shared/testdata is not beside the repository")
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
	path := filepath.Join(referenceData, "tokenizers", "vocab-llama-bpe.gguf")
	if paths, _ := filepath.Glob(path); len(paths) == 0 {
		b.Skip("the reference data ../shared/testdata is not beside the repository")
	}
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
