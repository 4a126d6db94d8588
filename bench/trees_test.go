package bench

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"weir/engine/gbdt"
	"weir/internal/roofline"
)

// TestRunTrees: every size is measured with the kernel that serves it, and held against the machine's limits.
func TestRunTrees(t *testing.T) {
	e, err := MakeTrees(20, 4, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gbdt.NewWith(e, gbdt.Options{Kernel: "padded"})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := RunTrees(context.Background(), m, TreeOptions{Batches: []int{1, 3}, Rounds: 3, Round: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[1].Batch != 3 || rows[1].Kernel != "padded" || len(rows[1].Nanos) != 3 || rows[1].Median() <= 0 {
		t.Fatalf("measured %+v", rows)
	}
	// 300 nodes at a byte in 2 ns; a row alone also waits for 20 additions.
	if err := LimitTrees(rows, m, roofline.Rates{Int8Ops: 1e9}); err != nil {
		t.Fatal(err)
	}
	if rows[0].Limit < rows[1].Limit || math.Abs(rows[1].Limit-600) > 1e-6 {
		t.Errorf("limits %v and %v, want at least 600 and 600", rows[0].Limit, rows[1].Limit)
	}
	var text strings.Builder
	if err := WriteTreesMarkdown(&text, rows); err != nil || strings.Count(text.String(), "padded") != 2 {
		t.Errorf("table, %v:\n%s", err, text.String())
	}
	r := NewResult("gbdt")
	r.AddTrees(rows, m.Choice())
	if len(r.Rows) != 6 || r.Rows[0].Name != "batch1" || r.Rows[0].Unit != "ns/row" || r.Rows[0].Value != rows[0].Median() {
		t.Errorf("rows of the result: %+v", r.Rows)
	}
}

func TestRunTreesRefuses(t *testing.T) {
	if _, err := MakeTrees(1, 40, 1, 1); err == nil {
		t.Error("made trees of depth 40")
	}
	e, err := MakeTrees(2, 2, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gbdt.New(e)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]TreeOptions{
		"no batch":     {Batches: []int{0}},
		"no row":       {Batches: []int{1}, Rows: make([]float32, 4)},
		"too few rows": {Batches: []int{4}, Rows: make([]float32, 9)},
	} {
		if _, err := RunTrees(context.Background(), m, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
