package quota

// table holds the states by tenant and model, the one used last first. It is
// bounded, and forgets only states of which nothing would be lost.
type table struct {
	byKey map[stateKey]*entry
	most  int
	ends  *entry // of the list: next is the newest, prev the oldest
}

// stateKey names a state; account is "" for those that are no key's.
type stateKey struct{ tenant, model, account string }

// in is the name of a tenant's part.
func (p *part) in(tenant string) stateKey { return stateKey{tenant, p.model, p.account} }

// entry is a remembered state.
type entry struct {
	key        stateKey
	part       part // of the last request
	state      State
	prev, next *entry
}

// Forgetting looks at this many of the oldest states when a new one comes: more
// than one, so that a table which was full once becomes small again.
const (
	forgetUsual = 2
	forgetFull  = 64 // where the table is full
)

func newTable(most int) table {
	ends := &entry{}
	ends.prev, ends.next = ends, ends
	return table{byKey: map[stateKey]*entry{}, most: most, ends: ends}
}

// find fills in the states that a holder's requests count for, made at need.
func (m *Meter) find(who *Holder, o *openGrant) error {
	parts := who.parts()
	if err := m.makeRoom(who.Tenant, parts); err != nil {
		return err
	}
	o.n = 0
	for _, p := range parts {
		if p.limits.Unlimited() {
			continue
		}
		e := m.states.take(p.in(who.Tenant))
		e.part = p
		e.state.refresh(p.limits, m.now)
		o.entries[o.n] = e
		o.n++
	}
	return nil
}

// makeRoom sees to it that the table has room for the parts that it lacks.
func (m *Meter) makeRoom(tenant string, parts [numParts]part) error {
	t := &m.states
	for _, looks := range [...]int{0, forgetUsual, forgetFull} {
		m.forget(looks) // maybe a state of this very holder: then it is lacking
		lacks := t.lacks(tenant, parts)
		if lacks == 0 || looks > 0 && len(t.byKey)+lacks <= t.most {
			return nil
		}
	}
	return ErrFull
}

func (t *table) lacks(tenant string, parts [numParts]part) int {
	n := 0
	for _, p := range parts {
		if !p.limits.Unlimited() && t.byKey[p.in(tenant)] == nil {
			n++
		}
	}
	return n
}

// take is the state of a key, made at need, and now the one used last.
func (t *table) take(key stateKey) *entry {
	e := t.byKey[key]
	if e == nil {
		e = &entry{key: key}
		t.byKey[key] = e
	} else {
		t.unlink(e)
	}
	t.push(e)
	return e
}

// forget looks at some of the oldest states and forgets those that are as new. The
// others go to the front, so that the next call looks at further ones.
func (m *Meter) forget(looks int) {
	t := &m.states
	for range min(looks, len(t.byKey)) {
		e := t.ends.prev
		t.unlink(e)
		if e.state.refresh(e.part.limits, m.now); e.state.idle() {
			delete(t.byKey, e.key)
		} else {
			t.push(e)
		}
	}
}

// push makes an entry the newest.
func (t *table) push(e *entry) {
	e.prev, e.next = t.ends, t.ends.next
	e.prev.next, e.next.prev = e, e
}

func (t *table) unlink(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}
