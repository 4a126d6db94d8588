package scheduler

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

// world drives a scheduler like an engine would, with a KV arena in which a
// row's content is the hash of all tokens up to it. Every chunk is checked
// against the tokens that the request must have: what the block table shows of
// the rows before the chunk must be exactly their prefix.
type world struct {
	t       testing.TB
	pool    *kvcache.Pool
	sched   *Scheduler
	cfg     Config
	now     int64
	arena   [][]uint64 // [block][row]
	states  []uint64   // by slot: the hash of all tokens of which it is the state
	windows []int      // of the pool's groups
	plan    Plan
	out     bool // the plan waits for commit or abandon
	jobs    map[ID]*job
	order   []ID // of submission; live and ended
	steps   int
	pinned  []kvcache.BlockID

	accepted int // drafts

	vocabulary int                                     // sampled ids are below it
	stop       func(j *job, choice, produced int) bool // a sampled token ends the choice
	fault      func(j *job) error                      // a chunk's result is an error
	foresee    func() (n int, rightly bool)            // how many forced tokens a result has; they come true, or the last one does not

	adapters *simulatedAdapters // nil: none

	took  func(p *Plan) int64 // nanoseconds of a step; nil is none
	lates func() bool         // a result is late
	waits map[lateChoice]int  // late choices, and how many plans they wait for yet

	onPlan func(before []runner) // after each Plan, with who ran before it
	onEnd  func(e End)
}

// job is what the world knows about a request.
type job struct {
	shed     bool // gave way, which no plan has reported yet
	id       ID
	name     string
	req      Request
	outputs  [][]inference.TokenID
	finish   []inference.FinishReason
	err      error
	done     bool
	started  bool
	reported int // prompt rows whose logits were asked for

	adapter adapterVersion
}

// lateChoice are choices that a step could not sample.
type lateChoice struct {
	id          ID
	choice, end int
}

// runner is a running sequence before a plan.
type runner struct {
	seq                 *sequence
	id                  ID
	choice              int
	decoding            bool
	capped              bool
	blocks, preemptions int
}

func newWorld(t testing.TB, cfg Config, pool kvcache.Config) *world {
	t.Helper()
	pool.ModelDigest, pool.KVType = "model", "f16"
	p, err := kvcache.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, pool: p, windows: pool.Windows, sched: s, cfg: s.cfg, jobs: map[ID]*job{}, vocabulary: 3}
	w.states = make([]uint64, pool.States+1)
	w.arena = make([][]uint64, pool.Blocks)
	for i := range w.arena {
		w.arena[i] = make([]uint64, p.BlockTokens())
	}
	return w
}

var seed = maphash.MakeSeed()

// prefix folds one more token into the hash of those before it.
func prefix(h uint64, id inference.TokenID) uint64 {
	return maphash.Comparable(seed, [2]uint64{h, uint64(id)})
}

// mix is a stable hash, for choices that must not depend on the process.
func mix(vs ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range vs {
		h = (h ^ v) * 1099511628211
		h ^= h >> 29
	}
	return h
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("step %d: "+format, append([]any{w.steps}, args...)...)
}

func (w *world) check() {
	w.t.Helper()
	if err := w.sched.CheckInvariants(); err != nil {
		w.fatalf("%v", err)
	}
}

func (w *world) submit(name string, r Request) (*job, error) {
	w.t.Helper()
	id, err := w.sched.Submit(w.now, r)
	w.check()
	if err != nil {
		return nil, err
	}
	n := max(r.N, 1)
	j := &job{id: id, name: name, req: r, outputs: make([][]inference.TokenID, n), finish: make([]inference.FinishReason, n)}
	if w.jobs[id] != nil {
		w.fatalf("id %v was given out twice", id)
	}
	w.jobs[id] = j
	w.order = append(w.order, id)
	for _, other := range w.jobs { // who gave way is told with the next plan
		if _, known := w.sched.Progress(other.id); !known && !other.done {
			other.shed = true
		}
	}
	return j, nil
}

func (w *world) cancel(j *job, choice int) bool {
	w.t.Helper()
	live := !j.done && !j.shed && (choice == -1 || choice < len(j.finish) && j.finish[choice] == inference.FinishNone)
	ok := w.sched.Cancel(w.now, j.id, choice)
	w.check()
	if ok != live {
		w.fatalf("cancel %s/%d: %v, want %v", j.name, choice, ok, live)
	}
	if ok {
		w.end(j, choice, inference.FinishCancelled)
	}
	return ok
}

// end books the end of a choice, or of all that are left.
func (w *world) end(j *job, choice int, f inference.FinishReason) {
	w.t.Helper()
	ended := false
	for k := range j.finish {
		if (choice == -1 || choice == k) && j.finish[k] == inference.FinishNone {
			j.finish[k] = f
			ended = true
		}
	}
	j.done = !slices.Contains(j.finish, inference.FinishNone)
	if !ended {
		w.fatalf("S2: %s/%d ended twice", j.name, choice)
	}
}

func (w *world) takeEnds(ends []End) {
	w.t.Helper()
	for _, e := range ends {
		j := w.jobs[e.Request]
		w.end(j, e.Choice, e.Finish)
		if e.Err != nil {
			j.err = e.Err
		}
		if e.Done != j.done || e.User != j.req.User {
			w.fatalf("end of %s/%d: done %v, want %v", j.name, e.Choice, e.Done, j.done)
		}
		if w.onEnd != nil {
			w.onEnd(e)
		}
	}
}

func (w *world) runners() []runner {
	var rs []runner
	for _, q := range w.sched.sequences.running {
		rs = append(rs, runner{q, q.req.id, q.choice, q.decoding(), q.preemptions >= w.cfg.PreemptLimit, len(q.table.Blocks(0)), q.preemptions})
	}
	return rs
}

// begin plans a step and checks it; false means that there was nothing to do.
func (w *world) begin() bool {
	w.t.Helper()
	before := w.runners()
	w.now++
	for c := range w.waits {
		if w.waits[c]--; w.waits[c] < 0 {
			for k := c.choice; k < c.end; k++ {
				w.sched.Continue(c.id, k)
			}
			delete(w.waits, c)
		}
	}
	w.out = w.sched.Plan(w.now, &w.plan)
	for i := range w.plan.Chunks {
		for late := range w.waits {
			if c := &w.plan.Chunks[i]; c.Request == late.id && c.Choice == late.choice {
				w.fatalf("%s/%d has rows while it is late", w.jobs[c.Request].name, c.Choice)
			}
		}
	}
	w.steps++
	w.takeEnds(w.plan.Failed)
	for _, id := range w.plan.Admitted {
		w.jobs[id].started = true
	}
	w.check()
	w.checkPlan()
	if w.onPlan != nil {
		w.onPlan(before)
	}
	return w.out
}

// checkPlan holds for every plan: the budget, and no block written twice.
func (w *world) checkPlan() {
	w.t.Helper()
	rows, decodes := 0, 0
	written := map[kvcache.BlockID]string{}
	for i := range w.plan.Chunks {
		c := &w.plan.Chunks[i]
		j := w.jobs[c.Request]
		rows += c.Count
		if c.Decode {
			decodes++
		}
		if j.done {
			w.fatalf("S2: %s has rows after its end", j.name)
		}
		b := w.pool.ShapeOf(j.req.Domain).BlockTokens()
		for at := c.Start / b; at <= (c.Start+c.Count-1)/b; at++ {
			for g := range w.pool.Groups() {
				page := c.Blocks(g)[at]
				if by, ok := written[page]; ok || page == 0 {
					w.fatalf("S4: block %d is written by %s and %s", page, by, j.name)
				}
				written[page] = j.name
			}
		}
	}
	if rows != w.plan.Rows || decodes != w.plan.Decodes || rows > w.cfg.MaxBatchTokens {
		w.fatalf("S3: plan has %d rows, %d decodes; says %d, %d; budget %d", rows, decodes, w.plan.Rows, w.plan.Decodes, w.cfg.MaxBatchTokens)
	}
}

// commit runs the plan that is out on the arena and commits it.
func (w *world) commit() []End {
	w.t.Helper()
	for _, c := range w.plan.Copies {
		copy(w.arena[c.Dst][:c.Rows], w.arena[c.Src][:c.Rows])
	}
	results := make([]Result, len(w.plan.Chunks))
	for _, i := range w.chunkOrder() {
		results[i] = w.run(&w.plan.Chunks[i])
	}
	w.out = false
	if w.took != nil {
		w.now += w.took(&w.plan)
	}
	ends := slices.Clone(w.sched.Commit(w.now, results))
	w.check()
	for i := range w.plan.Chunks {
		c := &w.plan.Chunks[i]
		if w.take(c, &results[i]); results[i].Late {
			if w.waits == nil {
				w.waits = map[lateChoice]int{}
			}
			w.waits[lateChoice{c.Request, c.Choice, max(c.Choice+1, c.Samples*min(1, c.Samples-1))}] = w.steps % 3
		}
	}
	w.takeEnds(ends)
	return ends
}

func (w *world) abandon() {
	w.t.Helper()
	w.out = false
	w.sched.Abandon(w.now)
	w.check()
}

// step plans and commits; false means that there was nothing to do.
func (w *world) step() bool {
	w.t.Helper()
	if !w.begin() {
		return false
	}
	w.commit()
	return true
}

// firstSeen is the first position that a row sees in the layers of a group.
func (w *world) firstSeen(group, row int) int {
	if len(w.windows) == 0 || w.windows[group] == 0 {
		return 0
	}
	return max(0, row-w.windows[group]+1)
}

// run computes a chunk: it reads every row before it, writes its own, samples.
func (w *world) run(c *Chunk) Result {
	w.t.Helper()
	j := w.jobs[c.Request]
	ids := append(slices.Clone(j.req.Prompt), j.outputs[c.Choice]...)
	known := c.Count - c.Drafts
	if c.Start+known > len(ids) || !slices.Equal(ids[c.Start:c.Start+known], c.Tokens[:known]) || c.Drafts > 0 && c.Start+known != len(ids) {
		w.fatalf("%s/%d: chunk [%d,%d) with %d drafts has tokens %v of %v", j.name, c.Choice, c.Start, c.Start+c.Count, c.Drafts, c.Tokens, ids)
	}
	w.runStates(j, c, ids)
	b, h := w.pool.ShapeOf(j.req.Domain).BlockTokens(), uint64(j.adapter)
	for p, id := range slices.Concat(ids[:c.Start], c.Tokens) {
		h = prefix(h, id)
		for g := range w.pool.Groups() {
			page := c.Blocks(g)[p/b]
			row := &w.arena[page][p%b]
			switch {
			case p >= c.Start:
				*row = h + uint64(g)
			case p < w.firstSeen(g, c.Start):
			case page == 0 || *row != h+uint64(g):
				w.fatalf("S4: %s/%d: row %d of block %d of group %d is not the sequence's own", j.name, c.Choice, p, page, g)
			}
		}
	}
	w.checkLogits(j, c, len(ids))
	if w.fault != nil {
		if err := w.fault(j); err != nil {
			return Result{Err: err}
		}
	}
	if c.Samples > 0 && w.lates != nil && w.lates() {
		return Result{Late: true}
	}
	return w.verify(j, c, ids)
}

// runStates reads the state before a chunk, which must be that of the sequence's own rows, and writes those that it leaves.
func (w *world) runStates(j *job, c *Chunk, ids []inference.TokenID) {
	w.t.Helper()
	from, passes := c.Passes()
	if !w.pool.Stateful() {
		return
	}
	if n := len(passes); n == 0 || passes[n-1].Rows != c.Start+c.Count {
		w.fatalf("%s/%d: a chunk of rows [%d,%d) leaves states %v", j.name, c.Choice, c.Start, c.Start+c.Count, passes)
	}
	h, before := uint64(j.adapter), uint64(0)
	for p, id := range slices.Concat(ids[:c.Start], c.Tokens) {
		if p == c.Start && w.states[from] != before {
			w.fatalf("%s/%d: slot %d does not have the state of its %d rows", j.name, c.Choice, from, p)
		}
		h = prefix(h, id)
		before = h
		for _, pass := range passes {
			if pass.Rows == p+1 && p >= c.Start {
				w.states[pass.To] = h
			}
		}
	}
}

// verify samples a chunk's last row, or the rows of its drafts as long as these
// turn out to be what is sampled.
func (w *world) verify(j *job, c *Chunk, ids []inference.TokenID) Result {
	var all Result
	for i := 0; ; i++ {
		r := w.sample(j, c, ids)
		all.Tokens, all.Stop = append(all.Tokens, r.Tokens...), append(all.Stop, r.Stop...)
		if i == c.Drafts || r.Stop[0] || r.Tokens[0] != c.Tokens[c.Count-c.Drafts+i] {
			if w.foresee != nil && c.Samples == 1 {
				all.Forced = w.force(j, c, append(slices.Clone(ids), r.Tokens...))
			}
			return all
		}
		ids = append(ids, r.Tokens[0])
	}
}

// force foresees what follows a sequence's ids.
func (w *world) force(j *job, c *Chunk, ids []inference.TokenID) (forced []inference.TokenID) {
	n, rightly := w.foresee()
	for range n {
		id := w.sample(j, c, ids).Tokens[0]
		forced, ids = append(forced, id), append(ids, id)
	}
	if n > 0 && !rightly {
		forced[n-1] ^= 1
	}
	return forced
}

// checkLogits checks what the chunk asks of the output matrix.
func (w *world) checkLogits(j *job, c *Chunk, ids int) {
	w.t.Helper()
	end := c.Start + c.Count - c.Drafts
	rows, samples := 0, 0
	if end == ids {
		if j.req.Logits != LogitsNone {
			rows = 1
		}
		if j.req.MaxTokens > 0 {
			samples = 1
			if c.Samples > 1 && c.Samples <= len(j.finish) && end == len(j.req.Prompt) && len(j.outputs[c.Choice]) == 0 {
				samples = c.Samples // of those choices that have slots
			}
		}
	}
	if prompt := len(j.req.Prompt); j.req.Logits == LogitsAll && j.reported < prompt {
		rows = max(rows, end-max(c.Start, j.reported))
		if rows > 0 && end-rows != j.reported {
			w.fatalf("%s: logits from row %d, want %d", j.name, end-rows, j.reported)
		}
		j.reported = max(j.reported, end)
	}
	most, drafted := w.cfg.MaxDrafts, j.req.Speculate || c.Forced
	if j.req.Given != nil {
		most, drafted = w.pool.StepRows()-1, true
	}
	if c.Drafts > 0 && (!c.Decode || c.Drafts > most || !drafted || len(j.outputs[c.Choice])+c.Drafts >= j.req.MaxTokens) {
		w.fatalf("%s: %d drafts", j.name, c.Drafts)
	}
	rows += c.Drafts
	if c.LogitRows != max(rows, 0) || c.Samples != samples {
		w.fatalf("%s: chunk [%d,%d) has %d logit rows, %d samples, want %d, %d", j.name, c.Start, end, c.LogitRows, c.Samples, rows, samples)
	}
}

// sample draws tokens that depend on the sequence's ids and choice alone.
func (w *world) sample(j *job, c *Chunk, ids []inference.TokenID) Result {
	var r Result
	for k := range c.Samples {
		choice := c.Choice
		if c.Samples > 1 {
			choice = k
		}
		if given, at := j.req.Given, len(ids)-len(j.req.Prompt); given != nil {
			r.Tokens, r.Stop = append(r.Tokens, given[choice][min(at, len(given[choice])-1)]), append(r.Stop, at+1 >= len(given[choice]))
			continue
		}
		h := mix(uint64(choice))
		for _, id := range ids {
			h = mix(h, uint64(id))
		}
		r.Tokens = append(r.Tokens, inference.TokenID(h%uint64(w.vocabulary)))
		r.Stop = append(r.Stop, w.stop != nil && w.stop(j, choice, len(ids)-len(j.req.Prompt)+1))
	}
	return r
}

// take appends what a chunk sampled to the outputs of choices that were live.
func (w *world) take(c *Chunk, r *Result) {
	j := w.jobs[c.Request]
	if len(r.Tokens) > 1 && c.Samples == 1 {
		w.accepted += len(r.Tokens) - 1
	}
	for k, id := range r.Tokens {
		choice := c.Choice
		if c.Samples > 1 {
			choice = k
		}
		if j.finish[choice] == inference.FinishNone {
			j.outputs[choice] = append(j.outputs[choice], id)
		}
	}
}

// live lists the requests that have not ended, in order of submission.
func (w *world) live() []*job {
	var js []*job
	for _, id := range w.order {
		if j := w.jobs[id]; !j.done {
			js = append(js, j)
		}
	}
	return js
}

// drain steps until nothing is left, at most so many times.
func (w *world) drain(limit int) {
	w.t.Helper()
	if w.out {
		w.commit()
	}
	for range limit {
		if !w.step() && len(w.waits) == 0 {
			break
		}
	}
	if js := w.live(); len(js) > 0 {
		w.fatalf("S5: %d requests are left after %d steps, the first is %s; %+v", len(js), limit, js[0].name, w.sched.Stats())
	}
	if st := w.pool.Stats(); st.Referenced != 0 || st.Tables != 0 {
		w.fatalf("blocks leaked: %+v", st)
	}
}

// String prints the plan in one line, for traces and for comparing runs.
func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", w.steps)
	names := func(verb string, ids []ID) {
		for _, id := range ids {
			fmt.Fprintf(&b, " %s %s", verb, w.jobs[id].name)
			if j, ok := w.sched.Progress(id); ok && verb == "admit" && j.CachedTokens > 0 {
				fmt.Fprintf(&b, " (%d cached)", j.CachedTokens)
			}
			b.WriteByte(';')
		}
	}
	names("preempt", w.plan.Preempted)
	names("pause", w.plan.Paused)
	names("unpause", w.plan.Unpaused)
	names("resume", w.plan.Resumed)
	names("admit", w.plan.Admitted)
	for _, e := range w.plan.Failed {
		fmt.Fprintf(&b, " fail %s: %v;", w.jobs[e.Request].name, e.Err)
	}
	for _, c := range w.plan.Copies {
		fmt.Fprintf(&b, " copy %d rows %d>%d;", c.Rows, c.Src, c.Dst)
	}
	if len(w.plan.Chunks) == 0 {
		b.WriteString(" nothing to run")
	}
	for i := range w.plan.Chunks {
		b.WriteString(w.chunk(&w.plan.Chunks[i]))
	}
	return b.String()
}

// chunk prints name/choice[start:end], + for a decode, * where it samples.
func (w *world) chunk(c *Chunk) string {
	j := w.jobs[c.Request]
	s := " " + j.name
	if len(j.finish) > 1 {
		s += fmt.Sprintf("/%d", c.Choice)
	}
	if c.Decode {
		s += fmt.Sprintf("+%d", c.Start)
	} else {
		s += fmt.Sprintf("[%d:%d]", c.Start, c.Start+c.Count)
	}
	if c.Drafts > 0 {
		s += fmt.Sprintf(" drafts %v", c.Tokens[c.Count-c.Drafts:])
	} else if c.LogitRows > 1 {
		s += fmt.Sprintf(" logits %d", c.LogitRows)
	}
	if c.Samples > 1 {
		s += fmt.Sprintf(" samples %d", c.Samples)
	}
	return s
}
