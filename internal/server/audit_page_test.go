package server

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"weir/telemetry/audit"
)

// keptLog has so many entries.
type keptLog struct {
	audit.Log

	entries int64
}

func (k keptLog) Head(context.Context) (audit.Head, error) {
	return audit.Head{Sequence: k.entries}, nil
}

func (k keptLog) Entries(_ context.Context, after int64) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for i := after + 1; i <= k.entries; i++ {
			if !yield(audit.Entry{Sequence: i}, nil) {
				return
			}
		}
	}
}

func TestAuditPagesGoBackToTheFirstEntry(t *testing.T) {
	for _, test := range []struct {
		entries, before int64
		want            string
	}{
		{0, 0, "[]"}, {2, 0, "[2 1]"}, {7, 0, "[7 6 5]"}, {7, 5, "[4 3 2]"}, {7, 2, "[1]"}, {7, 1, "[]"}, {7, 99, "[7 6 5]"},
	} {
		list, err := (&auditor{kept: keptLog{entries: test.entries}}).page()(t.Context(), test.before, 3)
		got := []int64{}
		for _, e := range list {
			got = append(got, e.Sequence)
		}
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("of %d entries those before %d are %v (%v), want %s", test.entries, test.before, got, err, test.want)
		}
	}
	if (&auditor{}).page() != nil {
		t.Error("without an audit log there is a page of it")
	}
}
