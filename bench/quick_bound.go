package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/unit"
)

// Bound is what keeps a server from more users, and what helps.
type Bound struct {
	Kind string // one of the bounds' names
	Text string // the figures that say so
	Help string
}

// The names of bounds.
const (
	BoundNone      = "none was met"
	BoundRefusals  = "limits of the queue"
	BoundFailures  = "failed requests"
	BoundNetwork   = "network"
	BoundKV        = "KV memory"
	BoundSequences = "sequences at a time"
	BoundPrompts   = "prompt compute"
	BoundBandwidth = "memory bandwidth of decoding"
	BoundDecoding  = "compute of decoding"
)

var boundHelp = map[string]string{
	BoundNone:      "a longer --duration or higher --max-users look further",
	BoundRefusals:  "its queue or the limits of the key are full: raise those, or add servers",
	BoundFailures:  "look into the server's log",
	BoundNetwork:   "measure nearer to the server",
	BoundKV:        "more KV memory, a smaller type of it (--kv-cache-dtype q8_0) or shorter contexts help",
	BoundSequences: "let the server run more at a time (--max-num-seqs of weir and vLLM, --parallel of llama-server)",
	BoundPrompts:   "shorter prompts, shared beginnings (a prefix cache) and more compute help",
	BoundBandwidth: "a smaller weight type, drafts (speculative decoding) and faster memory help",
	BoundDecoding:  "more compute, a smaller model or fewer tokens of context help",
}

// QuickSeen is what the server's metrics said during a step, on average where nothing else is said.
type QuickSeen struct {
	Running, Waiting float64
	KV               float64 // most of the KV memory that was in use, 0 to 1
	Preemptions      float64 // in the step
}

// The names of what is looked at, as vLLM, weir and llama-server have them.
var (
	seenRunning     = []string{"vllm:num_requests_running", "llamacpp:requests_processing"}
	seenWaiting     = []string{"vllm:num_requests_waiting", "llamacpp:requests_deferred"}
	seenKV          = []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"}
	seenPreemptions = []string{"vllm:num_preemptions_total"}
)

// watch looks at the server's metrics until ctx ends; nil: there are none that see the load.
func (q *Quick) watch(ctx context.Context) *QuickSeen {
	const every = 300 * time.Millisecond
	pages := q.MetricsURLs
	if q.page != "" {
		pages = []string{q.page}
	}
	looks := make(map[string][]map[string]float64)
	for len(pages) > 0 && sleepUntil(ctx, time.Now().Add(every)) {
		for _, url := range pages {
			if page := q.look(ctx, url); page != nil {
				looks[url] = append(looks[url], page)
			}
		}
	}
	for _, url := range pages {
		if seen := seenIn(looks[url]); seen != nil {
			q.page = url
			return seen
		}
	}
	return nil
}

// look reads a page of metrics; nil: there is none.
func (q *Quick) look(ctx context.Context, url string) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := q.Target.newRequest(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil
	}
	if url != q.MetricsURLs[0] {
		req.Header.Del("Authorization") // what listens there may be another's
	}
	resp, err := q.Target.client.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	page, err := readSeries(io.LimitReader(resp.Body, maxAnswerBytes), slices.Concat(seenRunning, seenWaiting, seenKV, seenPreemptions))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return page
}

// seenIn sums up what pages said; nil: they are not of a server with this load.
func seenIn(pages []map[string]float64) *QuickSeen {
	var s QuickSeen
	value := func(page map[string]float64, names []string) float64 {
		sum := 0.0
		for _, name := range names {
			sum += page[name]
		}
		return sum
	}
	for _, page := range pages {
		s.Running += value(page, seenRunning) / float64(len(pages))
		s.Waiting += value(page, seenWaiting) / float64(len(pages))
		s.KV = max(s.KV, value(page, seenKV))
	}
	if s.Running+s.Waiting == 0 {
		return nil
	}
	s.Preemptions = value(pages[len(pages)-1], seenPreemptions) - value(pages[0], seenPreemptions)
	return &s
}

// bound says what the first step that missed the goals ran into. bad is its users; 0: there is none.
func (q *Quick) bound(r *QuickReport, bad int) Bound {
	b := Bound{Kind: BoundNone, Text: fmt.Sprintf("%d users were the most that were tried", r.Users)}
	if i := slices.IndexFunc(r.Steps, func(s QuickStep) bool { return s.Users == bad }); bad > 0 && i >= 0 {
		s, one := &r.Steps[i], &r.Steps[0]
		for _, reason := range []func(s, one *QuickStep) (Bound, bool){q.refusals, q.network, q.memory, q.sequences, q.prompts, q.decoding} {
			if why, found := reason(s, one); found {
				b = why
				break
			}
		}
	}
	b.Help = boundHelp[b.Kind]
	return b
}

// refusals: requests had no answer.
func (q *Quick) refusals(s, _ *QuickStep) (Bound, bool) {
	failed, refused := 0, 0
	for kind, n := range s.Failures {
		if failed += n; kind == "http_429" || kind == "http_503" {
			refused += n
		}
	}
	if failed <= misses(s.Judged) {
		return Bound{}, false
	}
	b := Bound{Kind: BoundFailures, Text: fmt.Sprintf("with %s %d of %d requests failed (%s): %.200s", usersText(s.Users), failed, s.Judged, kindsOf(s.Failures), s.Failure)}
	if 2*refused >= failed {
		b.Kind = BoundRefusals
	}
	return b, true
}

func kindsOf(failures map[string]int) string {
	return strings.Join(slices.Sorted(maps.Keys(failures)), ", ")
}

// network: the way to the server takes most of the time that the goal leaves.
func (q *Quick) network(s, _ *QuickStep) (Bound, bool) {
	if s.TTFT <= q.TTFT.Seconds() || q.trip < q.TTFT.Seconds()/2 {
		return Bound{}, false
	}
	return Bound{Kind: BoundNetwork, Text: fmt.Sprintf("a request that computes nothing takes %s", unit.Seconds(q.trip))}, true
}

// memory: sequences wait for KV memory, or are preempted for want of it.
func (q *Quick) memory(s, _ *QuickStep) (Bound, bool) {
	if s.Seen == nil || s.Seen.Preemptions == 0 && (s.Seen.KV < 0.9 || s.Seen.Waiting < 0.5) {
		return Bound{}, false
	}
	return Bound{Kind: BoundKV, Text: fmt.Sprintf("with %s %.0f %% of it is in use, %.1f requests wait and %.0f were preempted",
		usersText(s.Users), 100*s.Seen.KV, s.Seen.Waiting, s.Seen.Preemptions)}, true
}

// sequences: the server runs fewer requests at a time than there are users, and has compute left.
func (q *Quick) sequences(s, one *QuickStep) (Bound, bool) {
	b := Bound{Kind: BoundSequences}
	switch {
	case s.Users == 1 || s.TTFT <= q.TTFT.Seconds() || s.Answers >= s.Users:
		return b, false
	case s.Seen != nil && s.Seen.Waiting >= max(0.5, float64(s.Users)/8) && s.Seen.Running < float64(s.Users)-0.5:
		b.Text = fmt.Sprintf("with %s %.0f run and %.1f wait, as the server's metrics say", usersText(s.Users), s.Seen.Running, s.Seen.Waiting)
		return b, true
	case s.Seen != nil || q.promptShare(s, one) > 0.6:
		return b, false
	}
	b.Text = fmt.Sprintf("of %s %d get an answer at a time, while a first token takes %s", usersText(s.Users), s.Answers, unit.Seconds(s.TTFT))
	return b, true
}

// promptShare is how much of the server's time the prompts of a step take, where one alone takes what it took a single user.
func (q *Quick) promptShare(s, one *QuickStep) float64 {
	return s.Input / float64(q.Input) * max(0, one.Median-q.trip)
}

// prompts: first tokens wait for the prompts of others, or these hold up the answers.
func (q *Quick) prompts(s, one *QuickStep) (Bound, bool) {
	b := Bound{Kind: BoundPrompts}
	share := min(100, 100*q.promptShare(s, one))
	alone := fmt.Sprintf("the first token of a prompt of %d tokens takes %s where nothing else runs", q.Input, unit.Seconds(one.Median))
	switch slow := s.PerUser < q.PerUser; {
	case s.TTFT > q.TTFT.Seconds() && s.Users == 1:
		b.Text = alone
	case s.TTFT > q.TTFT.Seconds() && (!slow || share > 50):
		b.Text = fmt.Sprintf("with %s a first token takes %s; %s, and their prompts are %.0f %% of the server's time", usersText(s.Users), unit.Seconds(s.TTFT), alone, share)
	case slow && s.Gap > 0 && s.Gap < 0.6/q.PerUser && share > 20:
		b.Text = fmt.Sprintf("with %s prompts hold up the answers of others: half of the tokens come within %s, and still an answer has %s tokens per second",
			usersText(s.Users), unit.Seconds(s.Gap), short(s.PerUser))
	default:
		return b, false
	}
	return b, true
}

// decoding: the steps of the server take too long. A step's time is a part that is the same for any number of sequences, which is mostly
// reading the weights, and a part for each.
func (q *Quick) decoding(s, one *QuickStep) (Bound, bool) {
	if s.Users == 1 {
		return Bound{Kind: BoundBandwidth, Text: fmt.Sprintf("one answer alone has %s tokens per second", short(s.PerUser))}, true
	}
	first, now := 1/max(one.PerUser, 1e-3), 1/max(s.PerUser, 1e-3)
	each := max(0, now-first) / float64(s.Users-one.Users)
	b := Bound{Kind: BoundDecoding}
	if fixed := first - each*float64(one.Users); fixed > each*float64(s.Users) {
		b.Kind = BoundBandwidth
	}
	b.Text = fmt.Sprintf("a token of one user alone takes %s, each further user adds %s; %s get %s tokens per second each, %s together",
		unit.Seconds(first), unit.Seconds(each), usersText(s.Users), short(s.PerUser), short(s.Output))
	return b, true
}
