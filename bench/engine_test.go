package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/llm"
	"weir/internal/defaultmodel"
	"weir/scheduler"
)

// openRig loads the embedded model with room for sequences of length tokens.
func openRig(t *testing.T, length, sequences, blocks int) *Rig {
	t.Helper()
	data := defaultmodel.GGUF()
	f, err := gguf.Parse(strings.NewReader(string(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRig(f, llm.Options{
		Threads: 2, KVBlocks: blocks, BlockTokens: 16, MaxModelLen: length,
		Scheduler: scheduler.Config{MaxSeqs: sequences, MaxBatchTokens: 64, PrefillChunk: 64, OutputEstimate: 8},
	}, 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestEngineMeasuresEveryTestWithItsCounts(t *testing.T) {
	o := EngineOptions{
		Tests: []EngineTest{
			{Prompt: 100}, {Generate: 8}, {Prompt: 20, Generate: 4}, {Prompt: 20, Depth: 32}, {Generate: 8, Depth: 16},
		},
		Repetitions: 2,
	}
	var told []string
	o.Progress = func(test EngineTest, done, total int) {
		if total != 10 || done != len(told)+1 {
			t.Errorf("progress %d of %d after %d reports", done, total, len(told))
		}
		told = append(told, test.String())
	}
	rows, err := openRig(t, o.Length(), 1, 20).RunEngine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(o.Tests) || len(told) != 10 {
		t.Fatalf("%d rows and %d reports for %d tests", len(rows), len(told), len(o.Tests))
	}
	for i, r := range rows {
		if r.Test != o.Tests[i] || len(r.Seconds) != 2 {
			t.Errorf("row %d is %s with %d times, want %s with 2", i, r.Test, len(r.Seconds), o.Tests[i])
		}
		for _, s := range r.Seconds {
			if !(s > 0) {
				t.Errorf("%s: took %v s", r.Test, s)
			}
		}
	}
}

// The steps of a measurement are counted: a prompt that came from the cache
// would be no measurement.
func TestRepetitionsFindNothingInTheCache(t *testing.T) {
	r := openRig(t, 80, 1, 20)
	for range 3 {
		steps, err := r.generate(t.Context(), r.domain(), r.tokens(64), 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := expectRows(steps, 64, 3); err != nil {
			t.Error(err)
		}
	}
	domain, prompt := r.domain(), r.tokens(64)
	for i, want := range []int{64, 16} { // the last block is never taken: its last row is computed again
		steps, err := r.generate(t.Context(), domain, prompt, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := countRows(steps); got > want || i > 0 && got == 64 {
			t.Errorf("run %d of one prompt computed %d rows", i, got)
		}
	}
	if err := expectRows(nil, 1, 0); !errors.Is(err, errDisturbed) {
		t.Errorf("no steps: %v", err)
	}
}

func TestTheSameSeedMakesTheSameTokens(t *testing.T) {
	a, b := openRig(t, 32, 1, 8), openRig(t, 32, 1, 8)
	if !slices.Equal(a.tokens(50), b.tokens(50)) {
		t.Error("two rigs of one seed differ")
	}
	if slices.Equal(a.tokens(50), a.tokens(50)) {
		t.Error("a rig repeats its tokens")
	}
}

func TestEngineStopsWhenAsked(t *testing.T) {
	o := EngineOptions{Tests: []EngineTest{{Generate: 64}}, Repetitions: 1000}
	r := openRig(t, o.Length(), 1, 20)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(EngineTest, int, int) { cancel() }
	if _, err := r.RunEngine(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestEngineRefusesWhatItCannotMeasure(t *testing.T) {
	for name, o := range map[string]EngineOptions{
		"no tests":      {Repetitions: 1},
		"repetitions":   {Tests: []EngineTest{{Prompt: 1}}},
		"negative":      {Tests: []EngineTest{{Prompt: -1, Generate: 3}}, Repetitions: 1},
		"nothing":       {Tests: []EngineTest{{Depth: 16}}, Repetitions: 1},
		"broken blocks": {Tests: []EngineTest{{Prompt: 1, Depth: 15}}, Repetitions: 1},
	} {
		if err := o.Check(16); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBatchedRunsInStep(t *testing.T) {
	o := BatchedOptions{Tests: BatchedTests([]int{32, 21}, []int{6}, []int{1, 3, 8})}
	length, sequences, blocks := o.Needs(16)
	rows, err := openRig(t, length, sequences, blocks).RunBatched(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		// One step per token; the embedded model's steps are so short that a
		// submit may miss the first.
		if r.Steps < r.Test.Generate || r.Steps > r.Test.Generate+r.Test.Sequences {
			t.Errorf("%s: %d decode steps", r.Test, r.Steps)
		}
		if !(r.Prefill > 0 && r.Decode > 0) {
			t.Errorf("%s: took %v s and %v s", r.Test, r.Prefill, r.Decode)
		}
	}
}

// What reads the rest of a prompt's last block again is no part of the decoding.
func TestBatchedDecodingLeavesOutPrompts(t *testing.T) {
	began := time.Now()
	var log []step
	at := time.Duration(0)
	add := func(prefill, decode int, took time.Duration) {
		at += took
		log = append(log, step{llm.StepStats{PrefillTokens: prefill, DecodeTokens: decode, StepTime: took}, began.Add(at)})
	}
	for i := range 4 { // one prompt a step, beside those that decode
		add(15, i, 18*time.Millisecond)
	}
	for range 5 {
		add(0, 4, 12*time.Millisecond)
	}
	add(0, 3, 11*time.Millisecond)
	if full := allDecode(log, 4); len(full) != 5 || full[0].PrefillTokens != 0 || full[4].DecodeTokens != 4 {
		t.Fatalf("%+v", full)
	}
	row := BatchedRow{Test: BatchedTest{Prompt: 110, Generate: 12, Sequences: 4}}
	if row.decoding(log, 15); math.Abs(row.Decode-12*0.012) > 1e-9 || row.Steps != 12 {
		t.Errorf("%+v", row)
	}
	if row.decoding(log, 1); math.Abs(row.Decode-at.Seconds()) > 1e-9 || row.Steps != len(log) {
		t.Errorf("prompts that end with their block: %+v", row)
	}
	if row.decoding(log[:4], 15); math.Abs(row.Decode-0.072) > 1e-9 || row.Steps != 4 {
		t.Errorf("no step decodes all: %+v", row)
	}
}

func TestBatchedRates(t *testing.T) {
	r := BatchedRow{Test: BatchedTest{Prompt: 128, Generate: 64, Sequences: 4}, Prefill: 2, Decode: 8}
	prefill, decode, both := r.Rates()
	if prefill != 256 || decode != 32 || math.Abs(both-76.8) > 1e-9 {
		t.Errorf("rates %v, %v, %v; want 256, 32, 76.8", prefill, decode, both)
	}
}

func TestEngineNamesAreThoseOfLlamaBench(t *testing.T) {
	for want, test := range map[string]EngineTest{
		"pp512":       {Prompt: 512},
		"tg128":       {Generate: 128},
		"pp512+tg128": {Prompt: 512, Generate: 128},
		"tg8 @ d64":   {Generate: 8, Depth: 64},
	} {
		if got := test.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

var tableSubject = EngineSubject{
	Model: "llama-é", Backend: "avx512",
	Info: llm.Info{FileBytes: 807689600, Params: 1_235_814_432, Threads: 2, KVType: attend.KVF16.String()},
}

var tableRows = []EngineRow{
	{Test: EngineTest{Prompt: 512}, Seconds: []float64{4, 5}},
	{Test: EngineTest{Generate: 128, Depth: 4096}, Seconds: []float64{4}},
}

func TestEngineTables(t *testing.T) {
	var md, csv strings.Builder
	if err := errors.Join(WriteEngineMarkdown(&md, tableSubject, tableRows),
		WriteEngineCSV(&csv, tableSubject, tableRows)); err != nil {
		t.Fatal(err)
	}
	const wantMD = `
| model                |       size |     params | backend    | threads |          test |                  t/s |
| -------------------- | ---------: | ---------: | ---------- | ------: | ------------: | -------------------: |
| llama-é              | 770.27 MiB |     1.24 B | avx512     |       2 |         pp512 |       115.20 ± 18.10 |
| llama-é              | 770.27 MiB |     1.24 B | avx512     |       2 | tg128 @ d4096 |         32.00 ± 0.00 |
`
	if "\n"+md.String() != wantMD {
		t.Errorf("markdown:\n%s\nwant:%s", md.String(), wantMD)
	}
	const wantCSV = `
model,model_size,model_n_params,backends,n_threads,type_kv,n_prompt,n_gen,n_depth,avg_ns,stddev_ns,avg_ts,stddev_ts
llama-é,807689600,1235814432,avx512,2,f16,512,0,0,4500000000,707106781,115.200000,18.101934
llama-é,807689600,1235814432,avx512,2,f16,0,128,4096,4000000000,0,32.000000,0.000000
`
	if "\n"+csv.String() != wantCSV {
		t.Errorf("csv:\n%s\nwant:%s", csv.String(), wantCSV)
	}
}

func TestBatchedTable(t *testing.T) {
	var out strings.Builder
	row := BatchedRow{Test: BatchedTest{Prompt: 128, Generate: 128, Sequences: 32}, Prefill: 7.0625, Decode: 12.5}
	if err := WriteBatchedMarkdown(&out, []BatchedRow{row}); err != nil {
		t.Fatal(err)
	}
	const want = `
|     PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
| -----: | -----: | ---: | -----: | -------: | -------: | -------: | -------: | -------: | -------: |
|    128 |    128 |   32 |   8192 |    7.062 |   579.96 |   12.500 |   327.68 |   19.562 |   418.76 |
`
	if "\n"+out.String() != want {
		t.Errorf("table:\n%s\nwant:%s", out.String(), want)
	}
}

func TestEngineRowsEnterTheResult(t *testing.T) {
	r := NewResult("engine")
	r.AddEngine(tableRows)
	r.AddBatched([]BatchedRow{{Test: BatchedTest{Prompt: 1, Generate: 1, Sequences: 1}, Prefill: 1, Decode: 1}})
	if len(r.Rows) != 2+7 || r.Rows[0].Name != "pp512" || len(r.Rows[0].Samples) != 2 || r.Rows[2].Name != "npp1 ntg1 npl1 N_PP" {
		t.Errorf("rows %+v", r.Rows)
	}
}
