package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/scheduler/quota"
)

// Spent is what a tenant has spent of the running day and month: on one model, or on all
// of them where Model is "".
type Spent struct {
	Model      string
	Day, Month quota.Spent
}

// unknownTenant is the script's answer where Redis knows nothing of a tenant that has
// budgets: it is new, or Redis began anew and has lost what was spent.
const unknownTenant = -2

var errForgetful = errors.New("store: Redis forgets what it was told")

// decide makes one decision. Where Redis knows nothing of the tenant, it is told first what
// the tenant has spent, by one caller for all.
func (m *Meter) decide(tenant string, args []any) (reply, error) {
	r, err := m.run(tenant, args)
	if err != nil || r[0] != unknownTenant {
		return r, err
	}
	m.seeding.Lock()
	defer m.seeding.Unlock()
	if r, err = m.run(tenant, args); err != nil || r[0] != unknownTenant {
		return r, err
	}
	if err = m.seed(tenant); err != nil {
		return nil, err
	}
	if r, err = m.run(tenant, args); err == nil && r[0] == unknownTenant {
		err = errForgetful
	}
	return r, err
}

// seed tells Redis what a tenant has spent, unless it knows of the tenant by now.
func (m *Meter) seed(tenant string) error {
	now := time.Now().UTC()
	list, err := m.o.Spent(tenant, now)
	if err != nil {
		return fmt.Errorf("what tenant %q has spent: %w", tenant, err)
	}
	day, month := quota.PeriodsOf(now)
	args := []any{"seed", m.lease(), 0, day, month}
	for _, s := range list {
		args = append(args, s.Model, s.Day.Tokens, int64(s.Day.Money), s.Month.Tokens, int64(s.Month.Money))
	}
	_, err = m.run(tenant, args)
	return err
}

// run makes one decision.
func (m *Meter) run(tenant string, args []any) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.terms.Load().Timeout)
	defer cancel()
	r, err := readReply(m.script.Run(ctx, m.client.Load(), m.keys(tenant), args...))
	m.saw(err)
	return r, err
}
