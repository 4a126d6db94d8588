package llm

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/internal/reference"
)

// FuzzDamagedModel changes bytes of a model's file: metadata, names, shapes and weights. Most files that come of it are
// refused. What opens has to generate without a panic, whatever its weights are, with every kernel and cache type,
// and to give all its blocks back.
func FuzzDamagedModel(f *testing.F) {
	reference.Slow(f)
	models := damageable(f)
	levels := isa.Levels()
	for i := range models {
		f.Add(uint8(i), uint8(i), []byte{})
		f.Add(uint8(i), uint8(i+1), edits(0, 200, 1, 90, 1, 3000, 0xff, 7000, 0x7f, 9000))
	}
	f.Fuzz(func(t *testing.T, model, how uint8, changes []byte) {
		raw := bytes.Clone(models[int(model)%len(models)])
		damage(raw, changes)
		file, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		e, err := Open(file, Options{
			Threads: 2, Level: levels[int(how)%len(levels)], KVType: attend.KVType(how / 8 % 4),
			KVBlocks: 12, MaxModelLen: 128, OnFault: func(text string) { t.Error(text) },
		}, nil)
		if err != nil {
			return
		}
		defer func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if s := e.Stats(); s.Panics+s.Faults > 0 || s.Cache.Referenced != 0 {
				t.Errorf("%+v", s)
			}
		}()
		tokens := make([]int32, 40)
		for i := range tokens {
			tokens[i] = int32(i % e.model.vocab)
		}
		r := &inference.Request{Prompt: tokens, MaxTokens: 6, N: 2, PromptLogprobs: -1, Sampling: inference.DefaultSampling(), Arrived: time.Now()}
		if s, err := e.Submit(r); err == nil {
			read(t, s)
		}
	})
}

// damageable are the files that are damaged: one of every family, those of decoders, and of every type of weights where the reference data are beside the checkout.
func damageable(f *testing.F) (models [][]byte) {
	for _, m := range families {
		models = append(models, m.build(f))
	}
	paths, _ := filepath.Glob("../../../shared/testdata/logits/*.gguf")
	own, _ := filepath.Glob(filepath.Join(decoders, "*.gguf"))
	for _, path := range append(own, paths...) {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		models = append(models, raw)
	}
	return models
}

// damagedHead is the part of a file that half of the changes go to: its metadata and its tensors' names and shapes.
const damagedHead = 6 << 10

// damage writes to raw what changes name: five bytes each, an offset and a value; every other one to the head.
func damage(raw, changes []byte) {
	for i := 0; len(changes) >= 5 && i < 64; i, changes = i+1, changes[5:] {
		part := raw
		if i%2 == 0 {
			part = raw[:min(len(raw), damagedHead)]
		}
		part[int(binary.LittleEndian.Uint32(changes))%len(part)] = changes[4]
	}
}

// edits are changes: of offsets and values in turns.
func edits(pairs ...int) (changes []byte) {
	for ; len(pairs) >= 2; pairs = pairs[2:] {
		changes = append(binary.LittleEndian.AppendUint32(changes, uint32(pairs[0])), byte(pairs[1]))
	}
	return changes
}
