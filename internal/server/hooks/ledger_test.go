package hooks

import (
	"testing"
	"time"

	"weir/api/edge"
	"weir/api/usage"
)

func TestHitsOfTheResponseCacheAreChargedNoOutput(t *testing.T) {
	for _, hit := range []bool{false, true} {
		var ledger recordedUsage
		h := joined([]observer{{hooks: ledgerHooks(&ledger)}, {hooks: edge.Hooks{OnRequestFinish: func(f edge.RequestFinish) {
			if f.OutputTokens != 5 {
				t.Errorf("other hooks see %d", f.OutputTokens)
			}
		}}}})
		h.OnRequestFinish(edge.RequestFinish{RequestStart: edge.RequestStart{PromptTokens: 3}, CachedTokens: 3, OutputTokens: 5,
			FirstToken: time.Now(), FromCache: hit})
		if want := int64(5); ledger.record.Input != 3 || !hit && ledger.record.Output != want || hit && ledger.record.Output != 0 {
			t.Errorf("hit %v: %+v", hit, ledger.record)
		}
	}
}

// An answer that is no stream has no first token, and is charged all the same; one that
// never came is not.
func TestAnswersInOnePartAreCharged(t *testing.T) {
	for status, want := range map[int]int64{200: 7, 408: 0, 499: 0, 503: 0} {
		var ledger recordedUsage
		h := ledgerHooks(&ledger)
		h.OnRequestFinish(edge.RequestFinish{RequestStart: edge.RequestStart{PromptTokens: 7}, Status: status})
		if ledger.record.Input != want {
			t.Errorf("status %d: %+v", status, ledger.record)
		}
	}
}

// recordedUsage is a ledger of one record.
type recordedUsage struct {
	usage.Ledger
	record usage.Record
}

func (r *recordedUsage) Record(u usage.Record) { r.record = u }
