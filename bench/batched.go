package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/internal/inference"
)

// BatchedTest is one row of `bench batched`: so many sequences at once, each
// with a prompt and tokens generated after it.
type BatchedTest struct {
	Prompt, Generate, Sequences int
}

// String names the test with llama-batched-bench's flags.
func (t BatchedTest) String() string {
	return fmt.Sprintf("npp%d ntg%d npl%d", t.Prompt, t.Generate, t.Sequences)
}

// tokens that lie in the cache at the end.
func (t BatchedTest) tokens() int { return t.Sequences * (t.Prompt + t.Generate) }

// BatchedTests are all combinations, in llama-batched-bench's order.
func BatchedTests(prompts, generate, sequences []int) []BatchedTest {
	var tests []BatchedTest
	for _, p := range prompts {
		for _, g := range generate {
			for _, n := range sequences {
				tests = append(tests, BatchedTest{p, g, n})
			}
		}
	}
	return tests
}

// BatchedOptions say what RunBatched measures.
type BatchedOptions struct {
	Tests    []BatchedTest
	NoWarmup bool

	Progress func(test BatchedTest, done, total int) // called after each test
}

// Check refuses what cannot be measured.
func (o BatchedOptions) Check() error {
	for _, t := range o.Tests {
		if t.Prompt < 1 || t.Generate < 1 || t.Sequences < 1 {
			return fmt.Errorf("test %s: every count must be at least 1", t)
		}
	}
	if len(o.Tests) == 0 {
		return errors.New("no test: give prompt lengths, tokens to generate and counts of sequences")
	}
	return nil
}

// gateTokens is the prompt of the request that keeps the engine busy while
// the sequences are submitted.
const gateTokens = 64

// Needs is what an engine must hold for all tests: the longest sequence, how
// many at once with the gate, and KV blocks with some to spare, so that
// prompts stay cached from one phase to the next.
func (o BatchedOptions) Needs(blockTokens int) (length, sequences, blocks int) {
	for _, t := range o.Tests {
		own := t.Prompt + t.Generate + 1
		length = max(length, own, gateTokens+2)
		sequences = max(sequences, t.Sequences+1)
		blocks = max(blocks, t.Sequences*(own/blockTokens+2)+gateTokens/blockTokens+2)
	}
	return length, sequences, blocks + blocks/4 + 2
}

// BatchedRow is a measured test.
type BatchedRow struct {
	Test            BatchedTest
	Prefill, Decode float64 // seconds
	PrefillSteps    int     // of the prefill phase: how many prompts a step computes is the scheduler's choice
	Steps           int     // of the decode phase; more than Generate means that it did not run in step
}

// Rates of the phases and of both, in tokens per second.
func (r BatchedRow) Rates() (prefill, decode, both float64) {
	n := float64(r.Test.Sequences)
	return n * float64(r.Test.Prompt) / r.Prefill, n * float64(r.Test.Generate) / r.Decode,
		float64(r.Test.tokens()) / (r.Prefill + r.Decode)
}

// RunBatched measures as llama-batched-bench does: the prompts of all
// sequences first, then one token of each per step, and the two phases apart.
//
// The engine batches continuously: left alone, the first prompt to be ready
// would decode while the others are read. So the phases are requests of their
// own. In the first each prompt asks for one token. In the second each comes
// again with that token behind it; its blocks are in the prefix cache, so that
// the first step already decodes one row of each. A prompt that does not fill
// its last block has up to 15 tokens of it read again, some prompts a step: of
// that phase the steps count in which all sequences decode and nothing is read. Before
// either, a gate, a request of 64 tokens, keeps the engine busy until all are
// submitted; the phase begins when the gate's step has ended.
func (r *Rig) RunBatched(ctx context.Context, o BatchedOptions) ([]BatchedRow, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(BatchedTest, int, int) {}
	}
	if !o.NoWarmup {
		if _, err := r.generate(ctx, r.domain(), r.tokens(gateTokens), 2); err != nil {
			return nil, fmt.Errorf("warm up: %w", err)
		}
	}
	var out []BatchedRow
	for i, t := range o.Tests {
		row, err := r.batched(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", t, err)
		}
		out = append(out, row)
		o.Progress(t, i+1, len(o.Tests))
	}
	return out, nil
}

func (r *Rig) batched(ctx context.Context, t BatchedTest) (BatchedRow, error) {
	domain, row := r.domain(), BatchedRow{Test: t}
	prompts := make([][]inference.TokenID, t.Sequences)
	for i := range prompts {
		prompts[i] = r.tokens(t.Prompt)
	}
	steps, first, err := r.together(ctx, domain, prompts, 1)
	if err != nil {
		return row, fmt.Errorf("prefill: %w", err)
	}
	if err := expectRows(steps, t.Sequences*t.Prompt, 0); err != nil {
		return row, fmt.Errorf("prefill: %w", err)
	}
	row.Prefill, row.PrefillSteps = span(steps).Seconds(), len(steps)
	for i := range prompts {
		prompts[i] = append(prompts[i], first[i]...)
	}
	if steps, _, err = r.together(ctx, domain, prompts, t.Generate); err != nil {
		return row, fmt.Errorf("decode: %w", err)
	}
	again := t.Prompt%r.Info().BlockTokens + 1
	if err := expectRows(steps, t.Sequences*again, t.Sequences*(t.Generate-1)); err != nil {
		return row, fmt.Errorf("decode: %w", err)
	}
	row.decoding(steps, again)
	return row, nil
}

// decoding notes how long the steps of the second phase took, of which the first ones read so many rows of each prompt again.
func (r *BatchedRow) decoding(steps []step, again int) {
	r.Decode, r.Steps = span(steps).Seconds(), len(steps)
	if full := allDecode(steps, r.Test.Sequences); again > 1 && len(full) > 1 {
		r.Decode = span(full).Seconds() / float64(len(full)) * float64(r.Test.Generate)
		r.Steps = r.Test.Generate
	}
}

// allDecode are the steps, one after the other, that decode so many sequences and read no prompt.
func allDecode(steps []step, sequences int) []step {
	full := func(s step) bool { return s.PrefillTokens == 0 && s.DecodeTokens == sequences }
	from := slices.IndexFunc(steps, full)
	if from < 0 {
		return nil
	}
	to := from
	for to < len(steps) && full(steps[to]) {
		to++
	}
	return steps[from:to]
}

// span is the time from the start of the first step to the end of the last.
func span(steps []step) time.Duration {
	return steps[len(steps)-1].end.Sub(steps[0].start())
}

// together submits a request per prompt while the gate keeps the engine busy,
// and returns the steps after the gate's and the tokens of each.
func (r *Rig) together(
	ctx context.Context, domain string, prompts [][]inference.TokenID, tokens int,
) ([]step, [][]inference.TokenID, error) {
	gate, err := r.submit(r.domain(), r.tokens(gateTokens), 1)
	if err != nil {
		return nil, nil, err
	}
	if err := await(ctx, func() bool { return gate.Progress().PrefillTokens > 0 }); err != nil {
		return nil, nil, err
	}
	streams := make([]*inference.Stream, len(prompts))
	for i, p := range prompts {
		if streams[i], err = r.submit(domain, p, tokens); err != nil {
			return nil, nil, err
		}
	}
	if _, err := finish(ctx, gate); err != nil {
		return nil, nil, fmt.Errorf("gate: %w", err)
	}
	ids, err := finishAll(ctx, streams)
	if err != nil {
		return nil, nil, err
	}
	steps, err := r.idle(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(steps) < 2 || steps[0].PrefillTokens != gateTokens || steps[0].Sequences != 1 {
		return nil, nil, fmt.Errorf("%w: the gate did not run alone", errDisturbed)
	}
	return steps[1:], ids, nil
}

// finishAll reads all streams at once: one that is not read is cancelled.
func finishAll(ctx context.Context, streams []*inference.Stream) ([][]inference.TokenID, error) {
	ids := make([][]inference.TokenID, len(streams))
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	for i, s := range streams {
		all.Go(func() { ids[i], errs[i] = finish(ctx, s) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// AddBatched appends the rows of RunBatched.
func (r *Result) AddBatched(rows []BatchedRow) {
	for _, row := range rows {
		name := row.Test.String() + " "
		if extra := row.Steps - row.Test.Generate; extra > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%sdecoded in %d steps more than tokens: some sequences started late", name, extra))
		}
		prefill, decode, both := row.Rates()
		r.AddValue(name+"N_PP", "", float64(row.PrefillSteps))
		r.AddValue(name+"T_PP", "s", row.Prefill)
		r.AddValue(name+"S_PP", "tok/s", prefill)
		r.AddValue(name+"T_TG", "s", row.Decode)
		r.AddValue(name+"S_TG", "tok/s", decode)
		r.AddValue(name+"T", "s", row.Prefill+row.Decode)
		r.AddValue(name+"S", "tok/s", both)
	}
}

// WriteBatchedMarkdown writes the table that llama-batched-bench prints.
func WriteBatchedMarkdown(w io.Writer, rows []BatchedRow) error {
	columns := []column{
		{"PP", 6, right}, {"TG", 6, right}, {"B", 4, right}, {"N_KV", 6, right},
		{"T_PP s", 8, right}, {"S_PP t/s", 8, right}, {"T_TG s", 8, right}, {"S_TG t/s", 8, right},
		{"T s", 8, right}, {"S t/s", 8, right},
	}
	var cells [][]string
	for _, r := range rows {
		prefill, decode, both := r.Rates()
		row := []string{strconv.Itoa(r.Test.Prompt), strconv.Itoa(r.Test.Generate), strconv.Itoa(r.Test.Sequences),
			strconv.Itoa(r.Test.tokens())}
		for _, v := range []struct{ seconds, rate float64 }{{r.Prefill, prefill}, {r.Decode, decode}, {r.Prefill + r.Decode, both}} {
			row = append(row, fmt.Sprintf("%.3f", v.seconds), fmt.Sprintf("%.2f", v.rate))
		}
		cells = append(cells, row)
	}
	return markdown(w, columns, cells)
}
