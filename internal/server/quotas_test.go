package server

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"weir/api/meter"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/scheduler/quota"
)

// oldUsage is a ledger with usage of before.
type oldUsage struct {
	rows []usage.Row
	err  error
	got  usage.Query
}

func (o *oldUsage) Record(usage.Record) {}

func (o *oldUsage) Report(_ context.Context, q usage.Query) (usage.Report, error) {
	o.got = q
	rows := slices.Clone(o.rows)
	return usage.Report{Rows: slices.DeleteFunc(rows, func(r usage.Row) bool { return r.Tenant != q.Tenant || !q.Alone })}, o.err
}

// A restart is no new budget: what the ledger has of this day and month counts, per
// tenant and per tenant and model; what other tenants or months used does not.
func TestBudgetsOutliveARestart(t *testing.T) {
	now := time.Now()
	today := usage.DayOf(now)
	acme := tenant.New("acme")
	acme.Limits.DailyTokens = 100
	acme.ModelLimits = map[string]quota.Limits{"m": {MonthlyTokens: 60}}
	row := func(tenant, model string, day usage.Day, tokens int64) usage.Row {
		return usage.Row{Tenant: tenant, Model: model, Day: day, Sums: usage.Sums{Input: tokens - 1, Output: 1}}
	}
	ledger := &oldUsage{rows: []usage.Row{
		row("acme", "m", today, 50), row("acme", "other", today, 30), row("free", "m", today, 5000), row("gone", "m", today, 7),
	}}
	local := meter.NewLocal(func(name string, now time.Time) ([]quota.Spending, error) {
		return readSpent(t.Context(), ledger, nil, name, now)
	})
	if _, err := local.Standings(quota.Holder{Tenant: "acme", Limits: &acme.Limits}); err != nil {
		t.Fatal(err)
	}
	if first := ledger.got.From.String(); first[8:] != "01" || ledger.got.To != today {
		t.Errorf("usage was asked for from %s to %s", first, ledger.got.To)
	}
	reserve := func(model string, tokens int64) error {
		who := quota.Holder{Tenant: "acme", Model: model, Limits: &acme.Limits, ModelLimits: acme.LimitsOf(model)}
		_, err := local.Reserve(who, quota.Ask{Input: tokens})
		return err
	}
	if err := reserve("other", 21); err == nil {
		t.Error("80 of 100 tokens of the day are spent, and 21 more are granted")
	}
	if err := reserve("m", 11); err == nil {
		t.Error("50 of the model's 60 tokens of the month are spent, and 11 more are granted")
	}
	if err := reserve("m", 10); err != nil {
		t.Errorf("what is left is refused: %v", err)
	}
	ledger.err = errors.New("the database is away")
	if _, err := readSpent(t.Context(), ledger, nil, "acme", now); err == nil {
		t.Error("an unreadable ledger is an empty one")
	}
}
