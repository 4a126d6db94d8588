package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/inference"
)

// slowEmbedder takes a millisecond for every text.
type slowEmbedder struct{ texts int }

func (s *slowEmbedder) Embed(_ context.Context, a *inference.Embedding) error {
	s.texts += len(a.Texts)
	time.Sleep(time.Duration(len(a.Texts)) * time.Millisecond)
	return nil
}

func TestTextsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slowEmbedder{}
		rows, err := RunTexts(context.Background(), e, TextOptions{Tokens: []int{3}, Texts: []int{1, 20}, Rounds: 2, Vocabulary: 10, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2 || len(rows[1].Rounds) != 2 {
			t.Fatalf("%d cases", len(rows))
		}
		if s := rows[1].Median(); s != 0.020 {
			t.Errorf("a call of 20 texts took %v s", s)
		}
		var out bytes.Buffer
		if err := WriteTextsMarkdown(&out, rows); err != nil || !strings.Contains(out.String(), "tokens/s") {
			t.Errorf("%v in\n%s", err, out.String())
		}
		r := NewResult("embed")
		r.AddTexts(rows)
		if r.Rows[0].Name != "3 tokens x 1, texts" || r.Rows[0].Value <= 0 || r.Rows[3].Value <= r.Rows[2].Value {
			t.Errorf("rows %+v", r.Rows)
		}
	})
}
