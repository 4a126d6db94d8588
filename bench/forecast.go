package bench

import (
	"fmt"
	"math"
	"strings"

	"weir/engine/gguf"
	"weir/engine/kernel/weight"
	"weir/engine/llm"
	"weir/internal/roofline"
	"weir/scheduler/cost"
)

// Cost is what a model's forward pass cannot do without, by its shape alone.
type Cost struct {
	layers roofline.Work // of one row through every layer's matrices, those of experts left out
	mixed  roofline.Work // of one row through all experts of every layer
	use    cost.Experts
	output roofline.Work // of one row through the output matrix

	attention []attended
}

// attended is layers that see as far as each other.
type attended struct {
	window  int     // positions; 0 is all
	kvBytes float64 // read per position of a sequence's context
	ops     float64 // per row and position
}

// of is the positions that rows [start, start+count) of a sequence attend to.
func (a *attended) of(start, count int) float64 {
	return float64(cost.Attention{{Positions: a.window, Share: 1}}.Attended(start, count))
}

// attendedOf is the model's layers by how far they see.
func attendedOf(info *llm.Info) (list []attended) {
	const products = 4 // operations: a product with the key, one with the value
	if info.Windows == nil {
		return []attended{{kvBytes: float64(info.KVBytesPerToken), ops: products * float64(info.Layers*info.Heads*info.HeadDim)}}
	}
	for _, w := range info.Windows {
		list = append(list, attended{window: w.Positions, kvBytes: float64(w.KVBytes), ops: products * float64(w.QueryValues)})
	}
	return list
}

// NewCost adds up a file's matrices as they lie in memory. The embedding counts
// where it is the output matrix, too: a row of it is all that a token reads, as of the embeddings of layers.
func NewCost(f *gguf.File, info llm.Info) (Cost, error) {
	c := Cost{attention: attendedOf(&info), use: cost.Experts{Count: info.Experts, Use: info.ExpertsUsed}}
	_, untied := f.Tensor("output.weight")
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if len(t.Dims) == 3 && strings.Contains(t.Name, "_exps.") {
			w, err := matrixWork(t)
			if err != nil {
				return Cost{}, err
			}
			c.mixed = c.mixed.Add(w)
			continue
		}
		if len(t.Dims) != 2 || t.Name == "token_embd.weight" && untied || t.Name == "per_layer_token_embd.weight" {
			continue
		}
		w, err := matrixWork(t)
		if err != nil {
			return Cost{}, err
		}
		if strings.HasPrefix(t.Name, "blk.") || t.Name == "per_layer_model_proj.weight" {
			c.layers = c.layers.Add(w)
		} else {
			c.output = c.output.Add(w)
		}
	}
	return c, nil
}

// matrixWork is one row times a matrix, or times those of all experts: all of its bytes, and a multiply-add
// for each of its values.
func matrixWork(t *gguf.Tensor) (roofline.Work, error) {
	bytes, err := weight.MatrixBytes(t.Type, int(t.Dims[1]), int(t.Dims[0]))
	if err != nil {
		return roofline.Work{}, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	many := 1.0 // matrices
	if len(t.Dims) == 3 {
		many = float64(t.Dims[2])
	}
	w := roofline.Work{Bytes: many * float64(bytes)}
	ops := many * 2 * float64(t.Dims[0]) * float64(t.Dims[1])
	if isFloat(t.Type) {
		w.FloatOps = ops
	} else {
		w.Int8Ops = ops
	}
	return w, nil
}

// isFloat tells the types that are multiplied as floats.
func isFloat(t gguf.Type) bool {
	return t == gguf.TypeF32 || t == gguf.TypeF16 || t == gguf.TypeBF16
}

// rowsOf is the work of so many rows: the matrices are read once.
func rowsOf(w roofline.Work, n int) roofline.Work {
	return roofline.Work{Bytes: w.Bytes, Int8Ops: w.Int8Ops * float64(n), FloatOps: w.FloatOps * float64(n)}
}

// through is the work of so many rows in all layers: of experts those are read that some row meets, on average.
func (c Cost) through(n int) roofline.Work {
	w := rowsOf(c.layers, n)
	if c.use.Count == 0 {
		return w
	}
	rows := float64(n) * float64(c.use.Use) / float64(c.use.Count)
	return w.Add(roofline.Work{Bytes: c.mixed.Bytes * c.use.Share(n), Int8Ops: c.mixed.Int8Ops * rows, FloatOps: c.mixed.FloatOps * rows})
}

// Decode is one step that gives each of the sequences a token, after a context
// of so many.
func (c Cost) Decode(sequences, context int) roofline.Work {
	w := c.through(sequences).Add(rowsOf(c.output, sequences))
	for i := range c.attention {
		a := &c.attention[i]
		positions := float64(context)
		if a.window > 0 {
			positions = min(positions, float64(a.window))
		}
		positions *= float64(sequences)
		w = w.Add(roofline.Work{Bytes: positions * a.kvBytes, FloatOps: positions * a.ops})
	}
	return w
}

// Prefill is a prompt of n tokens in steps of at most batch rows. Only its last
// row needs the output matrix.
func (c Cost) Prefill(n, batch int) roofline.Work {
	steps := (n + batch - 1) / batch
	w := c.through(n).Add(rowsOf(c.output, 1))
	w.Bytes += float64(steps)*c.through(min(n, batch)).Bytes - c.through(n).Bytes
	for i := range c.attention {
		w.FloatOps += c.attention[i].of(0, n) * c.attention[i].ops
	}
	return w
}

// What the engine's kernels reach, for expectations: shares of the memory's and
// the multipliers' limits, and how much of the shorter of the two times passes
// beside the longer one: all of it with an infinite overlap, none with 1. Found
// on a Llama of 1.2 billion parameters in Q4_K_M: three forecasts of a prompt, 1,
// 8 and 32 sequences were off by a tenth or less in the median, and by up to 28 %
// where the machine's rates had changed in between.
const (
	memoryShare  = 0.9
	computeShare = 0.6
	overlap      = 1.5
)

// together is how long reading and computing take when they share a step.
func together(memory, compute float64) float64 {
	return math.Pow(math.Pow(memory/memoryShare, overlap)+math.Pow(compute/computeShare, overlap), 1/overlap)
}

// Forecast is how fast a model could run on a machine, in tokens per second.
type Forecast struct {
	Name     string  `json:"name"`
	Limit    float64 `json:"limit_tokens_per_s"`    // that no kernel passes
	Expected float64 `json:"expected_tokens_per_s"` // as our kernels come near it
	Bound    string  `json:"bound"`                 // what limits it
}

// Forecasts are for a prompt of 512 tokens and for 1, 8 and 32 sequences that
// decode after 512 tokens each; those that the model's length allows, and no more sequences than fit says that the KV cache holds of so many tokens.
func (c Cost) Forecasts(r roofline.Rates, maxLength int, fit func(tokens int) int) []Forecast {
	length := min(512, maxLength)
	out := []Forecast{forecast(fmt.Sprintf("prefill of %d tokens", length), length, r, c.Prefill(length, 512))}
	last, most := 0, max(1, fit(length))
	for _, n := range []int{1, 8, 32} {
		if n = min(n, most); n == last {
			break
		}
		last = n
		name := "decode, 1 sequence"
		if n > 1 {
			name = fmt.Sprintf("decode, %d sequences", n)
		}
		out = append(out, forecast(name, n, r, c.Decode(n, length)))
	}
	return out
}

func forecast(name string, tokens int, r roofline.Rates, w roofline.Work) Forecast {
	limit, bound := r.Seconds(w)
	memory, compute := r.Times(w)
	return Forecast{Name: name, Limit: float64(tokens) / limit, Expected: float64(tokens) / together(memory, compute),
		Bound: bound.String()}
}
