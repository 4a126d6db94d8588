package ratelimit

import (
	"context"
	"time"

	"weir/internal/redis"
)

// settleAll settles what has ended, many in one round trip, until the meter closes.
func (m *Meter) settleAll() {
	var batch []ended
	for {
		if len(batch) == 0 {
			select {
			case e := <-m.ended:
				batch = append(batch, e)
			case <-m.stop:
				m.settleRest()
				return
			}
		}
		for more := true; more && len(batch) < endedBatch; {
			select {
			case e := <-m.ended:
				batch = append(batch, e)
			default:
				more = false
			}
		}
		if batch = m.settle(batch); len(batch) == 0 {
			continue
		}
		select {
		case <-time.After(m.o.Retry):
		case <-m.stop:
			m.stats.lost.Add(int64(len(m.settle(batch))))
			m.settleRest()
			return
		}
	}
}

// settleRest settles what is left when the meter closes, once.
func (m *Meter) settleRest() {
	for {
		var batch []ended
		for more := true; more && len(batch) < endedBatch; {
			select {
			case e := <-m.ended:
				batch = append(batch, e)
			default:
				more = false
			}
		}
		if len(batch) == 0 {
			return
		}
		m.stats.lost.Add(int64(len(m.settle(batch))))
	}
}

// settle sends a batch and returns what is to be sent again. What is older than the
// lease was given back already.
func (m *Meter) settle(batch []ended) (again []ended) {
	ctx, cancel := context.WithTimeout(context.Background(), m.terms.Load().Timeout)
	defer cancel()
	client := m.client.Load()
	commands := make([]redis.Command, len(batch))
	for i, e := range batch {
		commands[i] = m.script.Command(m.keys(e.grant.Holder.Tenant), settleArgs(m.command("settle", &e.grant.Holder), &e))
	}
	answers, failed := client.Pipeline(ctx, commands)
	for i := range batch {
		err := failed
		if err == nil {
			_, err = readReply(answers[i], nil)
		}
		if err == nil {
			m.saw(nil)
			continue
		}
		if redis.IsUnknownScript(err) { // Redis was restarted
			_ = m.script.Load(ctx, client) // if not, the next round tells
		} else {
			m.saw(err)
		}
		if time.Now().Before(batch[i].until) {
			again = append(again, batch[i])
		} else {
			m.stats.lost.Add(1)
		}
	}
	return again
}

// renewAll keeps the leases of what runs, until the meter closes.
func (m *Meter) renewAll() {
	for {
		select {
		case <-m.stop:
			return
		case <-m.changed:
		case <-time.After(max(m.terms.Load().Lease/3, time.Millisecond)):
		}
		m.renew()
	}
}

func (m *Meter) renew() {
	m.mu.Lock()
	byTenant := map[string][]any{}
	for id, r := range m.open {
		if byTenant[r.tenant] == nil {
			byTenant[r.tenant] = []any{"renew", m.lease(), 0}
		}
		most := r.pace.most(r.generated.Load(), time.Now(), m.terms.Load().Lease/3)
		byTenant[r.tenant] = append(byTenant[r.tenant], id, most, int64(r.price.Cost(r.input, 0, most)))
	}
	m.mu.Unlock()
	for tenant, args := range byTenant {
		if !m.reachable() {
			return
		}
		_, _ = m.run(tenant, args) // noted by run; the next tick tries again
	}
}
