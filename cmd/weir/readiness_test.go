package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// A router whose replicas are gone is ready as a process, and not deeply so: its region can be taken out.
func TestReadinessWithoutReplicas(t *testing.T) {
	t.Parallel() // most of it is waiting
	a := start(t, nil)
	r := start(t, func(c *configs.Config) {
		routedTo("round_robin", a.api)(c)
		trees := configs.NewClassic("flowers", "")
		trees.Replicas = []fleet.Source{{URL: a.api, Kind: fleet.Weir, Model: defaultmodel.IrisName}}
		c.Classic = append(c.Classic, trees)
	})
	endpoints := []string{
		r.api + "/ready?deep", r.metrics + "/ready?deep", r.api + "/ready?model=front", r.metrics + "/ready?model=gpt-4o",
		r.api + "/v2/models/front/ready", r.api + "/ready?model=flowers", r.api + "/v2/models/flowers/ready",
	}
	expect := func(status int) {
		t.Helper()
		for _, url := range endpoints {
			got, text := r.get(url)
			for end := time.Now().Add(servertest.Patience); got != status && time.Now().Before(end); got, text = r.get(url) {
				time.Sleep(10 * time.Millisecond) // until a probe has found it
			}
			if got != status {
				t.Errorf("%s: %d %s; wanted %d", url, got, text, status)
			}
		}
	}
	expect(http.StatusOK)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	expect(http.StatusServiceUnavailable)
	for _, url := range []string{r.api, r.metrics} {
		if status, text := r.get(url + "/ready"); status != http.StatusOK {
			t.Errorf("/ready: %d %s", status, text)
		}
		// A replica that ends is draining first; a later probe finds that it is down.
		why := func() (string, bool) {
			_, text := r.get(url + "/ready?deep")
			both := strings.Contains(text, "cannot answer: flowers, front") || strings.Contains(text, "cannot answer: front, flowers")
			return text, both && strings.Count(text, "no replica takes requests: of 1, 1 down") == 2
		}
		text, told := why()
		for end := time.Now().Add(servertest.Patience); !told && time.Now().Before(end); text, told = why() {
			time.Sleep(10 * time.Millisecond) // until a probe has found it
		}
		if !told {
			t.Errorf("%s does not say why: %s", url, text)
		}
	}
}
