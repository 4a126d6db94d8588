package llm

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
	"weir/kvcache"
)

// try computes one token with the whole model and refuses what gives no finite
// logits: a weight that is NaN or infinite would fail every request. The KV cache
// holds nothing before, and its blocks count as free afterwards.
func (m *model) try(c *kernel.CPU, kv *attend.Pages, blockTokens int, stopped func() error) (err error) {
	defer recoverTable(&err)
	var b batch
	if b.store, err = newStates(m.states, 1); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.store.close()) }()
	tables := make([][]kvcache.BlockID, len(m.cacheShape.Tables))
	for i := range tables {
		tables[i] = []kvcache.BlockID{kvcache.BlockID(1 + i)}
	}
	b.add([]int32{int32(min(1, m.vocab-1))}, 0, blockTokens, tables...)
	b.carryText(0)
	b.output = append(b.output, 0)
	m.forward(c, kv, &b)
	logits := make([]float32, m.vocab)
	m.logits(c, logits, b.hidden, 1)
	if finite(b.hidden) && finite(logits) {
		return nil
	}
	if err := m.check(c, stopped); err != nil {
		return err
	}
	return fmt.Errorf("%w: its weights are finite, but not what they make of a first token; "+
		"the file is damaged or its metadata are of another model", ErrModel)
}

func finite(x []float32) bool {
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}

// check decodes every row of every matrix and refuses values that are not
// finite: a damaged block scale would otherwise surface as nonsense text.
func (m *model) check(c *kernel.CPU, stopped func() error) error {
	for _, named := range m.matrices() {
		if named.w == nil { // networks without a gate, encoders without an output
			continue
		}
		if err := stopped(); err != nil {
			return err
		}
		j := &finiteJob{w: named.w, scratch: make([][]float32, c.Threads())}
		for i := range j.scratch {
			j.scratch[i] = make([]float32, named.w.Cols)
		}
		j.bad.Store(-1)
		c.Run(j, named.w.Rows, 16)
		if row := j.bad.Load(); row >= 0 {
			return fmt.Errorf("%w: tensor %s, row %d holds a value that is not finite; the file is damaged: fetch or convert it again",
				ErrModel, named.name, row)
		}
	}
	return nil
}

type finiteJob struct {
	w       *weight.Matrix
	scratch [][]float32
	bad     atomic.Int64 // a row that is not finite, or -1
}

// Do checks one row.
func (j *finiteJob) Do(worker, row int) {
	x := j.scratch[worker]
	j.w.DecodeRow(x, row)
	if !finite(x) {
		j.bad.Store(int64(row))
	}
}

type namedMatrix struct {
	name string
	w    *weight.Matrix
}

func (m *model) matrices() []namedMatrix {
	list := []namedMatrix{
		{"token_embd", m.embed}, {"output", m.output}, {"per_layer_model_proj", m.inputs.project.w},
		{"cls", m.head.cls.w}, {"cls.output", m.head.scores.w}, {"cls.output", m.pointer.w},
	}
	for i, name := range m.head.headPlan.dense {
		list = append(list, namedMatrix{name, m.head.dense[i].w})
	}
	for i := range m.layers {
		a, f, r := &m.layers[i].attention, &m.layers[i].feed, &m.layers[i].recurrent
		for _, l := range []namedMatrix{
			{"attn_q", a.q.w}, {"attn_k", a.k.w}, {"attn_v", a.v.w}, {"attn_output", a.o.w},
			{"mixed", r.mixed.w}, {"gate", r.gate.w}, {"after", r.after.w}, {"time", r.time.w}, {"gain", r.gain.w}, {"out", r.out.w},
			{"ffn_gate", f.gate.w}, {"ffn_up", f.up.w}, {"ffn_down", f.down.w},
			{"inp_gate", m.layers[i].input.gate.w}, {"proj", m.layers[i].input.project.w},
		} {
			list = append(list, namedMatrix{fmt.Sprintf("blk.%d.%s", i, l.name), l.w})
		}
		list = append(list, f.mixture.matrices(fmt.Sprintf("blk.%d.", i))...)
	}
	return list
}
