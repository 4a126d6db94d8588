package llm

import (
	"fmt"
	"slices"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
)

// Files of some families have one more layer behind the model's own, which was trained to predict the token behind the next one (multi-token
// prediction, MTP; GGUF names its tensors nextn): a row of it joins the embedding of the token at a position with the model's hidden state of the
// position before, passes one layer with attention, and gives logits of the token that follows. Such a head is a model of one layer here, whose rows
// begin with what headInput makes. What it gives is a draft: drafts are verified as all others are.

// headInput makes the rows that an MTP head's layer gets.
type headInput struct {
	token, hidden weight.Norm
	project       linear // [width][2*width]: of the normed embedding, and of the normed hidden state
}

// hasMTP says why the file has no MTP head that can be used; nil: it has one.
func (o *outline) hasMTP() error {
	const key = "nextn_predict_layers"
	name := fmt.Sprintf("blk.%d.nextn.eh_proj.weight", o.depth)
	switch _, ok := o.loader.f.Tensor(name); {
	case o.drafts == 0:
		return fmt.Errorf("%w: --speculative-mtp: the file has no MTP head (%s.%s is 0 or missing); leave the setting out, or convert the model again "+
			"with a converter that keeps the head", ErrModel, o.arch.name, key)
	case !o.arch.mtp:
		return fmt.Errorf("%w: --speculative-mtp: MTP heads of %s are not supported; leave the setting out", ErrModel, o.arch.name)
	case !ok:
		return fmt.Errorf("%w: --speculative-mtp: %s.%s is %d, and tensor %s is missing; leave the setting out, or convert the model again", ErrModel,
			o.arch.name, key, o.drafts, name)
	}
	return nil
}

// planMTP makes the plan of the file's MTP head, of the first one where it has several: that makes all drafts.
func (o *outline) planMTP() error {
	if err := o.hasMTP(); err != nil {
		return err
	}
	h := o.hparams // of a model with the head's layer as its last one
	h.depth++
	if r := &h.recurrent; len(r.is) > 0 {
		r.is, r.kvHeads = append(slices.Clip(r.is), false), append(slices.Clip(r.kvHeads), h.kvHeads)
	}
	p := h.arch.plan(&h)
	p.layers, p.stateValues, p.tables = p.layers[o.depth:], 0, nil
	p.deal(h.length)
	o.plan.mtp = &p
	return nil
}

// mtpShape is the store of the head's keys and values beside a cache of so many tokens: of as many.
func (o *outline) mtpShape(t attend.KVType, blockTokens, tokens int) cacheShape {
	return o.plan.mtp.cacheShape().sized(t, blockTokens, max(tokens, 2*blockTokens)/blockTokens+1)
}

// wantHead wants the tensors of an MTP head with this plan.
func (p *plan) wantHead(l *loader, h *hparams) *weights {
	at, y := fmt.Sprintf("blk.%d.", h.depth), &p.layers[0]
	w := &weights{layers: make([]layer, 1), ropes: slices.Clone(p.ropes), embedding: p.embedding, headInput: &headInput{}, branches: y.branches()}
	first := len(l.wants)
	l.matrix(&w.embed, at+"nextn.embed_tokens.weight", optional, h.vocab, h.width)
	l.matrix(&w.output, at+"nextn.shared_head_head.weight", optional, h.vocab, h.width)
	l.norm(&w.outputNorm, at+"nextn.shared_head_norm", normPlan{norm: optional}, h.width, h.eps)
	l.norm(&w.headInput.token, at+"nextn.enorm", rmsNorm, h.width, h.eps)
	l.norm(&w.headInput.hidden, at+"nextn.hnorm", rmsNorm, h.width, h.eps)
	l.linear(&w.headInput.project, at+"nextn.eh_proj", absent, h.width, 2*h.width)
	w.layers[0].attention.attentionPlan, w.layers[0].feed.feedForwardPlan = y.attention, y.feed
	w.layers[0].want(l, at, h)
	w.layerBytes = wantedBytes(l.wants[first:])
	return w
}

// share gives the head what it has no tensors of its own for.
func (w *weights) share(with *weights) {
	if w.embed == nil {
		w.embed = with.embed
	}
	if w.output == nil {
		w.output = with.output
	}
	if w.outputNorm.Weight == nil {
		w.outputNorm = with.outputNorm
	}
}

// settle finishes weights that were read.
func (w *weights) settle() {
	for i := range w.ropes {
		w.ropes[i].prepare(w.divisors)
	}
	for i := range w.layers {
		w.layers[i].feed.settle(w.fine)
		w.layers[i].recurrent.settle()
	}
}

// mtpModel is the head as a model.
func (o *outline) mtpModel() *model {
	w := o.weights.mtp
	if w == nil {
		return nil
	}
	w.share(o.weights)
	w.divisors = o.weights.divisors
	w.settle()
	h := o.hparams
	h.depth, h.drafts = 1, 0
	return &model{hparams: h, weights: w, cacheShape: o.plan.mtp.cacheShape()}
}

// run makes rows of a batch, whose embeddings are there, and hidden states in b.headHidden, which it norms.
func (j *headInput) run(m *model, c *kernel.CPU, b *batch) {
	rows, width := len(b.tokens), m.width
	if len(b.headHidden) < rows*width { // of a trial
		grow(&b.headHidden, rows*width)
		clear(b.headHidden)
	}
	grow(&b.pairs, 2*rows*width)
	c.Norm(b.x, b.x, j.token, rows)
	c.Norm(b.headHidden, b.headHidden, j.hidden, rows)
	for r := range rows {
		pair := b.pairs[2*r*width : 2*(r+1)*width]
		copy(pair, b.x[r*width:(r+1)*width])
		copy(pair[width:], b.headHidden[r*width:])
	}
	b.multiply(c, block{0, rows}, b.pairs, weight.Norm{}, j.project.into(b.x, false))
}
