package scheduler

import (
	"math/rand/v2"
	"testing"

	"weir/internal/reference"
)

// Sequences that could not be sampled in their step sit out and go on later: no output changes, with forks, drafts
// and preemptions, and the others advance meanwhile.
func TestLateSequencesChangeNoOutput(t *testing.T) {
	reference.Slow(t)
	late, drafts, preemptions := uint64(0), uint64(0), uint64(0)
	for seed := range uint64(80) {
		want, _ := drafted(t, seed, 0, nil)
		for _, n := range []int{0, 5} {
			rng := rand.New(rand.NewPCG(seed, 33))
			got, w := drafted(t, seed, n, func(w *world) {
				w.lates = func() bool { return rng.IntN(4) == 0 }
			})
			if got != want {
				t.Fatalf("world %d: with late sequences\n%s\nwithout\n%s", seed, got, want)
			}
			st := w.sched.Stats()
			late, drafts, preemptions = late+st.Late, drafts+st.AcceptedTokens, preemptions+st.Preemptions
		}
	}
	if late < 1000 || drafts < 500 || preemptions == 0 {
		t.Errorf("%d late steps, %d drafts, %d preemptions: too few to show anything", late, drafts, preemptions)
	}
}

// Whatever else happens to late sequences, cancels, pauses, failures, every request comes to its end.
func TestLateSequencesOfRandomWorlds(t *testing.T) {
	late := uint64(0)
	explore(t, func(w *world) func() {
		n := 0
		w.lates = func() bool { n++; return mix(uint64(n))%5 == 0 }
		return func() { late += w.sched.Stats().Late }
	})
	if late < 100 {
		t.Errorf("%d late steps: too few to show anything", late)
	}
}
