package llm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/cost"
)

// guesser is a small model with the vocabulary of the engine's, which proposes draft tokens. It is the scheduler's Guesser: the step loop calls it
// amid planning, on the threads that compute the step. It has a KV cache of its own, whose blocks it gives and takes without the scheduler:
// texts that it lacks blocks for get no guesses.
type guesser struct {
	model     *model
	cpu       *kernel.CPU // the engine's
	vocab     int         // of the engine's model: other ids are no guesses
	kv        *attend.Pages
	kvBytes   int64
	length    int // of the longest text and its guesses
	cache     kvcache.Config
	attention cost.Attention
	cost      *cost.Model

	pool   *kvcache.Pool
	read   map[scheduler.SequenceID]*readText
	calls  uint64
	copies []kvcache.Copy
	batch  batch
	tables [][]kvcache.BlockID
	now    []guessedText // of the call
	logits []float32
	best   []inference.TokenID // of the rows of logits
}

// readText is what is computed of a sequence.
type readText struct {
	table   kvcache.Table
	tail    []inference.TokenID // guesses behind the table's final rows whose rows are computed
	after   inference.TokenID   // guess behind the table's final rows, once these are all of a text
	guesses []inference.TokenID
	call    uint64 // that asked for it last
	heard          // with an MTP head
}

// guessedText is a text of a call.
type guessedText struct {
	*readText
	index int  // of the call's texts
	from  int  // first row to compute
	rows  int  // 0: a call before has read all of the text, which has not grown since
	whole bool // the last row of the text is among them: guesses follow
}

// mostGuessed bounds the texts of a call, and so the logits that exist at a time.
const mostGuessed = logitTile

// openGuesser reads the draft model of an engine that is built, of which small tells.
func openGuesser(e *Engine, small *Info, progress func(done, total int64)) (_ *guesser, err error) {
	opts := Options{
		KVType: e.opts.KVType, BlockTokens: e.info.BlockTokens, KVBytes: draftKVBytes(&e.info, small), Level: e.opts.Level,
		Scheduler: scheduler.Config{MaxSeqs: e.opts.Scheduler.MaxSeqs, MaxDrafts: e.opts.Scheduler.MaxDrafts},
	}
	o, err := readOutline(e.opts.Draft, &opts)
	if err != nil {
		return nil, err
	}
	g := &guesser{cpu: e.cpu, vocab: e.model.vocab}
	if g.model, err = o.load(progress, e.opts.stopped); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.close()
		}
	}()
	b := &o.budget
	if g.kv, err = attend.NewPages(b.shape.Tables); err != nil {
		return nil, err
	}
	g.kvBytes, g.length = b.shape.Bytes(), b.maxModelLen
	g.model.formKeys(g.cpu, g.kv, b.maxModelLen)
	g.attention = g.model.attention()
	g.cost = cost.New(g.model.price(o.weightBytes, e.cpu.Threads()))
	for range 2 { // the second time is what a row takes
		began := time.Now()
		if err := g.model.try(g.cpu, g.kv, b.shape.blockTokens(), e.opts.stopped); err != nil {
			return nil, err
		}
		g.cost.Observe(cost.Load{Rows: 1, Outputs: 1, Decode: 1}, time.Since(began))
	}
	g.cache = kvcache.Config{
		Blocks: b.shape.blocks(), BlockTokens: b.shape.blockTokens(), Windows: b.shape.windows, StepRows: b.stepRows,
		ModelDigest: o.digest, KVType: b.shape.Tables[0].Type.String(), Secret: e.opts.Secret,
	}
	g.tables = make([][]kvcache.BlockID, len(g.model.cacheShape.Tables))
	return g, nil
}

// reserveDraft tells of the draft model, if there is one, whatever its cache, and refuses one that cannot guess for the model of a file.
func (o *Options) reserveDraft(f *gguf.File) (Info, error) {
	switch {
	case o.Draft == nil:
		return Info{}, nil
	case o.MTP:
		return Info{}, fmt.Errorf("%w: --speculative-model and --speculative-mtp both propose draft tokens; leave one of them out", ErrModel)
	}
	const length = 64
	small, err := Describe(o.Draft, Options{KVType: o.KVType, BlockTokens: o.BlockTokens, MaxModelLen: length, KVBlocks: 1 << 10, Level: o.Level})
	switch {
	case err != nil:
	case small.Embeds:
		err = fmt.Errorf("%w: it is a text encoder (%s), which guesses no tokens", ErrModel, small.Architecture)
	case small.StateBytes > 0:
		err = fmt.Errorf("%w: %s has recurrent layers; a draft model must have attention alone", ErrModel, small.Architecture)
	default:
		err = sameWords(o.Draft, f)
	}
	if err != nil {
		return Info{}, fmt.Errorf("read the draft model: %w", err)
	}
	o.besideBytes = small.WeightBytes
	return small, nil
}

// draftKVBytes is the memory for a draft model's keys and values: of as many tokens as the model's cache has.
func draftKVBytes(i, small *Info) int64 {
	return int64(max(i.KVTokens, 2*i.BlockTokens)) * int64(small.KVBytesPerToken)
}

// mostOtherWords is by how many tokens vocabularies may differ in length: files of one family pad it differently.
const mostOtherWords = 512

// sameWords refuses a draft model whose tokens are others.
func sameWords(draft, f *gguf.File) error {
	own, _, err := draft.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return err
	}
	words, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return err
	}
	if d := len(own) - len(words); d > mostOtherWords || -d > mostOtherWords {
		return fmt.Errorf("%w: the draft model has %d tokens and the model %d; both must have one vocabulary", ErrModel, len(own), len(words))
	}
	for i := range min(len(own), len(words)) {
		if own[i] != words[i] {
			return fmt.Errorf("%w: token %d is %.40q in the draft model and %.40q in the model; both must have one vocabulary", ErrModel, i, own[i], words[i])
		}
	}
	return nil
}

// reset forgets everything, for a scheduler that knows nothing either.
func (g *guesser) reset() (err error) {
	g.pool, err = kvcache.New(g.cache)
	g.read = make(map[scheduler.SequenceID]*readText)
	return err
}

func (g *guesser) close() error {
	if g == nil {
		return nil
	}
	if g.kv != nil {
		_ = g.kv.Close()
	}
	return g.model.release()
}

// bytes is the memory that it takes, of an MTP head beside the model's weights.
func (g *guesser) bytes() int64 {
	return g.model.bytes + g.kvBytes
}

// Along implements scheduler.Guesser: a draft model reads texts by itself.
func (g *guesser) Along(cost.Load) float64 { return 0 }

// Price implements scheduler.Guesser.
func (g *guesser) Price(texts []scheduler.GuessText, n int) (reading, guessing time.Duration) {
	round, all := cost.Load{}, cost.Load{}
	for i := range texts {
		if g.isTooLong(&texts[i], n) {
			continue // it gets no guesses
		}
		ids, behind := len(texts[i].IDs), g.behind(&texts[i])
		one := cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(ids, 1)}
		round = round.Add(one)
		if behind > 1 { // one row is behind where all guesses came true
			one = one.Add(cost.Load{Rows: behind, Prompt: g.attention.Attended(ids-behind-1, behind)})
		}
		all = all.Add(one)
	}
	if round.Rows == 0 {
		return never, never
	}
	each := g.cost.Estimate(round)
	return g.cost.Estimate(all) - each, time.Duration(n) * each
}

// behind is how many rows of a text are not read, the last one left out.
func (g *guesser) behind(t *scheduler.GuessText) int {
	known := 0
	if r := g.read[t.ID]; r != nil {
		known = min(r.table.Tokens()+len(r.tail), len(t.IDs)-1)
	}
	return len(t.IDs) - known - 1
}

// leastRead is how many rows a call may read, however long that takes.
const leastRead = 16

// mayRead is how many rows a call may compute before it guesses, if reading takes so long at most.
func (g *guesser) mayRead(texts []scheduler.GuessText, n int, most time.Duration) int {
	rows := g.cache.StepRows
	if takes, _ := g.Price(texts, 0); takes > most {
		behind := 0
		for i := range texts {
			behind += g.behind(&texts[i])
		}
		rows = min(rows, n+len(texts)+max(leastRead, int(float64(behind)*float64(most)/float64(takes))))
	}
	return rows
}

// never is what guesses cost that cannot be made.
const never = time.Hour

// isTooLong reports whether the model's context ends before n guesses behind a text do.
func (g *guesser) isTooLong(t *scheduler.GuessText, n int) bool { return len(t.IDs)+n > g.length }

// Guess implements scheduler.Guesser.
func (g *guesser) Guess(texts []scheduler.GuessText, n int, reading time.Duration) time.Duration {
	began := time.Now()
	g.calls++
	g.open(texts, n, g.mayRead(texts, n, reading))
	g.first(texts)
	g.now = slices.DeleteFunc(g.now, func(t guessedText) bool { return !t.whole })
	for range n - 1 {
		if len(g.now) == 0 {
			break
		}
		g.next(texts)
	}
	for i := range g.now {
		texts[g.now[i].index].Guesses = g.now[i].guesses
	}
	return time.Since(began)
}

// Forget implements scheduler.Guesser. What was read stays in the cache.
func (g *guesser) Forget(id scheduler.SequenceID) {
	if r := g.read[id]; r != nil {
		g.pool.Release(&r.table)
		delete(g.read, id)
	}
}

// open arranges which rows the call computes, left at most and those of guesses.
func (g *guesser) open(texts []scheduler.GuessText, n, left int) {
	g.now, g.copies = g.now[:0], g.copies[:0]
	for i := range texts {
		if t := &texts[i]; len(g.now) < mostGuessed && left > n && !g.isTooLong(t, n) {
			if r, ok := g.prepare(t, n, left, i); ok {
				g.now = append(g.now, r)
				left -= r.rows
			}
		}
	}
	g.copyRows()
}

// copyRows carries out what the pool asked for.
func (g *guesser) copyRows() {
	for _, c := range g.copies {
		g.kv.Table(c.Group).CopyRows(c.Src, c.Dst, c.Rows)
	}
	g.copies = g.copies[:0]
}

// prepare keeps what is computed of a text and of the guesses that came true, and gets blocks for what is to be.
func (g *guesser) prepare(t *scheduler.GuessText, n, left, index int) (guessedText, bool) {
	r, hit := g.read[t.ID], kvcache.Hit{}
	if r == nil {
		r = &readText{}
		g.pool.Begin(&r.table, t.Domain)
		hit = g.pool.Match(t.Domain, t.IDs, len(t.IDs)-1)
		g.read[t.ID] = r
	} else {
		g.keep(r, t.IDs)
	}
	r.call, r.guesses = g.calls, r.guesses[:0]
	for {
		from := r.table.Tokens()
		if from == 0 {
			from = hit.Tokens
		}
		rows := min(len(t.IDs)-from, left-n)
		whole, grown := from+rows == len(t.IDs), from+rows
		if whole {
			grown += n - 1
		}
		if g.pool.Grow(&r.table, grown, hit, &g.copies) {
			return guessedText{readText: r, index: index, from: from, rows: rows, whole: whole}, true
		}
		if !g.evict() {
			g.Forget(t.ID)
			return guessedText{}, false
		}
		hit = g.pool.Match(t.Domain, t.IDs, len(t.IDs)-1) // of use to an empty table alone
	}
}

// keep makes rows of guesses that came true final, and drops the others.
func (g *guesser) keep(r *readText, ids []inference.TokenID) {
	rows := r.table.Tokens()
	for _, id := range r.tail {
		if rows >= len(ids)-1 || ids[rows] != id {
			break
		}
		rows++
	}
	g.pool.Commit(&r.table, ids[:rows], rows)
	g.pool.Truncate(&r.table, rows)
	r.tail = r.tail[:0]
}

// evict gives the blocks back of the text that was asked for longest ago, unless that is of this call.
func (g *guesser) evict() bool {
	var oldest scheduler.SequenceID
	least := g.calls
	for id, r := range g.read {
		if r.call < least || r.call == least && least < g.calls && before(id, oldest) {
			oldest, least = id, r.call
		}
	}
	if least == g.calls {
		return false
	}
	g.Forget(oldest)
	return true
}

func before(a, b scheduler.SequenceID) bool {
	return cmp.Or(cmp.Compare(a.Request, b.Request), cmp.Compare(a.Choice, b.Choice)) < 0
}

// first computes what was not read, and makes the first guesses.
func (g *guesser) first(texts []scheduler.GuessText) {
	load := cost.Load{}
	g.batch.reset()
	for i := range g.now {
		t := &g.now[i]
		if t.rows == 0 {
			continue
		}
		row := g.rows(t.readText, texts[t.index].IDs[t.from:t.from+t.rows], t.from)
		load = load.Add(cost.Load{Rows: t.rows, Prompt: g.attention.Attended(t.from, t.rows)})
		if t.whole {
			g.batch.output = append(g.batch.output, row+t.rows-1)
			load.Outputs++
		}
	}
	g.compute(load)
	for i, at := 0, 0; i < len(g.now); i++ {
		t := &g.now[i]
		ids := texts[t.index].IDs
		g.pool.Commit(&t.table, ids, t.from+t.rows)
		if t.whole && t.rows > 0 {
			t.after = g.best[at]
			at++
		}
		if t.whole {
			t.guesses = append(t.guesses, t.after)
		}
	}
}

// next makes a further guess behind each text.
func (g *guesser) next(texts []scheduler.GuessText) {
	load := cost.Load{}
	g.batch.reset()
	for i := range g.now {
		t := &g.now[i]
		last, at := len(t.guesses)-1, len(texts[t.index].IDs)+len(t.guesses)-1
		g.batch.output = append(g.batch.output, g.rows(t.readText, t.guesses[last:], at))
		t.tail = append(t.tail, t.guesses[last])
		load = load.Add(cost.Load{Rows: 1, Outputs: 1, Decode: g.attention.Attended(at, 1)})
	}
	g.compute(load)
	for i := range g.now {
		g.now[i].guesses = append(g.now[i].guesses, g.best[i])
	}
}

// rows appends rows of a text to the batch. The draft model's vocabulary may be the shorter one: it reads tokens beyond as its first one.
func (g *guesser) rows(t *readText, ids []inference.TokenID, at int) (row int) {
	for k := range g.tables {
		g.tables[k] = t.table.Blocks(k)
	}
	row = g.batch.add(ids, at, g.cache.BlockTokens, g.tables...)
	for i, id := range g.batch.tokens[row:] {
		if int(id) >= g.model.vocab {
			g.batch.tokens[row+i] = 0
		}
	}
	return row
}

// compute runs the batch and finds the likeliest token of each row of its output.
func (g *guesser) compute(load cost.Load) {
	if load.Rows == 0 {
		return
	}
	began, rows := time.Now(), len(g.batch.output)
	g.model.forward(g.cpu, g.kv, &g.batch)
	grow(&g.logits, rows*g.model.vocab)
	g.best = slices.Grow(g.best[:0], rows)[:rows]
	if rows > 0 {
		g.model.logits(g.cpu, g.logits, g.batch.hidden, rows)
		g.model.suppress(g.logits, rows)
		g.cpu.Run((*likeliest)(g), rows, 1)
	}
	g.cost.Observe(load, time.Since(began))
}

// likeliest finds the greatest logit of rows.
type likeliest guesser

func (g *likeliest) Do(_, row int) {
	logits := g.logits[row*g.model.vocab:][:min(g.model.vocab, g.vocab)]
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	g.best[row] = inference.TokenID(best) //nolint:gosec // below the size of a vocabulary
}
