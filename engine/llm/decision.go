package llm

import (
	"math"
	"slices"

	"weir/engine/kernel"
	"weir/engine/kernel/vector"
)

// A decision head answers questions about a text in one pass, without a word being generated. The text, the question and its options stand
// in one sequence, a mark before each option, and the head gives a score at each mark. The form is that of Laya and Julia-1, in the files
// of llama.cpp: the last blocks of the file are the head's. What the encoder gives is normed and gets the row of the question's type, passes
// through these blocks, which know no positions and see the whole text, and at the marks through a norm and two matrices to one value.

// DecisionLaya is the decision.type of text encoders.
const DecisionLaya = "laya"

// QuestionTypes are the types of questions that a decision head tells apart, by their rows in token_types.weight: choices, scores on a scale,
// and statements that are true or not.
const QuestionTypes = 3

// decisionParams are the keys of a decision head; the zero value is none.
type decisionParams struct {
	blocks int // the last ones of the file
	ffn    int // width of their networks

	kind    string // decision.type of a language model
	pointer int    // values of a query, and of a key, of its head; 0: it has none
}

// readDecision reads the keys of a decision head, and with it the widths of networks, which are others in its blocks.
func (h *hparams) readDecision(m *metadata) {
	const kind, blocks, widths = "decision.type", "decision.block_count", "feed_forward_length"
	if !h.arch.encoder {
		h.readPointer(m)
		return
	}
	if !m.has(kind) && !m.has(blocks) {
		return
	}
	if t := m.text(kind); t != DecisionLaya || !h.arch.modern {
		m.fail(kind, "is %.40q in a file of %s; of decision heads of text encoders %q is built, in files of %s", t, h.arch.name, DecisionLaya, modernBERT.name)
		return
	}
	if h.decision.blocks = m.size(blocks, 0); h.decision.blocks >= h.depth {
		m.fail(blocks, "is %d, and the file has %d blocks, of which the encoder needs one", h.decision.blocks, h.depth)
		h.decision.blocks = 1
	}
	if n, _, err := m.f.Uint("tokenizer.ggml.token_type_count"); m.err == nil && (err != nil || n != QuestionTypes) {
		m.failKey("tokenizer.ggml.token_type_count", "is %d; a decision head has %d, one of each type of question", n, QuestionTypes)
	}
	if m.err != nil {
		return
	}
	list, first := m.sizes(widths, h.depth, 0), h.depth-h.decision.blocks
	if m.err != nil {
		return
	}
	h.ffn, h.decision.ffn = list[0], list[first]
	for i, n := range list {
		want := h.ffn
		if i >= first {
			want = h.decision.ffn
		}
		if n != want {
			m.fail(widths, "is %d in block %d and %d in the first one of its kind; the encoder's blocks must be alike, and so the decision head's", n, i, want)
			return
		}
	}
}

// decide makes the last layers of a plan those of the decision head, if there is one.
func (h *hparams) decide(p *plan) {
	if h.decision.blocks == 0 {
		return
	}
	p.decides = len(p.layers) - h.decision.blocks
	for i := p.decides; i < len(p.layers); i++ {
		y := &p.layers[i]
		y.attention.norms, y.feed.norms = branchNorms{before: layerNorm}, branchNorms{before: layerNorm}
		y.attention.rope, y.attention.reach = noRope, 0
		y.attention.qkvBias, y.attention.oBias, y.feed.bias = required, required, required
		y.feed.plain, y.feed.act, y.feed.curve, y.feed.width = true, vector.Identity, relu, h.decision.ffn
	}
}

// decisionHead wants what the rows at marks pass through.
func (l *loader) decisionHead(w *weights, h *hparams) {
	l.table(&w.questions, "token_types.weight", required, QuestionTypes, h.width)
	l.norm(&w.head.clsNorm, "cls.norm", layerNorm, h.width, h.eps)
	l.linear(&w.head.cls, "cls", required, h.width, h.width)
	l.linear(&w.head.scores, "cls.output", required, 1, h.width)
	w.head.marks = true
}

// score passes n rows at marks through the head, and gives a value of each.
func (d *head) score(c *kernel.CPU, x []float32, n int) []float32 {
	c.Norm(x, x, d.clsNorm, n)
	up := make([]float32, n*d.cls.w.Rows)
	c.MatMul(up, d.cls.w, x, n, d.cls.bias)
	for i, v := range up {
		up[i] = float32(float64(v) * 0.5 * math.Erfc(-float64(v)*math.Sqrt2/2))
	}
	scores := make([]float32, n)
	c.MatMul(scores, d.scores.w, up, n, d.scores.bias)
	return scores
}

// readPointer reads the decision type of a language model.
func (h *hparams) readPointer(m *metadata) {
	const kind, width = "decision.type", "embedding_length_out"
	if !m.has(kind) {
		return
	}
	switch h.decision.kind = m.text(kind); {
	case slices.Contains(DecisionLabels, h.decision.kind):
	case h.decision.kind != DecisionPointer:
		m.fail(kind, "is %.40q in a file of %s; of language models that decide, %q and %q are built", h.decision.kind, h.arch.name, DecisionLabels, DecisionPointer)
	default:
		if n := m.size(width, 0); n%2 != 0 {
			m.fail(width, "is %d; the decision head has queries and keys of the same size, of which this is the sum", n)
		} else {
			h.decision.pointer = n / 2
		}
	}
}
