package quota

// openGrant is a grant that was not settled yet.
type openGrant struct {
	id      uint64
	entries [numParts]*entry
	n       int // of entries

	at      int64 // when it was given, in Unix milliseconds
	input   int64
	output  int64 // reserved
	most    int64 // output that the request may have
	charged int64 // of output, generated already and in the levels
	money   Money // reserved
	price   Price

	lapsed bool // its lease has ended: all that it held counts as spent, until it tells what it used

	expires    int64 // end of the lease
	prev, next *openGrant
}

func (o *openGrant) accounts() accounts {
	var of accounts
	for _, e := range o.entries[:o.n] {
		of.add(account{e.part, &e.state})
	}
	return of
}

// generated charges what was generated of the reserved output.
func (o *openGrant) generated(of *accounts, tokens int64) {
	more := min(tokens, o.output) - o.charged
	if more <= 0 {
		return
	}
	for _, a := range of.all() {
		a.state.generated(a.limits, more)
	}
	o.charged += more
}

// spend counts what was used against the budgets of the grant's accounts.
func (a *accounts) spend(tokens int64, money Money) {
	for _, x := range a.all() {
		x.state.spend(x.limits, tokens, money)
	}
}

// ledger holds the open grants: by id, and those with a lease in the order in
// which leases end, which is the order of renewals. Lapsed ones have a list of their own.
type ledger struct {
	byID  map[uint64]*openGrant
	lists [2]*openGrant // ends of the lists: next ends first
	spare *openGrant    // the list of those to use again, by next
	last  uint64
}

func newLedger() ledger {
	l := ledger{byID: map[uint64]*openGrant{}}
	for i := range l.lists {
		ends := &openGrant{}
		ends.prev, ends.next = ends, ends
		l.lists[i] = ends
	}
	return l
}

// draft is a grant to fill; until it is kept, the next call gives the same one.
func (l *ledger) draft() *openGrant {
	if l.spare == nil {
		l.spare = &openGrant{}
	}
	return l.spare
}

// keep gives the draft a name.
func (l *ledger) keep(o *openGrant) uint64 {
	l.spare, o.next = o.next, nil
	l.last++
	o.id = l.last
	l.byID[o.id] = o
	return o.id
}

func (l *ledger) find(id uint64) *openGrant { return l.byID[id] }

func (l *ledger) drop(o *openGrant) {
	l.unlink(o)
	delete(l.byID, o.id)
	*o = openGrant{next: l.spare}
	l.spare = o
}

// due is a grant whose lease has ended at a time, nil if there is none.
func (l *ledger) due(now int64) *openGrant {
	for _, ends := range l.lists {
		if o := ends.next; o != ends && now >= o.expires {
			return o
		}
	}
	return nil
}

func (l *ledger) renew(o *openGrant, until int64) {
	l.unlink(o)
	ends := l.lists[0]
	if o.lapsed {
		ends = l.lists[1]
	}
	o.expires = until
	o.prev, o.next = ends.prev, ends
	o.prev.next, o.next.prev = o, o
}

func (l *ledger) unlink(o *openGrant) {
	if o.prev != nil {
		o.prev.next, o.next.prev = o.next, o.prev
		o.prev, o.next = nil, nil
	}
}
