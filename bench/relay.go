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
	Singles int           // requests of one token, one after the other, in each round: what the way adds to the first token
	Log     io.Writer     // what the processes log; nil: nowhere

	Progress func(done, total int)
}

// RelayWay is a way to the server, and what was measured on it.
type RelayWay struct {
	Name   string
	url    string
	pid    int // of the process in between; 0: none
	Tokens int
	CPU    time.Duration // of the process in between, during the streams

	Single []float64 // seconds to the first token of requests that were alone, sorted
	First  []float64 // of streams beside others, sorted
	Late   []float64 // seconds by which streams ended later than their gaps say, sorted
}

// PerToken is the processor time that the process in between took for a token.
func (w *RelayWay) PerToken() time.Duration { return w.CPU / time.Duration(max(w.Tokens, 1)) }

// RunRelay measures. The first way goes to the server itself, the second is weir's.
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
	standIn   *standIn
	ways      []*RelayWay
	processes []*process
	client    *http.Client
}

func (r *relayRun) start(ctx context.Context) (err error) {
	if r.standIn, err = newStandIn(); err != nil {
		return err
	}
	r.ways = []*RelayWay{{Name: "direct", url: r.standIn.url}}
	if r.o.Weir != "" {
		file := filepath.Join(r.folder, "route.yml")
		text := fmt.Sprintf("models:\n  - name: %s\n    replicas:\n      - {url: %q, kind: openai}\n", clusterModel, r.standIn.url+"/v1")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		p, err := startWeir(ctx, r.o.Weir, r.o.Log, nil, []string{"route", "--config", file, "--port", "0", "--admin-address", "off"})
		if err != nil {
			return err
		}
		r.add("weir route", p)
	}
	for _, plain := range []plainProxy{{"nginx", r.o.Nginx, nginxConfig, []string{"-c"}}, {"haproxy", r.o.HAProxy, haproxyConfig, []string{"-db", "-f"}}} {
		if plain.path == "" {
			continue
		}
		p, err := plain.start(ctx, r)
		if err != nil {
			return err
		}
		r.add(plain.name, p)
	}
	return nil
}

func (r *relayRun) add(name string, p *process) {
	r.processes = append(r.processes, p)
	r.ways = append(r.ways, &RelayWay{Name: name, url: p.url, pid: p.cmd.Process.Pid})
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

// measure runs one round of a way: requests alone, and then streams beside each other.
func (r *relayRun) measure(ctx context.Context, w *RelayWay) error {
	for range r.o.Singles {
		first, _, err := r.stream(ctx, w, 1)
		if err != nil {
			return err
		}
		w.Single = append(w.Single, first.Seconds())
	}
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

// eventStart begins each event of the stand-in.
const eventStart = "data: {"

// stream takes one stream of so many tokens to its end.
func (r *relayRun) stream(ctx context.Context, w *RelayWay, tokens int) (first, took time.Duration, err error) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%d %d"}]}`, clusterModel, tokens,
		tokens, r.o.Gap.Microseconds())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+EndpointChat, strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
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
		tail = tail[max(0, len(tail)-len(standInEnd)):]
		switch {
		case errors.Is(err, io.EOF) && events == tokens && string(tail) == standInEnd:
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
		if w.pid != 0 && w.Name != "weir route" && (plain == 0 || w.PerToken() < plain) {
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
