package hooks

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/server/state"
)

// A flood of wrong keys from everywhere makes few audit entries, whose size is bounded; after a quiet time the first one
// comes soon again.
func TestDeniedCallersAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entries []state.Details
		var mu sync.Mutex
		s := newSignIns(func(d state.Details) {
			mu.Lock()
			defer mu.Unlock()
			entries = append(entries, d)
		})
		begin := time.Now()
		total := 0
		for time.Since(begin) < 24*time.Hour {
			for i := range 50 {
				s.denied("unknown_key", fmt.Sprintf("10.0.%d.%d:4000", total%200, i))
				total++
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(2 * time.Hour)
		mu.Lock()
		counted, floods := 0, len(entries)
		for _, e := range entries {
			counted += e["requests"].(int)
			text, err := json.Marshal(e)
			if err != nil || len(text) > 1000 {
				t.Errorf("%v: %s", err, text)
			}
		}
		mu.Unlock()
		if counted != total || floods > 31 || floods < 24 {
			t.Errorf("%d of %d requests in %d entries", counted, total, floods)
		}
		time.Sleep(time.Hour)
		s.denied("revoked_key", "10.1.1.1:5")
		time.Sleep(deniedShortest + time.Second)
		s.denied("revoked_key", "10.1.1.1:5")
		s.flush()
		s.flush()
		if len(entries) != floods+2 {
			t.Errorf("%d entries after the flood, want one for each", len(entries)-floods)
		}
	})
}
