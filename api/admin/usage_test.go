package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api/usage"
)

// fakeLedger answers with what it was asked.
type fakeLedger struct{ err error }

func (fakeLedger) Record(usage.Record) {}

func (l fakeLedger) Report(_ context.Context, q usage.Query) (usage.Report, error) {
	sums := usage.Sums{Requests: 2, Input: 10, Output: 5, Cost: 1_500_000}
	return usage.Report{From: q.From, To: q.To, Rows: []usage.Row{{Tenant: q.Tenant, Model: "m", Day: q.To, Sums: sums}}, Total: sums}, l.err
}

func TestUsageReport(t *testing.T) {
	for _, tc := range []struct {
		query  string
		err    error
		status int
		want   string
	}{
		{"?from=2026-11-01&to=2026-11-22&tenant=acme", nil, 200, `"from":"2026-11-01"`},
		{"?from=2026-11-01&to=2026-11-22&tenant=acme", nil, 200, `"tenant":"acme"`},
		{"?from=2026-11-01&to=2026-11-22", nil, 200, `"cost":1.5`},
		{"?from=2026-11-02&to=2026-11-01", nil, 400, "no span"},
		{"?from=2020-11-02&to=2026-11-01", nil, 400, "no span"},
		{"?from=yesterday", nil, 400, `from is \"yesterday\"`},
		{"?month=11", nil, 400, "unknown parameter"},
		{"?to=2026-11-01&to=2026-11-02", nil, 400, "2 times"},
		{"?by=hour&from=2026-06-01&to=2026-11-01", nil, 400, "1 to 92 days"}, {"?by=week", nil, 400, "it takes day, hour and key"},
		{"?format=xml", nil, 400, "csv and json"}, {"?format=csv&tenant=a", nil, 200, ",,a,m,,2,10,0,5,0,1.500000"},
		{"", errors.New("disk full"), 503, "disk full"},
	} {
		w := httptest.NewRecorder()
		New(Config{Usage: fakeLedger{tc.err}}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/admin/usage"+tc.query, nil))
		if w.Code != tc.status || !strings.Contains(strings.ReplaceAll(w.Body.String(), ": ", ":"), tc.want) {
			t.Errorf("%q: %d %s, want %d with %s", tc.query, w.Code, w.Body, tc.status, tc.want)
		}
	}
}
