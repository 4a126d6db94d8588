package batch

import "fmt"

// Check recounts the queue and names the first thing that does not add up, for tests.
func (q *Queue) Check() error {
	if err := q.line.Check(); err != nil {
		return err
	}
	have := make(map[string]kind)
	live := 0
	for i := range q.entries {
		e := &q.entries[i]
		if e.work.Kind == "" && e.work.User == nil {
			continue
		}
		live++
		k := have[e.work.Kind]
		k.requests++
		k.rows += e.work.Rows
		have[e.work.Kind] = k
	}
	if live != q.line.Len() || live+len(q.free) != len(q.entries) || len(have) != len(q.kinds) || len(q.kinds) != len(q.byName) {
		return fmt.Errorf("check batches: %d entries and %d free of %d, %d in line; kinds: %d, listed %d, by name %d",
			live, len(q.free), len(q.entries), q.line.Len(), len(have), len(q.kinds), len(q.byName))
	}
	for i := range q.kinds {
		k := &q.kinds[i]
		if h := have[k.name]; h.requests != k.requests || h.rows != k.rows || q.byName[k.name] != i {
			return fmt.Errorf("check batches: kind %q has %d requests of %d rows, counted %d of %d", k.name, h.requests, h.rows, k.requests, k.rows)
		}
	}
	if d := q.precheck.Waiting(); d.Requests != live || d.Tokens != q.line.Tokens() {
		return fmt.Errorf("check batches: the precheck counts %d requests of %d rows, %d of %d wait", d.Requests, d.Tokens, live, q.line.Tokens())
	}
	return nil
}
