package batch

import "math"

// Next appends to batch the requests that are computed next, together; none where
// nothing waits, or all that waits may wait longer for company. Each of them is
// charged its cost, and its charge must be settled.
func (q *Queue) Next(now int64, batch []TakenRequest) []TakenRequest {
	q.line.Exchange()
	if q.Len() == 0 || q.Wake() > now {
		return batch
	}
	b := batchBuilder{now: now, batch: batch, first: len(batch)}
	for _, class := range q.line.Order() {
		if q.line.Waiting(class) == 0 {
			continue
		}
		q.line.Scan(class, false)
		for !b.complete(q) {
			ref, _, any := q.line.Next()
			if !any {
				break
			}
			b.look(q, ref)
		}
		q.line.EndScan()
	}
	if i, some := q.byName[b.kind]; some && len(b.batch) > b.first {
		q.kinds[i].ready = now // what did not fit has waited
	}
	return b.batch
}

// batchBuilder is a batch that is being put together.
type batchBuilder struct {
	now   int64
	batch []TakenRequest
	first int // index in batch

	kind string
	rows int
	most int
}

// complete reports whether nothing more can join.
func (b *batchBuilder) complete(q *Queue) bool {
	if len(b.batch) == b.first {
		return false
	}
	_, more := q.byName[b.kind]
	return !more || b.rows >= b.most
}

// look takes the request that the line's scan is at, or passes over it.
func (b *batchBuilder) look(q *Queue, ref uint64) {
	w := q.entries[ref].work
	if len(b.batch) > b.first {
		if w.Kind != b.kind || b.rows+w.Rows > b.most {
			q.line.Skip()
			return
		}
	} else {
		if !q.kinds[q.byName[w.Kind]].mayBegin(b.now) {
			q.line.Skip()
			return
		}
		b.kind, b.most = w.Kind, w.MaxRows
	}
	b.rows += w.Rows
	b.batch = append(b.batch, TakenRequest{w, q.line.Take(w.Cost), w.Cost})
	q.leave(b.now, ref, true)
}

// mayBegin reports whether a batch of the kind need not wait for more rows.
func (k *kind) mayBegin(now int64) bool { return k.ready <= now || k.rows >= k.maxRows }

// Wake is when Next should be asked again if nothing else happens: a time that has
// passed where a batch can begin, [math.MaxInt64] where nothing waits.
func (q *Queue) Wake() int64 {
	at := int64(math.MaxInt64)
	for i := range q.kinds {
		k := &q.kinds[i]
		if k.rows >= k.maxRows {
			return 0
		}
		at = min(at, k.ready)
	}
	return at
}

// Settle corrects the charge of a request to what it has cost, and ends it.
func (q *Queue) Settle(t *TakenRequest, cost uint64) {
	switch {
	case cost > t.charged:
		q.line.Charge(t.flow, cost-t.charged)
	case cost < t.charged:
		q.line.Refund(t.flow, t.charged-cost)
	}
	q.line.Done(t.flow)
}
