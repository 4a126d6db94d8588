package llm

// wantHead wants what a pooled vector passes through.
func (w *weights) wantHead(l *loader, p headPlan, h *hparams) {
	d := &w.head
	d.headPlan = p
	if h.decision.blocks > 0 {
		l.decisionHead(w, h)
		return
	}
	d.wantDense(l, h)
	if p.labels == 0 {
		return
	}
	if !d.checkLabels(l, h) {
		return
	}
	l.linear(&d.scores, "cls.output", optional, p.labels, h.width)
	if _, ok := l.f.Tensor("cls.weight"); ok {
		l.linear(&d.cls, "cls", optional, h.width, h.width)
		if _, ok := l.f.Tensor("cls.norm.weight"); ok {
			l.norm(&d.clsNorm, "cls.norm", plainNorm, h.width, h.eps)
		}
	}
}

// maxLabels is how many labels a classifier may have.
const maxLabels = 1 << 16

// checkLabels holds a classifier's head against the labels that the file has for it.
func (d *head) checkLabels(l *loader, h *hparams) bool {
	const tensor = "cls.output.weight"
	t, ok := l.f.Tensor(tensor)
	key, rows := h.arch.name+".classifier.output_labels", uint64(1)
	if ok && len(t.Dims) > 1 {
		rows = t.Dims[1]
	}
	switch n := len(h.labels); {
	case !ok:
		l.fail("it is a reranker or a classifier (pooling_type 4) without the tensor %s, so that it can score nothing; "+
			"convert the file again with a converter that knows its head", tensor)
	case n == 0 && rows != 1:
		l.fail("tensor %s gives %d scores, and %s is missing, which says what they are of; convert the file again with a converter that writes it", tensor, rows, key)
	case n > maxLabels:
		l.fail("%s has %d labels, of %d that a classifier may have", key, n, maxLabels)
	case n > 0 && uint64(n) != rows:
		l.fail("%s has %d labels (%.200q), and the tensor %s gives %d scores", key, n, h.labels, tensor, rows)
	}
	seen := make(map[string]bool, len(h.labels))
	for i, name := range h.labels {
		if name == "" || seen[name] {
			l.fail("%s has the label %.80q at place %d, which is empty or twice there; answers are told by their labels", key, name, i)
		}
		seen[name] = true
	}
	return l.err == nil
}

// wantDense wants the matrices behind the pooling, as far as the file has them.
func (d *head) wantDense(l *loader, h *hparams) {
	in := h.width
	for i, name := range d.headPlan.dense {
		t, ok := l.f.Tensor(name + ".weight")
		if !ok && d.whole {
			l.fail("tensor %s.weight is missing, of which vectors are made", name)
		}
		if !ok || len(t.Dims) != 2 || t.Dims[1] > maxSize {
			continue
		}
		out := int(t.Dims[1])
		if h.dimensions > 0 && out != h.dimensions {
			l.fail("tensor %s.weight gives vectors of %d values, and %s.embedding_length_out is %d", name, out, h.arch.name, h.dimensions)
		}
		l.linear(&d.dense[i], name, absent, out, in)
		in = out
	}
}
