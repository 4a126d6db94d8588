package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/scheduler/quota"
)

// untold is the script's answer where Redis has not counted a budget: it is new, or Redis
// was restarted and has lost what was spent.
const untold = -2

var errForgetful = errors.New("store: Redis forgets what it was told")

// decide makes one decision. Where Redis has not counted one of the holder's budgets, it is told first what was spent,
// by one caller for all.
func (m *Meter) decide(who *quota.Holder, args []any) (reply, error) {
	r, err := m.run(who.Tenant, args)
	if err != nil || r[0] != untold {
		return r, err
	}
	m.seeding.Lock()
	defer m.seeding.Unlock()
	if r, err = m.run(who.Tenant, args); err != nil || r[0] != untold {
		return r, err
	}
	if err = m.seed(who); err != nil {
		return nil, err
	}
	if r, err = m.run(who.Tenant, args); err == nil && r[0] == untold {
		err = errForgetful
	}
	return r, err
}

// seed tells Redis what was spent of a holder's budgets, except for those that it counts by now.
func (m *Meter) seed(who *quota.Holder) error {
	now := time.Now().UTC()
	list, err := m.o.Spent(who.Tenant, now)
	if err != nil {
		return fmt.Errorf("what tenant %q has spent: %w", who.Tenant, err)
	}
	day, month := quota.PeriodsOf(now)
	args, parts := []any{"seed", m.lease(), 0, day, month}, who.Parts()
	for i, s := range quota.SeedsOf(parts, list) {
		args = append(appendPart(args, &parts[i]), s.Day.Tokens, int64(s.Day.Money), s.Month.Tokens, int64(s.Month.Money))
	}
	_, err = m.run(who.Tenant, args)
	return err
}

// run makes one decision.
func (m *Meter) run(tenant string, args []any) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.terms.Load().Timeout)
	defer cancel()
	r, err := readReply(m.script.Run(ctx, m.client.Load(), m.keys(tenant), args))
	m.saw(err)
	return r, err
}
