package hooks

import (
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"weir/api/edge"
)

func TestAccessLogIsBounded(t *testing.T) {
	a := newAccessLog(zap.NewNop(), 2)
	at := time.Unix(1000, 0)
	for i, c := range []struct {
		after   time.Duration
		failed  bool
		skipped int
		ok      bool
	}{
		{0, false, 0, true}, {0, false, 0, true}, {0, false, 0, false}, {0, false, 0, false},
		{0, true, 2, true}, {0, true, 0, true}, {0, true, 0, false}, // failures have a share of their own
		{time.Second, false, 1, true},
	} {
		if skipped, ok := a.admit(at.Add(c.after), c.failed); skipped != c.skipped || ok != c.ok {
			t.Errorf("request %d: %d skipped, %v", i, skipped, ok)
		}
	}
	a.setRate(0)
	if _, ok := a.admit(at.Add(time.Hour), true); ok {
		t.Error("a log that is off writes a line")
	}
}

// TestAccessLogTellsTheSeed: the seed of a sampled answer, which its request may not have said.
func TestAccessLogTellsTheSeed(t *testing.T) {
	core, logs := logged.New(zap.InfoLevel)
	a := newAccessLog(zap.New(core), 10)
	a.finished(&edge.RequestFinish{RequestStart: edge.RequestStart{Seed: -7, Sampled: true}})
	a.finished(&edge.RequestFinish{RequestStart: edge.RequestStart{Seed: -7}})
	for i, entry := range logs.All() {
		if seed, told := entry.ContextMap()["seed"]; told != (i == 0) || told && seed != int64(-7) {
			t.Errorf("line %d: %v", i, entry.ContextMap())
		}
	}
	if logs.Len() != 2 {
		t.Errorf("%d lines", logs.Len())
	}
}
