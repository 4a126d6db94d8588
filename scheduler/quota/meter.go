package quota

import "time"

// Config bounds a meter.
type Config struct {
	MaxStates int           // tenants, and tenants' models, that are remembered; default 65536
	Lease     time.Duration // a grant that is not topped up or renewed for so long is ended, see lapse; 0 is never
}

// Meter counts what tenants use against their limits. It belongs to one goroutine
// at a time. Time must not go back; an earlier time is taken for the latest.
type Meter struct {
	cfg    Config
	now    time.Time
	states table
	grants ledger
}

// NewMeter returns a meter that has seen nothing.
func NewMeter(c Config) *Meter {
	if c.MaxStates <= 0 {
		c.MaxStates = 1 << 16
	}
	return &Meter{cfg: c, states: newTable(c.MaxStates), grants: newLedger()}
}

// Reserve takes what a request asks for from the limits of its tenant and of the
// tenant's model: from all or from none. The expected output is shortened to what
// can be had at all: to a full bucket, to the rest of a budget. So no request is
// refused because its estimate is above a limit. Errors are *Refusal, or ErrFull.
func (m *Meter) Reserve(now time.Time, who Holder, ask Ask) (Grant, error) {
	ask = ask.clamped()
	g := Grant{Holder: who, Ask: ask}
	if who.Unlimited() {
		return g, nil
	}
	m.advance(now)
	o := m.grants.draft()
	if err := m.find(&who, o); err != nil {
		return Grant{}, err
	}
	of := o.accounts()
	n := of.need(ask)
	if r := of.refusal(&n); r != nil {
		return Grant{}, r
	}
	for _, a := range of.all() {
		a.state.reserve(a.limits, &n)
	}
	o.at, o.charged = m.now.UnixMilli(), 0
	o.input, o.output, o.most, o.money, o.price = n.input, n.output, n.most, n.money, ask.Price
	g.ID, g.Ask.Output, g.Money, g.Remaining = m.grants.keep(o), n.output, n.money, of.remaining()
	m.lease(o)
	return g, nil
}

// TopUp reports that a request has generated so many output tokens, and reserves
// more, up to cover of them in all. Strict limits give what they have left, and refuse
// where that does not pay for what is generated: then nothing changes, and the newest
// tokens must not be delivered. Other limits give any amount. Either way the grant is
// changed to what is reserved now. The error is a *Refusal, for the whole of what the
// request may use; or ErrFull.
func (m *Meter) TopUp(now time.Time, g *Grant, generated, cover int64) error {
	m.advance(now)
	o, err := m.opened(g)
	if err != nil {
		return err
	}
	if o == nil { // without limits
		g.Ask.Output = max(g.Ask.Output, cover)
		g.Money = max(g.Money, g.Ask.Price.Cost(g.Ask.Input, 0, cover))
		return nil
	}
	of := o.accounts()
	of.refresh(m.now)
	m.lease(o)
	r := newRaise(o, generated, cover)
	if refusal := of.fitRaise(&r); refusal != nil {
		return refusal
	}
	for _, a := range of.all() {
		a.state.hold(r.tokens, r.money)
	}
	o.output += r.tokens
	o.money += r.money
	o.generated(&of, generated)
	g.Ask.Output, g.Money = o.output, o.money
	return nil
}

// opened is a grant that is open; one whose lease has ended is opened again, so that
// strict limits hold for what still runs. Nil is one without limits, or settled.
func (m *Meter) opened(g *Grant) (*openGrant, error) {
	o := m.grants.find(g.ID)
	if o != nil && !o.lapsed || g.ID == 0 || m.cfg.Lease == 0 {
		return o, nil
	}
	if o != nil {
		of := o.accounts()
		of.refresh(m.now)
		of.spend(-o.input-o.output, -o.money)
		m.grants.drop(o)
	}
	o = m.grants.draft()
	if err := m.find(&g.Holder, o); err != nil {
		return nil, err
	}
	o.at, o.input, o.output, o.charged = m.now.UnixMilli(), g.Ask.Input, 0, 0
	o.most, o.money, o.price = g.Ask.Most, 0, g.Ask.Price
	of := o.accounts()
	for _, a := range of.all() {
		a.state.Streams++
		a.state.HeldTokens += o.input
	}
	g.ID = m.grants.keep(o)
	return o, nil
}

// Settle ends a grant: what was used is counted, and what else was reserved is
// free. It reports whether the grant was there to end; a second call finds none
// and changes nothing.
func (m *Meter) Settle(now time.Time, g *Grant, use Use) bool {
	m.advance(now)
	o := m.grants.find(g.ID)
	if o == nil {
		return false
	}
	use = use.clamped()
	cost := o.price.Cost(use.Input, use.Cached, use.Output)
	of := o.accounts()
	of.refresh(m.now)
	if o.lapsed {
		of.spend(use.Input+use.Output-o.input-o.output, cost-o.money)
		m.grants.drop(o)
		return true
	}
	for _, a := range of.all() {
		a.state.release(o)
		a.state.settle(a.limits, o, use, cost)
	}
	m.grants.drop(o)
	return true
}

// Renew keeps grants from being given back.
func (m *Meter) Renew(now time.Time, ids ...uint64) {
	m.advance(now)
	for _, id := range ids {
		if o := m.grants.find(id); o != nil && !o.lapsed {
			m.lease(o)
		}
	}
}

// Remaining is what a holder has left.
func (m *Meter) Remaining(now time.Time, who Holder) Remaining {
	m.advance(now)
	var fresh [numParts]State
	of := m.look(&who, &fresh)
	return of.remaining()
}

// look copies a holder's states as they are now.
func (m *Meter) look(who *Holder, fresh *[numParts]State) (of accounts) {
	for i, p := range who.parts() {
		if p.limits.Unlimited() {
			continue
		}
		if e := m.states.byKey[p.in(who.Tenant)]; e != nil {
			fresh[i] = e.state
		}
		of.add(account{p, &fresh[i]})
	}
	of.refresh(m.now)
	return of
}

// Stats counts what a meter holds.
type Stats struct {
	States int // remembered
	Grants int // open
}

// Stats may be called between any two calls.
func (m *Meter) Stats() Stats { return Stats{len(m.states.byKey), len(m.grants.byID)} }

// advance moves the meter's time on and ends the grants whose lease is over.
func (m *Meter) advance(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
	for {
		o := m.grants.due(m.now.UnixMilli())
		if o == nil {
			return
		}
		m.lapse(o)
	}
}

// lapsedFor is how long a grant whose lease has ended may still tell what it used.
const lapsedFor = 24 * time.Hour

// lapse ends a grant that was not renewed. What it held counts as spent: it is not known what it has used of it.
func (m *Meter) lapse(o *openGrant) {
	if o.lapsed {
		m.grants.drop(o)
		return
	}
	of := o.accounts()
	of.refresh(m.now)
	for _, a := range of.all() {
		a.state.release(o)
	}
	of.spend(o.input+o.output, o.money)
	o.lapsed = true
	m.grants.renew(o, m.now.Add(lapsedFor).UnixMilli())
}

func (m *Meter) lease(o *openGrant) {
	if m.cfg.Lease > 0 {
		m.grants.renew(o, m.now.Add(m.cfg.Lease).UnixMilli())
	}
}
