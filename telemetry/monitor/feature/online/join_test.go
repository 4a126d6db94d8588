package online

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/store/storetest"
	"weir/internal/tensor"
	"weir/router"
	"weir/telemetry/monitor/feature"
)

// wire stands between weir and Redis; it forwards, stalls, or is gone.
type wire struct {
	listener net.Listener
	target   string
	stall    atomic.Bool // bytes are taken in and not forwarded
	delay    atomic.Int64
	mu       sync.Mutex
	open     map[net.Conn]bool
	gone     bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &wire{listener: l, target: target, open: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(p.die)
	return p
}

func (p *wire) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target) //nolint:noctx // a test's own
		if err != nil || !p.keep(c, up) {
			c.Close()
			continue
		}
		go p.forward(c, up)
		go p.forward(up, c)
	}
}

func (p *wire) keep(list ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range list {
		p.open[c] = true
	}
	return !p.gone
}

func (p *wire) forward(from, to net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		for p.stall.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(p.delay.Load()))
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			from.Close()
			to.Close()
			return
		}
	}
}

// die closes the listener and all connections: from now on the address refuses connections.
func (p *wire) die() {
	p.stall.Store(false)
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for c := range p.open {
		c.Close()
	}
}

const joinManifest = `
version: 1
project: %s
timeout: 5ms
cache: {entries: 100, fresh: 0s, stale: 0s}
entities: [{name: user, keys: [{input: user_id, type: integer}]}]
features:
  - {name: amount, source: request, type: number, required: true}
  - {name: age, source: store, entity: user, view: profile, type: integer, default: 30}
  - {name: spent, source: store, entity: user, view: orders, type: number, max_staleness: 1h}
`

// sum is a model that adds its features up, with NaN as 0.
type sum struct{}

func (sum) Describe() *router.Description {
	return &router.Description{Name: "sum", Inputs: []tensor.Spec{{Name: "input", Type: tensor.Float64, Shape: []int64{-1, 3}}}}
}

func (sum) Predict(_ context.Context, p *router.Prediction) error {
	total := 0.0
	for _, x := range tensor.Values[float64](&p.Inputs[0]) {
		if !math.IsNaN(x) {
			total += x
		}
	}
	p.Outputs = []tensor.Tensor{tensor.Of("output", tensor.Float64, []int64{1}, []float64{total})}
	return nil
}

// joinRig is a model with features in a real Redis behind a proxy.
type joinRig struct {
	*testing.T
	proxy     *wire
	direct    *Store
	online    *feature.Online
	predictor *feature.Predictor
	project   string
}

func newJoinRig(t *testing.T) *joinRig {
	t.Helper()
	address, err := url.Parse(reference.Redis.Get(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &joinRig{T: t, direct: testFeatures(t), project: "weir-test-" + rand.Text(), proxy: newWire(t, address.Host)}
	for view, fields := range map[string][2]string{"profile": {"age", "41"}, "orders": {"spent", "12.5"}} {
		table := Table{r.project, "user", view, fields[:1], time.Minute}
		if err := r.direct.Put(t.Context(), table, []Row{{[]string{"7"}, fields[1:]}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	address.Host = r.proxy.listener.Addr().String()
	through, err := Open(address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := through.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := feature.ParseManifest(fmt.Appendf(nil, joinManifest, r.project))
	if err != nil {
		t.Fatal(err)
	}
	r.online = feature.NewOnline(through, feature.OnlineOptions{})
	if r.predictor, err = feature.NewPredictor(sum{}, m, r.online, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// predict scores one row with a deadline, and returns the score, the notes and the time.
func (r *joinRig) predict(deadline time.Duration) (score float64, notes string, took time.Duration) {
	r.Helper()
	p := router.Prediction{DoneBy: time.Now().Add(deadline), Inputs: []tensor.Tensor{
		tensor.Of("amount", tensor.Float64, []int64{1}, []float64{1}), tensor.Of("user_id", tensor.Int64, []int64{1}, []int64{7}),
	}}
	began := time.Now()
	if err := r.predictor.Predict(r.Context(), &p); err != nil {
		r.Fatal(err)
	}
	took = time.Since(began)
	for _, n := range p.Notes {
		notes += n.Name + "=" + n.Value
	}
	return tensor.Values[float64](&p.Outputs[0])[0], notes, took
}

// warm predicts until the connection is made and the store answers in time: on a busy
// machine the first read may not.
func (r *joinRig) warm() {
	r.Helper()
	for until := time.Now().Add(20 * time.Second); ; {
		score, notes, _ := r.predict(time.Second)
		if notes == "" && score == 54.5 {
			return
		}
		if time.Now().After(until) {
			r.Fatalf("the store did not answer in time: %v, %q", score, notes)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *joinRig) counted(outcome string) (n int64) {
	r.predictor.Join().Counts(func(_, o string, count int64) {
		if o == outcome {
			n += count
		}
	})
	return n
}

// Redis dies under load: every request is answered within its deadline, with defaults
// that the answer names, and the store's answers are back soon after Redis is.
func TestDeadRedis(t *testing.T) {
	r := newJoinRig(t)
	r.warm()
	r.proxy.die()
	var times []time.Duration
	for range 200 {
		score, notes, took := r.predict(50 * time.Millisecond)
		if score != 31 || !strings.Contains(notes, "features-defaulted=age:") || !strings.Contains(notes, "spent:") {
			t.Fatalf("%v, %q", score, notes)
		}
		times = append(times, took)
	}
	slices.Sort(times)
	if times[100] > 50*time.Millisecond {
		t.Errorf("half of the requests took %v", times[100])
	}
	s := r.online.Stats()
	if s.State != "open" || s.Refused < 150 || r.counted("unavailable") < 300 {
		t.Errorf("%+v; %d values unavailable", s, r.counted("unavailable"))
	}
}

// Redis stalls, as behind a network that drops everything: some requests wait their 5 ms,
// and soon none does, until Redis is back.
func TestSlowRedis(t *testing.T) {
	reference.Slow(t)
	r := newJoinRig(t)
	r.warm()
	r.proxy.stall.Store(true)
	predict := func() {
		t.Helper()
		if score, notes, _ := r.predict(50 * time.Millisecond); score != 31 || !strings.Contains(notes, "age:") {
			t.Fatalf("%v, %q", score, notes)
		}
	}
	storetest.WaitUntil(t, func() bool { predict(); return r.online.Stats().State == "open" })
	opened := r.online.Stats()
	const more = 200
	for range more {
		predict()
	}
	s := r.online.Stats()
	if refused := s.Refused - opened.Refused; s.Timeouts < 5 || refused < more/2 || r.counted("timeout") == 0 || r.counted("unavailable") == 0 {
		t.Errorf("%d of %d requests did not wait for a store that stalls; %+v", refused, more, s)
	}
	r.proxy.stall.Store(false)
	r.warm()
	if s := r.online.Stats(); s.State != "closed" {
		t.Errorf("Redis is back, and the breaker %s", s.State)
	}
}

// A store that answers just too late costs no more than one that does not answer, and its
// late answer is never taken for the next request's.
func TestLateAnswersAreNotMixedUp(t *testing.T) {
	r := newJoinRig(t)
	if err := r.direct.Put(t.Context(), Table{r.project, "user", "profile", []string{"age"}, time.Minute},
		[]Row{{[]string{"8"}, []string{"1000"}}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	r.warm()
	for i := range 60 {
		r.proxy.delay.Store(int64(i%7) * int64(time.Millisecond)) // in each direction
		p := router.Prediction{Inputs: []tensor.Tensor{
			tensor.Of("amount", tensor.Float64, []int64{1}, []float64{0}), tensor.Of("user_id", tensor.Int64, []int64{1}, []int64{7 + int64(i%2)}),
		}}
		if err := r.predictor.Predict(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		score := tensor.Values[float64](&p.Outputs[0])[0]
		if mine := []float64{53.5, 1000}[i%2]; score != mine && score != 30 {
			t.Fatalf("user %d got %v", 7+i%2, score)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Values of the wrong type in Redis become defaults, and are counted.
func TestWrongTypesBecomeDefaults(t *testing.T) {
	r := newJoinRig(t)
	r.warm()
	key := plainKey(r.project, "user", []string{"7"})
	if _, err := r.direct.client.Do(t.Context(), "HSET", key, "age", "forty-one"); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(20 * time.Second); ; {
		score, notes, _ := r.predict(time.Second)
		if score == 43.5 && notes == "features-defaulted=age:wrong_type" && r.counted("wrong_type") > 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%v, %q", score, notes)
		}
	}
}

// A required feature fails its request.
func TestDeadRedisAndRequiredFeature(t *testing.T) {
	r := newJoinRig(t)
	m, err := feature.ParseManifest([]byte(strings.Replace(fmt.Sprintf(joinManifest, r.project), "default: 30", "required: true", 1)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := feature.NewPredictor(sum{}, m, r.online, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy.die()
	for range 20 {
		err := p.Predict(t.Context(), &router.Prediction{Inputs: []tensor.Tensor{
			tensor.Of("amount", tensor.Float64, []int64{1}, []float64{1}), tensor.Of("user_id", tensor.Int64, []int64{1}, []int64{7}),
		}})
		if !errors.Is(err, inference.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}
