package kvcache

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"weir/internal/invariants"
	"weir/internal/reference"
)

// FuzzPool plays programs of pool calls; see driver.
func FuzzPool(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomProgram(seed, 300))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1000 {
			program = program[:1000]
		}
		if _, err := play(program); err != nil {
			t.Fatal(err)
		}
	})
}

func play(program []byte) (*driver, error) {
	d, err := newDriver(program)
	if err != nil {
		return nil, err
	}
	return d, d.run()
}

func randomProgram(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	program := make([]byte, n)
	for i := range program {
		program[i] = byte(rng.Uint32())
	}
	return program
}

// TestRandomProgramsKeepTheInvariants is the property test of K1 to K22: the
// driver checks each of them, and the programs must reach every kind of thing
// that could break one.
func TestRandomProgramsKeepTheInvariants(t *testing.T) {
	programs := reference.Repeats(100, 200, 500)
	if invariants.Enabled { // the race detector makes them ten times slower
		programs = 100
	}
	seen := map[string]int{}
	for seed := range uint64(programs) {
		d, err := play(randomProgram(seed, 600))
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, d.config, err)
		}
		for what, n := range d.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{
		"hit", "partial hit", "old hit", "old hit refused", "refused", "copy", "rejected draft",
		"slide", "passed", "kept where sequences fork", "kept where one is expected", "pin", "evicted", "folded", "collision", "insert", "insert refused",
	} {
		if seen[what] == 0 {
			t.Errorf("no program came to: %s", what)
		}
	}
	t.Log(seen)
}

func TestK18SameCallsSameBlocks(t *testing.T) {
	for seed := range uint64(20) {
		program := randomProgram(seed, 500)
		first, err := play(program)
		if err != nil {
			t.Fatal(err)
		}
		second, err := play(program)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.trace, second.trace) {
			t.Fatalf("seed %d: the same calls led to other blocks", seed)
		}
	}
}
