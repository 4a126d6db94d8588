package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// saved writes a comparison of two small models and gives its figures and the file.
func saved(t testing.TB) (*Quality, *table, []byte) {
	t.Helper()
	reference := &table{logits: [][]float32{logs(0.5, 0.25, 0.25), logs(0.1, 0.8, 0.1), logs(0.6, 0.3, 0.1)}}
	model := &table{logits: [][]float32{logs(0.25, 0.5, 0.25), logs(0.2, 0.7, 0.1), logs(0.5, 0.3, 0.2)}}
	var file bytes.Buffer
	q, err := CompareQuality(reference, model, QualityOptions{Tokens: []int32{2, 0, 0, 1, 2, 1, 0, 1, 2, 1, 2, 1}, BOS: -1, Context: 6, From: 3, Save: &file})
	if err != nil {
		t.Fatal(err)
	}
	return q, model, file.Bytes()
}

// A comparison with saved log-probabilities is the one with the reference itself.
func TestSavedLogProbsStandForTheReference(t *testing.T) {
	want, model, file := saved(t)
	l, err := OpenLogProbs(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	o := QualityOptions{BOS: -1, Context: l.Context, From: l.Context / 2}
	for _, w := range l.Windows {
		o.Tokens = append(o.Tokens, w...)
	}
	got, err := CompareQuality(l, model, o)
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-4 } // 16 bits of a range of some nats
	if got.Positions != want.Positions || !near(got.KL.Value, want.KL.Value) || !near(got.SameTop.Value, want.SameTop.Value) ||
		!near(got.Perplexity.Value, want.Perplexity.Value) || !near(got.ReferencePerplexity.Value, want.ReferencePerplexity.Value) {
		t.Errorf("saved %+v\nitself %+v", got, want)
	}
}

// The bytes are those that llama-perplexity reads.
func TestLogProbsFormat(t *testing.T) {
	var file bytes.Buffer
	w := NewLogProbsWriter(&file, 3, [][]int32{{7, 8, 9, 10}})
	w.add([]float32{2, 2 - 40, 1}) // 40 less than the first choice is more than the format holds
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw := file.Bytes()
	head := append([]byte("_logits_"), 4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0)
	if !bytes.HasPrefix(raw, head) || len(raw) != len(head)+8+2*4 {
		t.Fatalf("% x", raw)
	}
	row := raw[len(head):]
	scale, least := math.Float32frombits(binary.LittleEndian.Uint32(row)), math.Float32frombits(binary.LittleEndian.Uint32(row[4:]))
	sum := 1 + math.Exp(-40) + math.Exp(-1)
	if !isClose(float64(scale), 16./65535) || !isClose(float64(least), -16-math.Log(sum)) {
		t.Errorf("scale %v, least %v", scale, least)
	}
	codes := []uint16{binary.LittleEndian.Uint16(row[8:]), binary.LittleEndian.Uint16(row[10:]), binary.LittleEndian.Uint16(row[12:]), binary.LittleEndian.Uint16(row[14:])}
	if codes[0] != 65535 || codes[1] != 0 || codes[2] != 61439 || codes[3] != 0 {
		t.Errorf("codes %v", codes)
	}
}

func TestLogProbsRefusals(t *testing.T) {
	_, model, file := saved(t)
	other := func(at int, b byte) []byte {
		f := bytes.Clone(file)
		f[at] = b
		return f
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty": {nil, "header"}, "other magic": {other(0, 'x'), "begins with"}, "cut": {file[:len(file)-1], "may be cut"},
		"longer": {append(bytes.Clone(file), 0), "may be cut"}, "no window": {other(16, 0), "0 windows"}, "a token": {other(20, 3), "token 3"},
		"vocabulary": {other(15, 0x7f), "vocabularies"}, "context": {other(8, 2), "windows have"},
	} {
		_, err := OpenLogProbs(bytes.NewReader(c.file), int64(len(c.file)))
		if !errors.Is(err, ErrLogProbs) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := OpenLogProbs(bytes.NewReader(other(20+4*12+3, 0x7f)), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	o := QualityOptions{Tokens: l.Windows[0], BOS: -1, Context: 6, From: 3}
	if _, err := CompareQuality(l, model, o); err == nil || !strings.Contains(err.Error(), "scale") {
		t.Errorf("a scale that is no number: %v", err)
	}
	o.From = 2
	if _, err := CompareQuality(l, model, o); err == nil || !strings.Contains(err.Error(), "counted from 2") {
		t.Errorf("other positions: %v", err)
	}
	o.Save = &bytes.Buffer{}
	if _, err := CompareQuality(model, model, o); err == nil || !strings.Contains(err.Error(), "second half") {
		t.Errorf("other positions saved: %v", err)
	}
}

func FuzzLogProbs(f *testing.F) {
	_, model, file := saved(f)
	f.Add(file)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			return
		}
		l, err := OpenLogProbs(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		if l.Vocabulary() != model.Vocabulary() {
			return
		}
		o := QualityOptions{BOS: -1, Context: l.Context, From: l.Context / 2}
		for _, w := range l.Windows {
			o.Tokens = append(o.Tokens, w...)
		}
		q, err := CompareQuality(l, model, o)
		if err == nil && (math.IsNaN(q.KL.Value) || q.Positions == 0) {
			t.Errorf("%+v", q)
		}
	})
}
