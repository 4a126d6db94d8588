package llm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
)

// MostCacheCost is how far answers may be from those with an f16 cache, in nats of mean divergence, for the cache to be q8_0 by itself.
const MostCacheCost = 0.0003

// CacheCosts keeps what a q8_0 cache costs models, by digest, so that it is measured once.
type CacheCosts interface {
	Cost(digest string) (nats float64, known bool)
	Keep(digest string, nats float64)
}

// recall looks up what the cache costs, where that decides its type.
func (o *outline) recall(f *gguf.File, opts *Options) error {
	sum, err := f.Digest()
	if err != nil {
		return fmt.Errorf("digest model: %w", err)
	}
	o.digest = hex.EncodeToString(sum[:])
	if opts.CacheCosts != nil {
		if nats, known := opts.CacheCosts.Cost(o.digest); known {
			o.cacheCost = &nats
		}
	}
	return nil
}

// kvType is the type of the cache: Auto goes by the size of heads and by what q8_0 costs, as far as that is known.
func (o *outline) kvType(opts *Options) attend.KVType {
	t := opts.KVType.For(o.plan.leastHeadDim())
	if opts.KVType == attend.KVAuto && t == attend.KVQ8 && o.cacheCost != nil && !(*o.cacheCost <= MostCacheCost) {
		return attend.KVF16
	}
	return t
}

// chooseCache measures what q8_0 costs a loaded model, where Auto would take it and the cost is not known, and sizes the cache again where it
// costs too much.
func (o *outline) chooseCache(m *model, opts *Options) error {
	if opts.KVType != attend.KVAuto || o.kvType(opts) != attend.KVQ8 || o.cacheCost != nil || len(opts.Sample) == 0 {
		return nil
	}
	began := time.Now()
	fine := *opts
	fine.Fine = true // else what rounding takes from activations is most of the divergence
	own := fine.compute()
	defer own.Close()
	nats, err := m.measureCache(own, opts.Sample[:min(len(opts.Sample), sampleTokens(m.params))], opts)
	if err != nil {
		return err
	}
	o.cacheCost, o.measured = &nats, time.Since(began)
	if opts.CacheCosts != nil && opts.exact == nil && !math.IsNaN(nats) { // NaN: of a damaged file
		opts.CacheCosts.Keep(o.digest, nats)
	}
	o.budget, err = o.sized(opts)
	return err
}

// sampleTokens is how many tokens are measured, so that it takes a second, of large models a few.
func sampleTokens(params uint64) int {
	const least, most, work = 64, 128, 70e9
	return int(max(least, min(work/float64(max(params, 1)), most)))
}

// measureCache is the mean divergence of a model with a q8_0 cache from itself with one of f16, over the second half of a text, in nats.
// opts.OnMeasure hears how many of the rows that are scored are done, and opts.Stopped may end it.
func (m *model) measureCache(c *kernel.CPU, text []inference.TokenID, opts *Options) (float64, error) {
	from := len(text) / 2
	done, total := 0, 2*(len(text)-from)
	tell := func() {
		if opts.OnMeasure != nil {
			opts.OnMeasure(done, total)
		}
		done++
	}
	tell()
	reference := make([][]float32, len(text))
	err := m.scoreWith(c, attend.KVF16, text, from, opts.stopped, func(position int, logits []float32) {
		reference[position] = append([]float32(nil), logits...)
		tell()
	})
	if err != nil {
		return 0, err
	}
	rounded := make([][]float32, len(text))
	err = m.scoreWith(c, attend.KVQ8, text, from, opts.stopped, func(position int, logits []float32) {
		rounded[position] = append([]float32(nil), logits...)
		tell()
	})
	if err != nil {
		return 0, err
	}
	j := &divergenceJob{reference: reference[from:], model: rounded[from:], nats: make([]float64, len(text)-from)}
	c.Run(j, len(j.nats), 1)
	return sum(j.nats) / float64(len(j.nats)), nil
}

// scoreWith is Scorer.Score of a model with a cache of this type for the text.
func (m *model) scoreWith(c *kernel.CPU, t attend.KVType, text []inference.TokenID, from int, stopped func() error, yield func(int, []float32)) error {
	const blockTokens = 16
	shape := m.cacheShape.whole(t, blockTokens, len(text))
	kv, err := attend.NewPages(shape.Tables)
	if err != nil {
		return err
	}
	defer func() { _ = kv.Close() }()
	m.formKeys(c, kv, len(text))
	s := &Scorer{model: m, cpu: c, kv: kv, shape: shape, stopped: stopped}
	return errors.Join(s.Score(text, from, yield), s.b.store.close())
}

// divergenceJob compares rows of logits.
type divergenceJob struct {
	reference, model [][]float32
	nats             []float64
}

// Do computes the divergence of one row.
func (j *divergenceJob) Do(_, i int) {
	p, q := j.reference[i], j.model[i]
	logP, logQ, total := logSum(p), logSum(q), 0.0
	for k, x := range p {
		lp := float64(x) - logP
		total += math.Exp(lp) * (lp - float64(q[k]) + logQ)
	}
	j.nats[i] = max(total, 0) // below 0 by rounding only
}

// logSum is the logarithm of the sum of exponentials.
func logSum(x []float32) float64 {
	top, total := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		total += math.Exp(float64(v) - top)
	}
	return top + math.Log(total)
}
