package llm

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
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
		runDamaged(t, raw, levels[int(how)%len(levels)], attend.KVType(how/8%4))
	})
}

// runDamaged generates with a damaged file, twice with the same prompt, and reports whether it opened.
func runDamaged(t *testing.T, raw []byte, level isa.Level, kv attend.KVType) bool {
	t.Helper()
	file, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return false
	}
	o := Options{Threads: 2, Level: level, KVType: kv, KVBlocks: 24, MaxModelLen: 128, OnFault: func(text string) { t.Error(text) }}
	if bytes.Contains(raw, []byte(".nextn.")) {
		o.MTP, o.Speculate, o.Scheduler = true, true, scheduler.Config{MaxDrafts: 3, EveryDraft: true, LookupMin: 20, LookupMax: 20}
	}
	e, err := Open(file, o, nil)
	if err != nil {
		return false
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
	for range 2 { // the second one finds blocks, and a state
		r := &inference.Request{Prompt: tokens, MaxTokens: 6, N: 2, PromptLogprobs: -1, Sampling: inference.DefaultSampling(), Arrived: time.Now()}
		if s, err := e.Submit(r); err == nil {
			read(t, s)
		}
	}
	return true
}

// Files of models with states are refused or run, whatever bytes of them are changed: no panic, no block or slot that stays.
func TestMutantsOfHybridsAreRefusedOrRun(t *testing.T) {
	var models [][]byte
	for _, f := range hybrids() {
		models = append(models, f.build(t))
	}
	for _, family := range []string{"nemotron", "qwen3next", "falcon", "qwen35", "glm4moe-mtp"} {
		paths, err := filepath.Glob(filepath.Join(decoders, family+"*.gguf"))
		if err != nil || len(paths) == 0 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			models = append(models, raw)
		}
	}
	r, ran, levels := rand.New(rand.NewPCG(28, 1)), 0, isa.Levels()
	mutants := reference.Repeats(40, 200, 10000)
	for i := range mutants {
		raw, changes := bytes.Clone(models[i%len(models)]), make([]byte, 5*(1+r.IntN(4)))
		for k := range changes {
			changes[k] = byte(r.IntN(256))
		}
		damage(raw, changes)
		if runDamaged(t, raw, levels[i%len(levels)], attend.KVType(i/len(levels)%4)) {
			ran++
		}
		if t.Failed() {
			t.Fatalf("mutant %d of model %d, changes %v", i, i%len(models), changes)
		}
	}
	t.Logf("%d of %d ran", ran, mutants)
	if ran < mutants/10 {
		t.Errorf("%d of %d files opened: the others are refused before anything of them runs", ran, mutants)
	}
}

// damageable are the files that are damaged: one of every family, those of decoders, and of every type of weights where the reference data are beside the checkout.
func damageable(f *testing.F) (models [][]byte) {
	for _, m := range slices.Concat(families, furtherHybrids) {
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
