package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/tensor"
	"weir/router"
	"weir/router/balance"
)

// residenceFaults are what replicas do in the property test: right answers, refusals, broken streams, broken connections.
var residenceFaults = []string{"", "", "", "429", "500", "503", "401", "rst", "half header", "garbage", "cut mid-stream", "end mid-stream", "error event",
	"role, then cut", "garbage mid-stream", "finish, then cut"}

// watched is a replica that looks at every byte that comes to it: data of a tenant names the regions where it may be.
type watched struct {
	*fake
	region  atomic.Pointer[string]
	strayed atomic.Int64
	got     atomic.Int64 // requests of tenants with a residency
}

func newWatched(t *testing.T, name, region, fault string) *watched {
	t.Helper()
	w := &watched{fake: &fake{name: name}}
	w.set(fault)
	w.region.Store(&region)
	w.Server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen := string(body) + r.URL.String() + fmt.Sprint(r.Header)
		if _, list, marked := strings.Cut(seen, "stays-in"); marked {
			w.got.Add(1)
			list, _, _ = strings.Cut(list, "!")
			if here := *w.region.Load(); here == "" || !strings.Contains(list, "_"+here+"_") {
				w.strayed.Add(1)
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/infer") && fault == "" {
			_, _ = io.WriteString(to, `{"outputs":[{"name":"y","datatype":"FP32","shape":[2,1],"data":[1,2]}]}`)
			return
		}
		w.serve(to, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// mark is what data of a tenant says of where it may be.
func mark(regions []string) string {
	if len(regions) == 0 {
		return "anywhere"
	}
	return "stays-in_" + strings.Join(regions, "_") + "_!"
}

// TestNoByteLeavesItsRegions: random fleets, policies, faults, labels that change, and tenants with and without a residency, at the
// same time: nothing of a request comes to a replica outside its regions, by a first pick, a retry, a stream that goes on, or a prediction.
// Where no replica is left in them, the error says so.
func TestNoByteLeavesItsRegions(t *testing.T) {
	t.Parallel()
	fleets := 60
	if testing.Short() {
		fleets = 12
	}
	names := []string{"eu", "us", "ap", ""}
	var answered, displaced, kept atomic.Int64
	for seed := range fleets {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // a seed
			var replicas []*watched
			for i := range 1 + random.IntN(6) {
				replicas = append(replicas, newWatched(t, fmt.Sprint("r", i), names[random.IntN(len(names))], residenceFaults[random.IntN(len(residenceFaults))]))
			}
			kind := []Kind{Weir, VLLM}[random.IntN(2)]
			sources := func() (list []Source) {
				for _, w := range replicas {
					list = append(list, Source{URL: w.URL + "/v1", Kind: kind, Region: *w.region.Load()})
				}
				return list
			}
			f := fleetOf(t, Config{Sources: sources(), Balance: balance.Config{Policy: policies[random.IntN(len(policies))], Seed: uint64(seed)}, //nolint:gosec // a seed
				Routing: Routing{RetryShare: 1}})
			for round := range 3 {
				if round > 0 { // labels change; what was sent under the old ones has ended
					for _, w := range replicas {
						w.region.Store(&names[random.IntN(len(names))])
					}
					if err := f.Reconfigure(sources()); err != nil {
						t.Fatal(err)
					}
				}
				var all sync.WaitGroup
				for n := range 24 {
					var regions []string
					for _, i := range random.Perm(3)[:random.IntN(3)] {
						regions = append(regions, names[i])
					}
					ask := random.IntN(4)
					all.Go(func() {
						switch err := residing(t, f, n, ask, regions); {
						case err == nil:
							answered.Add(1)
						case errors.Is(err, router.ErrResidency):
							displaced.Add(1)
							if len(regions) == 0 || !errors.Is(err, router.ErrNoReplica) {
								t.Errorf("%v of a request that may go to %q", err, regions)
							}
						}
					})
				}
				all.Wait()
			}
			for _, w := range replicas {
				kept.Add(w.got.Load())
				if n := w.strayed.Load(); n > 0 {
					t.Errorf("%d requests came to %s, which is in none of their regions", n, w.name)
				}
			}
		})
	}
	if answered.Load() == 0 || displaced.Load() == 0 || kept.Load() == 0 {
		t.Errorf("%d answered, %d displaced, %d of tenants with a residency", answered.Load(), displaced.Load(), kept.Load())
	}
	t.Logf("%d answered, %d refused for their residency, %d requests of tenants with one at replicas", answered.Load(), displaced.Load(), kept.Load())
}

// residing sends one request of a tenant whose data stays in regions.
func residing(t *testing.T, f *Fleet, n, ask int, regions []string) error {
	t.Helper()
	if ask == 0 {
		q := &router.Prediction{ID: mark(regions), Residency: regions, Inputs: []tensor.Tensor{tensor.Of("x", tensor.Float32, []int64{2, 2}, []float32{1, 2, 3, 4})}, Wanted: []string{"y"}}
		return NewPredictor(f).Predict(t.Context(), q)
	}
	fields := fmt.Sprintf(`"user":%q,"messages":[{"role":"user","content":"%d %s"}]`, mark(regions), n%5, mark(regions))
	if ask > 1 {
		fields += "," + streamed
	}
	c := call(fields)
	c.Prompt = []router.Part{{Kind: "messages", Text: c.Body}}
	c.Residency, c.Resume, c.Session = regions, ask == 3, fmt.Sprint(n%3)
	c.Head.RequestID = mark(regions)
	_, _, err := take(t, f, c)
	return err
}

// TestResidencyIsExplained: the attempts of a request name the replicas where it must not go, also where none is left.
func TestResidencyIsExplained(t *testing.T) {
	eu, us, nowhere := newWatched(t, "eu", "eu", ""), newWatched(t, "us", "us", ""), newWatched(t, "nowhere", "", "")
	f := fleetOf(t, Config{Sources: []Source{
		{URL: eu.URL + "/v1", Region: "eu"}, {URL: us.URL + "/v1", Region: "us"}, {URL: nowhere.URL + "/v1"},
	}})
	ask := func(regions ...string) (excluded map[string]string, told []*router.Attempt, err error) {
		c := call("")
		c.Residency, c.Tried = regions, func(a *router.Attempt) { told = append(told, a) }
		_, _, err = take(t, f, c)
		excluded = map[string]string{}
		for _, a := range told {
			for _, one := range a.Considered {
				if one.Excluded != "" {
					excluded[one.Replica] = one.Excluded
				}
			}
		}
		return excluded, told, err
	}
	excluded, told, err := ask("eu")
	if err != nil || len(excluded) != 2 || excluded[us.id()] != "residency: its region is us" || excluded[nowhere.id()] != "residency: its region is not known" || told[0].Replica != eu.id() {
		t.Errorf("%v %v", excluded, err)
	}
	excluded, told, err = ask("ap")
	if !errors.Is(err, router.ErrResidency) || len(excluded) != 3 || len(told) != 1 || told[0].Replica != "" || !strings.Contains(told[0].Failed, "of 3 replicas, 3 are elsewhere") {
		t.Errorf("%v %+v %v", excluded, told, err)
	}
	if excluded, _, err := ask(); err != nil || len(excluded) > 0 {
		t.Errorf("without a residency: %v %v", excluded, err)
	}
	if c := f.Counts(); c.Displaced != 1 || c.None != 1 {
		t.Errorf("%+v", c)
	}
}
