package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Request is one request of a workload.
type Request struct {
	Prompt       string
	Messages     json.RawMessage // of a chat, as a file gave them; nil sends Prompt as the user's
	Words        int             // of the prompt; stands for its tokens where the server does not count
	OutputTokens int             // asked for
	At           float64         // seconds from the start; used only with ServeOptions.SelfTimed
}

// Workload says what to send. Lengths are in tokens as far as Scale goes, else
// in words.
type Workload struct {
	Name  string // one of WorkloadNames
	Path  string // of the file; for those that read one
	Count int    // requests
	Seed  uint64 // the same seed makes the same requests
	Scale Scale

	Random struct {
		PrefixLen  int     // words that all prompts begin with
		InputLen   int     // without the prefix
		OutputLen  int     //
		RangeRatio float64 // lengths are even in len·(1±ratio); 0 to below 1
	}
	Prefix struct { // prefix_repetition
		PrefixLen, SuffixLen, Prefixes, OutputLen int
	}
	Trace struct {
		Shape     string  // one of TraceShapes
		Shrink    float64 // factor on all lengths, 1 leaves them; a CPU wants less
		MaxInput  int     // longer prompts are cut to it; 0 is no limit
		MaxOutput int
	}
	FileOutputLen int // output tokens of requests from a file; 0 takes the file's own

	notes []string
}

// Notes say what a reader of the figures must know about the requests of the
// workload.
func (w *Workload) Notes() []string { return w.notes }

// workload makes or reads the requests of one kind.
type workload struct {
	name  string
	file  bool // reads Path
	timed bool // its requests have arrival times
	build func(w *Workload) ([]Request, error)
}

var workloads = []workload{
	{"random", false, false, (*Workload).random},
	{"prefix_repetition", false, false, (*Workload).prefixes},
	{"trace", false, true, (*Workload).trace},
	{"timed_trace", true, true, (*Workload).timedTrace},
	{"sharegpt", true, false, (*Workload).shareGPT},
	{"custom", true, false, (*Workload).custom},
}

// WorkloadNames lists the kinds of workload.
func WorkloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// Bounds of what one run holds in memory.
const (
	maxRequests = 1 << 20
	maxLen      = 1 << 20 // tokens of a prompt or an output
)

// kind finds the workload's row.
func (w *Workload) kind() (workload, error) {
	i := slices.IndexFunc(workloads, func(k workload) bool { return k.name == w.Name })
	if i < 0 {
		return workload{}, fmt.Errorf("dataset %q is not known; known are %s", w.Name, strings.Join(WorkloadNames(), ", "))
	}
	return workloads[i], nil
}

// Timed reports whether the requests carry arrival times of their own.
func (w *Workload) Timed() bool {
	k, err := w.kind()
	return err == nil && k.timed
}

// Generated reports whether prompts are made up, so that a model's own end of
// the text means nothing.
func (w *Workload) Generated() bool {
	k, err := w.kind()
	return err == nil && (!k.file || k.timed)
}

// Check refuses what can be refused before anything is made or read.
func (w *Workload) Check() error {
	k, err := w.kind()
	switch {
	case err != nil:
		return err
	case k.file && w.Path == "":
		return fmt.Errorf("dataset %s needs a file: give --dataset-path", w.Name)
	case !k.file && w.Path != "":
		return fmt.Errorf("dataset %s is generated and reads no file; leave --dataset-path out, or choose one that does", w.Name)
	case w.Count < 1 || w.Count > maxRequests:
		return fmt.Errorf("%d prompts, must be 1 to %d", w.Count, maxRequests)
	}
	return nil
}

// Requests makes or reads them.
func (w *Workload) Requests() ([]Request, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	k, err := w.kind()
	if err != nil {
		return nil, err
	}
	requests, err := k.build(w)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", w.Name, err)
	}
	return requests, nil
}

// Warmup is a request as long as like, with a text of its own: a warm-up must
// not leave a measured prompt in the server's prefix cache.
func (w *Workload) Warmup(i int, like *Request) Request {
	words := max(1, like.Words)
	return Request{Prompt: text(w.rand(streamWarmup, i), words), Words: words, OutputTokens: like.OutputTokens}
}

// stream keeps the random numbers of different uses apart, so that a change of
// one leaves the others.
type stream uint64

const (
	streamPrompt stream = iota
	streamLength
	streamPrefix
	streamOrder
	streamArrival
	streamWarmup
	streamCalibrate
)

func (w *Workload) rand(s stream, i int) *rand.Rand {
	return rand.New(rand.NewPCG(w.Seed, uint64(s)<<48|uint64(i)))
}

// checkLen bounds a length given by the user.
func checkLen(name string, n, least int) error {
	if n < least || n > maxLen {
		return fmt.Errorf("%s is %d, must be %d to %d", name, n, least, maxLen)
	}
	return nil
}

func (w *Workload) random() ([]Request, error) {
	o := w.Random
	err := errors.Join(checkLen("prefix length", o.PrefixLen, 0), checkLen("input length", o.InputLen, 1),
		checkLen("output length", o.OutputLen, 1))
	if err != nil {
		return nil, err
	}
	if !(o.RangeRatio >= 0 && o.RangeRatio < 1) {
		return nil, fmt.Errorf("range ratio is %g, must be 0 to below 1", o.RangeRatio)
	}
	prefix := ""
	if o.PrefixLen > 0 {
		prefix = text(w.rand(streamPrefix, 0), w.Scale.more(o.PrefixLen))
	}
	requests := make([]Request, w.Count)
	for i := range requests {
		r := w.rand(streamLength, i)
		words := w.Scale.words(spread(r, o.InputLen, o.RangeRatio))
		var b strings.Builder
		b.WriteString(prefix)
		appendWords(&b, w.rand(streamPrompt, i), words)
		requests[i] = Request{Prompt: b.String(), Words: wordCount(prefix) + words, OutputTokens: spread(r, o.OutputLen, o.RangeRatio)}
	}
	return requests, nil
}

// spread draws evenly from n·(1±ratio), at least 1.
func spread(r *rand.Rand, n int, ratio float64) int {
	low := max(1, int(float64(n)*(1-ratio)))
	high := max(low, int(float64(n)*(1+ratio)+0.999999))
	if ratio == 0 {
		return n
	}
	return low + r.IntN(high-low+1)
}

// prefixes sends each of several long beginnings with many ends, in random
// order: the case that a prefix cache is for.
func (w *Workload) prefixes() ([]Request, error) {
	o := w.Prefix
	err := errors.Join(checkLen("prefix length", o.PrefixLen, 1), checkLen("suffix length", o.SuffixLen, 0),
		checkLen("output length", o.OutputLen, 1))
	if err != nil {
		return nil, err
	}
	if o.Prefixes < 1 || o.Prefixes > w.Count {
		return nil, fmt.Errorf("%d prefixes for %d prompts, must be 1 to the number of prompts", o.Prefixes, w.Count)
	}
	front, back := w.Scale.words(o.PrefixLen), 0
	if o.SuffixLen > 0 {
		back = w.Scale.more(o.SuffixLen)
	}
	beginnings := make([]string, o.Prefixes)
	for i := range beginnings {
		beginnings[i] = text(w.rand(streamPrefix, i), front)
	}
	requests := make([]Request, w.Count)
	for i, at := range w.rand(streamOrder, 0).Perm(w.Count) {
		var b strings.Builder
		b.WriteString(beginnings[i%o.Prefixes])
		appendWords(&b, w.rand(streamPrompt, i), back)
		requests[at] = Request{Prompt: b.String(), Words: front + back, OutputTokens: o.OutputLen}
	}
	return requests, nil
}
