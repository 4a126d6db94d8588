package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// NeighboursOptions say how one tenant's first tokens are measured while another tenant sends
// what costs a server most.
type NeighboursOptions struct {
	Weir    string   // the executable
	Model   string   // GGUF file; empty is the built-in model
	Flags   []string // further flags of weir serve
	Attacks []string // names of Attacks; nil: all

	Requests int           // of the measured tenant beside each attack
	Pause    time.Duration // between two of them
	Words    int           // of the attacks' prompts
	Prefix   int           // words that every request of the measured tenant begins with
	Log      io.Writer     // what the server logs; nil: nowhere

	SameServer bool // one server for all attacks, of which each finds what those before it left; else each has a new one

	Progress func(attack string, done, total int)
	Row      func(*Neighbour) error // called with each row once it is measured; may be nil
}

// Neighbour is how one tenant fared beside an attack of another.
type Neighbour struct {
	Attack string // "" is none
	About  string
	First  []float64      // milliseconds to the first token, sorted; of requests that were answered
	Failed map[string]int // requests of the measured tenant by kind of failure
	Gaps   []float64      // milliseconds between two tokens of the measured tenant's answers, sorted
	Sent   AttackCounts   // what came of the attack's requests
	Cores  Cores          // processor time meanwhile
	Steps  Steps          // of the server beside the attack
	Peak   Memory         // while the attack goes on
	Rest   Memory         // after the pause behind it
}

// Memory is what a server holds, in bytes; 0 where that is not known.
type Memory struct {
	Resident int64 // by the system
	Heap     int64 // of these, in use on Go's heap; the rest is above all the model's weights, the KV cache as far as it was written, and what Go keeps for reuse
}

// Cores is processor time in seconds per second.
type Cores struct{ Server, Attack float64 }

// P50 and Worst are milliseconds to the first token; 0 where nothing was answered.
func (n *Neighbour) P50() float64 { return median(n.First) }

// Worst is the longest.
func (n *Neighbour) Worst() float64 { return greatest(n.First) }

// Steps is the longest step and the median, in milliseconds.
type Steps struct{ P50, Worst float64 }

// OfStep is the worst first token in longest steps; 0 where either is not known.
func (n *Neighbour) OfStep() float64 {
	if n.Steps.Worst == 0 {
		return 0
	}
	return n.Worst() / n.Steps.Worst
}

// The keys of the two tenants; a key that a flag names is a tenant of its own.
const (
	victimKey   = "sk-neighbour-measured"
	attackerKey = "sk-neighbour-attacking"
)

// neighboursRun is a measurement in progress.
type neighboursRun struct {
	o      *NeighboursOptions
	server *process
	target *Target // as the measured tenant
	client *http.Client
	asked  int // requests of the measured tenant so far
}

// RunNeighbours measures the tenant alone and beside each attack.
func RunNeighbours(ctx context.Context, o NeighboursOptions) (rows []*Neighbour, err error) {
	attacks, err := attacksNamed(o.Attacks)
	if err != nil {
		return nil, err
	}
	attacks = append([]Attack{{}}, attacks...) // alone first
	groups := slices.Collect(slices.Chunk(attacks, 1))
	if o.SameServer {
		groups = [][]Attack{attacks}
	}
	for _, group := range groups {
		err := onNewServer(ctx, &o, func(r *neighboursRun) error {
			for _, a := range group {
				if o.Progress != nil {
					o.Progress(a.Name, len(rows), len(attacks))
				}
				n, err := r.beside(ctx, &a)
				if err != nil {
					return fmt.Errorf("%s: %w", a.Name, err)
				}
				rows = append(rows, n)
				if o.Row != nil {
					if err := o.Row(n); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// warmRequests are the measured tenant's first requests on a new server: they compute the prefix and find nothing warm, and are not measured.
const warmRequests = 5

// onNewServer starts a server, warms it, and stops it after do.
func onNewServer(ctx context.Context, o *NeighboursOptions, do func(*neighboursRun) error) (err error) {
	folder, err := os.MkdirTemp("", "weir-neighbours-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	args := []string{"serve"}
	if o.Model != "" {
		args = append(args, o.Model)
	}
	args = append(args, "--port", "0", "--admin-address", "off", "--api-metrics", "--served-model-name", clusterModel, "--api-key", victimKey, "--api-key", attackerKey,
		"--store", "sqlite:"+filepath.Join(folder, "weir.db"), "--file-dir", filepath.Join(folder, "files"))
	r := &neighboursRun{o: o, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	defer r.client.CloseIdleConnections()
	if r.server, err = startWeir(ctx, o.Weir, o.Log, nil, append(args, o.Flags...)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.kill()) }()
	r.target = &Target{BaseURL: r.server.url, Endpoint: EndpointChat, Served: clusterModel, APIKey: victimKey, Timeout: time.Minute}
	if err := r.target.Check(); err != nil {
		return err
	}
	defer r.target.Close()
	for range warmRequests {
		r.ask(ctx)
	}
	return do(r)
}

// settleTime is what a server gets after an attack, whose requests are cancelled, before the next one.
const settleTime = time.Second

// beside measures the tenant while an attack goes on.
func (r *neighboursRun) beside(ctx context.Context, a *Attack) (*Neighbour, error) {
	n := &Neighbour{Attack: a.Name, About: a.About, Failed: map[string]int{}}
	attack, err := r.startAttack(ctx, a)
	if err != nil {
		return nil, err
	}
	if a.Clients > 0 {
		sleep(ctx, settleTime) // until the attack is under way
	}
	before, err := r.page(ctx)
	if err != nil {
		return nil, errors.Join(err, attack.stop(n))
	}
	began := time.Now()
	r.measure(ctx, n)
	took := time.Since(began)
	after, err := r.page(ctx)
	if err := errors.Join(err, attack.stop(n)); err != nil {
		return nil, err
	}
	n.Steps, n.Peak, n.Cores.Server = stepsBetween(before, after), r.memory(after), (after.cpu-before.cpu)/took.Seconds()
	sleep(ctx, settleTime)
	if after, err = r.page(ctx); err != nil {
		return nil, err
	}
	n.Rest = r.memory(after)
	return n, ctx.Err()
}

// ask sends a request of the measured tenant.
func (r *neighboursRun) ask(ctx context.Context) Outcome {
	r.asked++
	prompt := fmt.Sprintf("Say the number %d.", r.asked)
	if r.o.Prefix > 0 {
		prompt = longText(r.o.Prefix, 0, 0) + " " + prompt
	}
	return r.target.exchange(ctx, &Request{Prompt: prompt, OutputTokens: 8}, time.Now(), false)
}

// measure sends the measured tenant's requests, one after the other.
func (r *neighboursRun) measure(ctx context.Context, n *Neighbour) {
	for range r.o.Requests {
		out := r.ask(ctx)
		if out.ok() {
			n.First = append(n.First, 1000*out.TTFT)
			for _, gap := range out.ITLs {
				n.Gaps = append(n.Gaps, 1000*gap)
			}
		} else {
			n.Failed[out.Kind]++
		}
		if !sleep(ctx, r.o.Pause) {
			break
		}
	}
	slices.Sort(n.First)
	slices.Sort(n.Gaps)
}
