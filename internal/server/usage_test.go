package server_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/scheduler/quota"
)

// ownUsage is what GET /v1/usage says.
type ownUsage struct {
	Tenant string
	Limits []struct {
		Limit, Model, Key string
		Value, Used, Left float64
	}
	Rows []struct {
		Tenant, Model, Day, Hour, Key string
		Requests                      int
	}
	Total struct{ Requests int }
}

// A tenant reads what it used and what is left of its budgets with its own key, by hour and by key, as JSON and as CSV; of
// others it sees nothing. The operator sees all.
func TestTenantsReadTheirOwnUsage(t *testing.T) {
	s, key, operator := servertest.Limited(t, func(c *configs.Config) {
		c.Tenants[0].Limits = quota.Limits{DailyTokens: 1000, MonthlyCost: 2_000_000}
		c.Prices = map[string]quota.Price{"weir-default": {Input: 1_000_000, Output: 1_000_000}}
	})
	other, second := servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "ops", Label: "app"}), servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "acme", Label: "second"})
	const chat = "/v1/chat/completions"
	for _, k := range []string{key, key, second, other} {
		if status, _, text := s.As(k, "POST", s.API+chat, servertest.Hello+`,"max_tokens":4,"ignore_eos":true}`); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	read := func(query string) (u ownUsage) {
		t.Helper()
		status, _, text := s.As(key, "GET", s.API+"/v1/usage"+query, "")
		if status != 200 || json.Unmarshal([]byte(text), &u) != nil || u.Tenant != "acme" {
			t.Fatalf("%s: %d %s", query, status, text)
		}
		return u
	}
	u := read("")
	if len(u.Rows) == 0 || u.Total.Requests != 3 || u.Rows[0].Hour != "" || len(u.Limits) != 2 {
		t.Errorf("%+v", u)
	}
	if l := u.Limits[0]; l.Limit != "daily_tokens" || l.Value != 1000 || l.Used < 12 || l.Used+l.Left != 1000 {
		t.Errorf("%+v", l)
	}
	if l := u.Limits[1]; l.Limit != "monthly_cost" || l.Value != 2 || l.Used <= 0 || l.Used > 1 {
		t.Errorf("%+v", l)
	}
	byKey := make(map[string]int) // an hour may end while the test runs
	for _, r := range read("?by=hour,key").Rows {
		if byKey[r.Key] += r.Requests; r.Hour == "" {
			t.Errorf("no hour: %+v", r)
		}
	}
	if len(byKey) != 2 || byKey[second[5:15]] != 1 || byKey[key[5:15]] != 2 {
		t.Errorf("by hour and key: %v", byKey)
	}
	if one := read("?key=" + second[5:15]); one.Total.Requests != 1 {
		t.Errorf("of one key: %+v", one)
	}
	status, header, text := s.As(key, "GET", s.API+"/v1/usage?by=key&format=csv", "")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/csv") || err != nil || len(rows) < 3 || strings.Contains(text, "ops") {
		t.Errorf("%d %v %s", status, err, text)
	}
	for query, want := range map[string]string{"?tenant=ops": "unknown parameter", "?by=year": "day, hour and key", "?format=xml": "csv and json"} {
		if status, _, text := s.As(key, "GET", s.API+"/v1/usage"+query, ""); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if _, _, text := s.As(operator, "GET", s.Admin+"/admin/usage?by=hour,key", ""); strings.Count(text, `"hour"`) < 3 || !strings.Contains(text, `"ops"`) {
		t.Errorf("the operator's report: %s", text)
	}
}
