package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// A router and its replica on one store, as those of one user are by default: what goes through the router is counted once, for the
// router's caller, and what asks the replica itself is counted there.
func TestARouterAndItsReplicaCountOnce(t *testing.T) {
	replica, key, operator := servertest.Limited(t, func(c *configs.Config) { c.Tenants[0].Limits.RequestsPerMinute = 0 })
	own := servertest.NewKey(t, replica.StoreURL, keychain.Request{Tenant: "ops", Label: "router"})
	router := servertest.Start(t, func(c *configs.Config) {
		routedTo("round_robin", replica.API)(c)
		c.Store.URL = replica.StoreURL
		c.Models[0].Replicas[0].APIKey = fleet.Key(own)
	})
	const chat, rest = "/v1/chat/completions", `,"max_tokens":4,"ignore_eos":true}`
	for _, url := range []string{router.API, router.API, replica.API} {
		if status, _, text := replica.As(key, http.MethodPost, url+chat, servertest.Hello+rest); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, _, text := replica.As(key, http.MethodPost, router.API+chat, `{"stream":true,`+servertest.Hello[1:]+rest); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	requests := func(tenant string) (n int, outputs int64) {
		_, _, text := replica.As(operator, http.MethodGet, replica.Admin+"/admin/usage?tenant="+tenant, "")
		var u struct {
			Total struct {
				Requests int   `json:"requests"`
				Output   int64 `json:"output_tokens"`
			} `json:"total"`
		}
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			t.Fatal(err, text)
		}
		return u.Total.Requests, u.Total.Output
	}
	if err := router.End(); err != nil { // it has written all that it counted
		t.Fatal(err)
	}
	if n, outputs := requests("acme"); n != 4 || outputs != 16 {
		t.Errorf("the caller's tenant has %d requests and %d tokens, not 4 and 16", n, outputs)
	}
	if n, outputs := requests("ops"); n != 0 || outputs != 0 {
		t.Errorf("the router's own key has %d requests and %d tokens, which are its callers'", n, outputs)
	}
	// Another code than the store's own says nothing.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, replica.API+chat, strings.NewReader(servertest.Hello+rest))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + key, "X-Request-Id": "x", "X-Weir-Counted": "AAAA"} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if text := servertest.Body(t, res); res.StatusCode != http.StatusOK {
		t.Fatal(res.StatusCode, text)
	}
	if n, _ := requests("acme"); n != 5 {
		t.Errorf("a request with a code that anybody can write is not counted: %d", n)
	}
}
