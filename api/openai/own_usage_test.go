package openai

import (
	"context"
	"errors"
	"strings"
	"testing"

	ledger "weir/api/usage"
)

// lostLedger is a ledger whose database has gone.
type lostLedger struct{}

func (lostLedger) Record(ledger.Record) {}
func (lostLedger) Report(context.Context, ledger.Query) (ledger.Report, error) {
	return ledger.Report{}, errors.New("usage of 2 tenants is not written yet: failed to connect to `user=weir database=weir`: 10.0.0.7:5432")
}

// A tenant who asks for its usage learns nothing of the database, nor of how many others there are.
func TestUsageFaultsNameNoDatabase(t *testing.T) {
	c := DefaultConfig()
	c.Usage = lostLedger{}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	res, body := r.do("GET", routeUsage, "", "")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "usage_unavailable") ||
		strings.Contains(body, "10.0.0.7") || strings.Contains(body, "tenants") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
