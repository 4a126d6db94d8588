package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// A router whose replicas are gone is ready as a process, and not deeply so: its region can be taken out.
func TestReadinessWithoutReplicas(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	a := servertest.Start(t, nil)
	r := servertest.Start(t, func(c *configs.Config) {
		routedTo("round_robin", a.API)(c)
		trees := configs.NewClassic("flowers", "")
		trees.Replicas = []fleet.Source{{URL: a.API, Kind: fleet.Weir, Model: defaultmodel.IrisName}}
		for i := range c.Models {
			c.Models[i].Routing.ProbeEvery = 100 * time.Millisecond
		}
		trees.Routing.ProbeEvery = 100 * time.Millisecond
		c.Classic = append(c.Classic, trees)
	})
	endpoints := []string{
		r.API + "/ready?deep", r.Admin + "/ready?deep", r.API + "/ready?model=front", r.Admin + "/ready?model=gpt-4o",
		r.API + "/v2/models/front/ready", r.API + "/ready?model=flowers", r.API + "/v2/models/flowers/ready",
	}
	expect := func(status int) {
		t.Helper()
		for _, url := range endpoints {
			got, text := r.Get(url)
			for end := time.Now().Add(servertest.Patience); got != status && time.Now().Before(end); got, text = r.Get(url) {
				time.Sleep(10 * time.Millisecond) // until a probe has found it
			}
			if got != status {
				t.Errorf("%s: %d %s; wanted %d", url, got, text, status)
			}
		}
	}
	expect(http.StatusOK)
	if err := a.End(); err != nil {
		t.Fatal(err)
	}
	expect(http.StatusServiceUnavailable)
	for _, url := range []string{r.API, r.Admin} {
		if status, text := r.Get(url + "/ready"); status != http.StatusOK {
			t.Errorf("/ready: %d %s", status, text)
		}
		// A replica that ends is draining first; a later probe finds that it is down.
		why := func() (string, bool) {
			_, text := r.Get(url + "/ready?deep")
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
