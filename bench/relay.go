package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RelayOptions say how the cost of passing streams on is measured: the same streams of one stand-in server, directly, through weir
// route and through plain proxies, round by round.
type RelayOptions struct {
	Weir    string // the executable
	Nginx   string // executables of plain proxies; empty: left out
	HAProxy string

	Streams int           // at a time
	Tokens  int           // of a stream
	Gap     time.Duration // between two tokens of a stream
	Rounds  int           // of each way
	Singles int           // requests of one token, one after the other, in each round, of all ways in turns: what the way adds to the first token
	Prompt  int           // bytes of a prompt, about
	Log     io.Writer     // what the processes log; nil: nowhere

	Progress func(done, total int)
}

// RelayWay is a way to the server, and what was measured on it.
type RelayWay struct {
	Name   string
	url    string
	key    string // that the way asks for; "": none
	plain  bool   // it knows nothing of what it passes on
	pid    int    // of the process in between; 0: none
	Tokens int
	CPU    time.Duration // of the process in between, during the streams

	Single []float64 // seconds to the first token of requests that were alone, sorted
	First  []float64 // of streams beside others, sorted
	Late   []float64 // seconds by which streams ended later than their gaps say, sorted
}

// PerToken is the processor time that the process in between took for a token.
func (w *RelayWay) PerToken() time.Duration { return w.CPU / time.Duration(max(w.Tokens, 1)) }

// RunRelay measures. The first way goes to the server itself, the next ones through weir.
func RunRelay(ctx context.Context, o RelayOptions) (_ []*RelayWay, err error) {
	r := &relayRun{o: &o, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * o.Streams, DisableCompression: true}}}
	if r.folder, err = os.MkdirTemp("", "weir-relay-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop(), os.RemoveAll(r.folder)) }()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for i := range o.Singles * len(r.ways) {
			if err := r.single(ctx, r.ways[(round+i)%len(r.ways)]); err != nil {
				return nil, err
			}
		}
		for i := range r.ways {
			w := r.ways[(round+i)%len(r.ways)]
			if err := r.measure(ctx, w); err != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
			if o.Progress != nil {
				o.Progress(round*len(r.ways)+i+1, o.Rounds*len(r.ways))
			}
		}
	}
	for _, w := range r.ways {
		slices.Sort(w.Single)
		slices.Sort(w.First)
		slices.Sort(w.Late)
	}
	return r.ways, nil
}

// relayRun is a measurement in progress.
type relayRun struct {
	o         *RelayOptions
	folder    string
	standIn   *fakeServer
	ways      []*RelayWay
	processes []*process
	client    *http.Client
}

func (r *relayRun) start(ctx context.Context) (err error) {
	if r.standIn, err = newStandIn(); err != nil {
		return err
	}
	r.ways = []*RelayWay{{Name: "direct", url: r.standIn.urls[0]}}
	for i, name := range []string{"weir route", "weir route, tenants"} {
		if r.o.Weir == "" {
			break
		}
		w := &RelayWay{Name: name}
		if i > 0 {
			w.key = "relay-0123456789"
		}
		if err := r.startRouter(ctx, w); err != nil {
			return err
		}
	}
	for _, plain := range []plainProxy{{"nginx", r.o.Nginx, nginxConfig, []string{"-c"}}, {"haproxy", r.o.HAProxy, haproxyConfig, []string{"-db", "-f"}}} {
		if plain.path == "" {
			continue
		}
		p, err := plain.start(ctx, r)
		if err != nil {
			return err
		}
		r.add(&RelayWay{Name: plain.name, plain: true}, p)
	}
	return nil
}

// startRouter starts a router before one replica, or where the way has a key, as routers run: with a tenant and its limits, metrics, and
// two replicas to pick from by the prefix of the prompt.
func (r *relayRun) startRouter(ctx context.Context, w *RelayWay) error {
	text := fmt.Sprintf("models:\n  - name: %s\n    replicas:\n      - {url: %q, kind: openai}\n", clusterModel, r.standIn.urls[0]+"/v1")
	admin := "off"
	if w.key != "" {
		text += fmt.Sprintf("      - {url: %q, kind: openai}\nserver:\n  api_key: [%q]\ntenants:\n  - name: \"*\"\n    limits:\n"+
			"      {tokens_per_minute: 1000000000, requests_per_minute: 1000000, daily_cost: \"1000000\"}\n", r.standIn.urls[1]+"/v1", w.key)
		text += fmt.Sprintf("prices:\n  - {model: %s, input: \"0.10\", output: \"0.60\"}\n", clusterModel)
		admin = "127.0.0.1:0"
	}
	file := filepath.Join(r.folder, fmt.Sprintf("route-%d.yml", len(r.ways)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	p, err := startWeir(ctx, r.o.Weir, r.o.Log, nil, []string{"route", "--config", file, "--port", "0", "--admin-address", admin})
	if err == nil {
		r.add(w, p)
	}
	return err
}

func (r *relayRun) add(w *RelayWay, p *process) {
	w.url, w.pid = p.url, p.cmd.Process.Pid
	r.processes = append(r.processes, p)
	r.ways = append(r.ways, w)
}

func (r *relayRun) stop() error {
	r.client.CloseIdleConnections()
	var errs []error
	for _, p := range r.processes {
		errs = append(errs, p.kill())
	}
	if r.standIn != nil {
		errs = append(errs, r.standIn.close())
	}
	return errors.Join(errs...)
}

// single sends a request alone.
func (r *relayRun) single(ctx context.Context, w *RelayWay) error {
	first, _, err := r.stream(ctx, w, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	w.Single = append(w.Single, first.Seconds())
	return nil
}

// measure runs one round of a way's streams beside each other.
func (r *relayRun) measure(ctx context.Context, w *RelayWay) error {
	before, err := processorTime(w.pid)
	if err != nil {
		return err
	}
	firsts, lates, errs := make([]float64, r.o.Streams), make([]float64, r.o.Streams), make([]error, r.o.Streams)
	var all sync.WaitGroup
	for i := range r.o.Streams {
		all.Go(func() {
			first, took, err := r.stream(ctx, w, r.o.Tokens)
			firsts[i], lates[i], errs[i] = first.Seconds(), (took - time.Duration(r.o.Tokens-1)*r.o.Gap).Seconds(), err
		})
	}
	all.Wait()
	after, err := processorTime(w.pid)
	if err = errors.Join(errors.Join(errs...), err); err != nil {
		return err
	}
	w.CPU += after - before
	w.Tokens += r.o.Streams * r.o.Tokens
	w.First, w.Late = append(w.First, firsts...), append(w.Late, lates...)
	return nil
}

// promptWords are repeated in prompts.
const promptWords = ` the quick brown fox jumps over the lazy dog and says \"hello\" to it,`

// eventStart begins each event of the stand-in.
const eventStart = "data: {"

// stream takes one stream of so many tokens to its end.
func (r *relayRun) stream(ctx context.Context, w *RelayWay, tokens int) (first, took time.Duration, err error) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%d %d%s"}]}`, clusterModel, tokens,
		tokens, r.o.Gap.Microseconds(), strings.Repeat(promptWords, r.o.Prompt/len(promptWords)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+EndpointChat, strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if w.key != "" {
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
	began := time.Now()
	res, err := r.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500)) // shown as far as it came
		return 0, 0, fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	buf, events, tail := make([]byte, 16<<10), 0, []byte(nil)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 && events == 0 {
			first = time.Since(began)
		}
		from := len(tail) - min(len(tail), len(eventStart)-1) // of one that is cut between two reads
		tail = append(tail, buf[:n]...)
		events += bytes.Count(tail[from:], []byte(eventStart))
		tail = tail[max(0, len(tail)-len(fakeServerEnd)):]
		switch {
		case errors.Is(err, io.EOF) && events == tokens && string(tail) == fakeServerEnd:
			return first, time.Since(began), nil
		case errors.Is(err, io.EOF):
			return 0, 0, fmt.Errorf("a stream of %d events instead of %d, whose end is %q", events, tokens, tail)
		case err != nil:
			return 0, 0, err
		}
	}
}

// processorTime is what a process has taken so far, user and system, of all its threads that live. A pid of 0 has taken none.
func processorTime(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(paths) == 0 {
		return 0, fmt.Errorf("the processor time of process %d is not to be read: relay needs Linux's /proc/PID/task/*/schedstat", pid)
	}
	sum := time.Duration(0)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		word, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q", path, text)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// WriteRelay writes the ways as a table.
func WriteRelay(out io.Writer, ways []*RelayWay) error {
	columns := []column{{title: "way"}}
	for _, title := range []string{"CPU per token", "against the best plain proxy", "first token alone p50", "added", "p99", "first token beside others p50", "late p50"} {
		columns = append(columns, column{title: title, align: right})
	}
	plain := time.Duration(0)
	for _, w := range ways {
		if w.plain && (plain == 0 || w.PerToken() < plain) {
			plain = w.PerToken()
		}
	}
	micros := func(seconds float64) string { return fmt.Sprintf("%.0f µs", 1e6*seconds) }
	var rows [][]string
	for _, w := range ways {
		row := []string{w.Name, "", "", micros(Percentile(w.Single, 50)), micros(Percentile(w.Single, 50) - Percentile(ways[0].Single, 50)),
			micros(Percentile(w.Single, 99)), micros(Percentile(w.First, 50)), micros(Percentile(w.Late, 50))}
		if w.pid != 0 {
			row[1] = fmt.Sprintf("%.2f µs", float64(w.PerToken())/1e3)
		}
		if w.pid != 0 && plain > 0 {
			row[2] = fmt.Sprintf("%.2f×", float64(w.PerToken())/float64(plain))
		}
		rows = append(rows, row)
	}
	return markdown(out, columns, rows)
}
