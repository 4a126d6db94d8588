package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/router"
)

// running starts the watching of a fleet until the test ends.
func running(t *testing.T, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
		f.Close()
	})
}

// until waits for something that the fleet finds out by itself.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to: %s", what)
		}
	}
}

func stateOf(f *Fleet, id string) State {
	for _, s := range f.Status() {
		if s.ID == id {
			return s.State
		}
	}
	return ""
}

// A replica that does not answer its probes is down after two of them; not while pieces of its answers come, and much later where its
// probes wait behind its requests.
func TestProbesOfBusyReplicas(t *testing.T) {
	silent, refused, ready := probeResult{state: Down, slow: true}, probeResult{state: Down}, probeResult{state: Ready}
	after := func(p probeResult, waits, heard bool) int {
		var d probeFailures
		for n := 1; n <= 100; n++ {
			if d.add(p, waits, heard) {
				return n
			}
		}
		return 0
	}
	for _, c := range []struct {
		name         string
		probe        probeResult
		waits, heard bool
		want         int
	}{
		{"ready", ready, false, false, 1}, {"silent", silent, false, false, failedProbes}, {"silent, and answers come", silent, false, true, 0},
		{"refused, and answers came", refused, true, true, failedProbes}, {"silent behind its requests", silent, true, false, busyProbes},
	} {
		if got := after(c.probe, c.waits, c.heard); got != c.want {
			t.Errorf("%s: it counts after %d probes, want %d", c.name, got, c.want)
		}
	}
	d := probeFailures{failures: 1}
	if d.add(ready, false, false); d.failures != 0 {
		t.Error("a good probe leaves doubts")
	}
}

// Probes find out who takes requests: draining and dead replicas get none, and come back.
func TestProbes(t *testing.T) {
	a, b := newFake(t, "a", ""), newFake(t, "b", "")
	f := fleetOf(t, Config{Routing: Routing{ProbeEvery: 10 * time.Millisecond}}, a, b)
	running(t, f)
	only := func(other *fake) {
		t.Helper()
		for range 6 {
			if got, _, err := take(t, f, call("")); err != nil || got.Replica != other.id() {
				t.Errorf("%+v %v", got, err)
			}
		}
	}
	draining, loading := "draining", "loading"
	a.state.Store(&draining)
	until(t, "a drains", func() bool { return stateOf(f, a.id()) == Draining })
	only(b)
	a.state.Store(&loading) // it has been restarted
	until(t, "a is down", func() bool { return stateOf(f, a.id()) == Down })
	only(b)
	a.state.Store(nil)
	until(t, "a is back", func() bool { return stateOf(f, a.id()) == Ready })
	b.Close()
	until(t, "b is down", func() bool { return stateOf(f, b.id()) == Down })
	only(a)
	if l := f.Load(); !l.Ready {
		t.Error("one of two is there, and the fleet is not ready")
	}
}

// Who waits at a replica that dies is answered by another one, without waiting for a timeout.
func TestStalledRequestsMoveWhenTheReplicaIsDown(t *testing.T) {
	a, b := newFake(t, "a", "stall"), newFake(t, "b", "stall")
	f := fleetOf(t, Config{Routing: Routing{ProbeEvery: 10 * time.Millisecond}}, a, b)
	running(t, f)
	answered := make(chan string, 1)
	go func() {
		got, err := f.Send(context.Background(), call(""))
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- got.Replica
	}()
	until(t, "it is asked", func() bool { return a.calls.Load()+b.calls.Load() > 0 })
	dead, alive := a, b
	if b.calls.Load() > 0 {
		dead, alive = b, a
	}
	alive.set("")
	dead.state.Store(new(string))
	if got := <-answered; got != alive.id() {
		t.Errorf("answered by %s", got)
	}
}

// Replicas come and go with a file, with the addresses of a name, and with a new
// configuration; streams that run go on.
func TestReplicasComeAndGo(t *testing.T) {
	a, b := newFake(t, "a", ""), newFake(t, "b", "")
	path := filepath.Join(t.TempDir(), "replicas.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# replicas\n" + a.URL + "/v1 # the first\n\n")
	var mu sync.Mutex
	var changes []string
	f, err := New(Config{Model: "m", Sources: []Source{{File: path}}, Routing: Routing{LookEvery: 5 * time.Millisecond, ProbeEvery: time.Hour}, Changed: func(c Change) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, c.What)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := take(t, f, call("")); err == nil {
		t.Error("there are replicas before anybody looked")
	}
	running(t, f)
	ids := func() (list []string) {
		for _, s := range f.Status() {
			list = append(list, s.ID)
		}
		return list
	}
	until(t, "a is found", func() bool { return slices.Equal(ids(), []string{a.id()}) })
	open, err := f.Send(t.Context(), call(streamed))
	if err != nil {
		t.Fatal(err)
	}
	write(b.URL + "/v1\n")
	until(t, "b is in a's place", func() bool { return slices.Equal(ids(), []string{b.id()}) })
	if text, _, err := readEvents(open.Events); err != nil || said(t, string(text)) != answerOf("a") {
		t.Errorf("the stream of the one that left: %v %s", err, text)
	}
	_ = open.Events.Close()
	write("not a URL\n")
	until(t, "the fault is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(changes, "source failed")
	})
	if got := ids(); !slices.Equal(got, []string{b.id()}) {
		t.Errorf("a file that cannot be read left %v", got)
	}
	if err := f.Reconfigure([]Source{{URL: a.URL + "/v1"}, {DNS: strings.Replace(a.URL, "127.0.0.1", "localhost", 1) + "/v1"}}); err != nil {
		t.Fatal(err)
	}
	port := a.URL[strings.LastIndexByte(a.URL, ':')+1:]
	until(t, "the name's addresses are found", func() bool { return slices.Contains(ids(), "127.0.0.1:"+port) && !slices.Contains(ids(), b.id()) })
	for range 4 {
		if got, text, err := take(t, f, call(streamed)); err != nil || said(t, text) != answerOf("a") {
			t.Errorf("%+v %v", got, err)
		}
	}
	if err := f.Reconfigure(nil); err == nil {
		t.Error("a fleet without sources was accepted")
	}
}

// The load that servers of each kind report is read, from metrics and from headers.
func TestReports(t *testing.T) {
	for kind, text := range map[Kind]string{
		VLLM: "# HELP x\nvllm:num_requests_running{engine=\"0\",model_name=\"a {b\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 1\n" +
			"vllm:num_requests_waiting{engine=\"0\"} 2 1700000000\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n",
		SGLang:      "sglang:num_running_reqs{a=\"b\"} 4\nsglang:num_queue_reqs 2\nsglang:token_usage 0.5\nsglang:other 7\n",
		LlamaServer: "llamacpp:requests_processing 4\nllamacpp:requests_deferred 2\nllamacpp:kv_cache_usage_ratio 0.5\n",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				_, _ = io.WriteString(w, text)
			}
		}))
		f, err := New(Config{Model: "m", Sources: []Source{{URL: s.URL + "/v1", Kind: kind}}, Routing: Routing{ProbeEvery: 10 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { f.Run(ctx) })
		var got Status
		until(t, "its report counts", func() bool { got = f.Status()[0]; return !got.SaidAt.IsZero() && got.Balance.Fresh })
		if got.Said.Running != 4 || got.Said.Waiting != 2 || got.Said.KVShare != 0.5 || got.Said.WaitingTokens != -1 || got.Balance.Load != 6 {
			t.Errorf("%s: %+v", kind, got)
		}
		cancel()
		done.Wait()
		f.Close()
		s.Close()
	}
	for _, text := range []string{"vllm:num_requests_running x\n", "vllm:num_requests_running -1\n", "vllm:num_requests_running{a=\"}\n", "sglang:token_usage NaN\n"} {
		if got, err := parseMetrics(strings.NewReader(text)); err == nil {
			t.Errorf("%q gave %+v", text, got)
		}
	}
}

// What a header says is what was written, and what is no report is none.
func FuzzReport(f *testing.F) {
	f.Add("running=3, waiting=0, waiting-tokens=12, kv=0.25, prefill=100.5, decode=7")
	f.Add("running=-1")
	f.Add("a=b,=,")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := router.ParseReport(text)
		if err != nil {
			return
		}
		if got.String() == "" {
			return
		}
		if again, err := router.ParseReport(got.String()); err != nil || again != got {
			t.Errorf("%q: %+v, and again %+v %v", text, got, again, err)
		}
	})
}

func FuzzReplicasFile(f *testing.F) {
	f.Add([]byte("http://a:1/v1\n# x\nhttps://b/v1 # y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		targets, err := Source{File: "x"}.parseFile(text)
		if err == nil && len(targets) > len(text) {
			t.Error(fmt.Sprint(len(targets), " targets"))
		}
	})
}
