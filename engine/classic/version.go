package classic

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/scheduler/cost"
)

// Options say how a version is served. The zero value of a field means its default.
type Options struct {
	Version  string        // "1"
	MaxBatch int           // rows of a batch; 1024, 1 computes every request alone
	MaxDelay time.Duration // that a batch may wait for more rows; none
	MaxRows  int           // of one request; 16384
	Labels   []string      // of the classes, for outputs with as many columns; the file's own where it is empty
	Golden   *Golden       // rows whose outputs are known; nil: none

	Transform     string // of a tree model's margins to outputs, by gbdt's names; empty: as the file's objective says
	BestIteration bool   // of a tree model: the iterations that early stopping chose predict, where the file names them
}

func (o Options) complete() Options {
	if o.Version == "" {
		o.Version = "1"
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 1024
	}
	if o.MaxRows == 0 {
		o.MaxRows = 16384
	}
	return o
}

// model is what a format's engine does for a version. Implementations are safe for
// concurrent use.
type model interface {
	// about says everything of the description but name, version and the most rows.
	about() inference.Description
	// accept brings inputs into the form that compute takes. Tensors that it
	// changes are new; own reports whether all of them are.
	accept(in []tensor.Tensor) (taken []tensor.Tensor, own bool, err error)
	// compute returns all outputs, which belong to the caller.
	compute(in []tensor.Tensor) ([]tensor.Tensor, error)
	// batches reports whether the first size of every input and output is the
	// number of rows.
	batches() bool
	// bytes is the memory that the model takes, about.
	bytes() int64
	// kernel names what computes it, for operators.
	kernel() string
	// details are what else is known of the model, for people.
	details() []Detail
}

// stoppable is a model whose run can be ended. Where it is not known how long it takes, its requests are computed apart
// from others, each until its own deadline.
type stoppable interface {
	model
	// open: what a run costs does not follow from the inputs' sizes.
	open() bool
	// try computes within a small part of what a run may take.
	try(in []tensor.Tensor) (out []tensor.Tensor, tooMuch bool, err error)
	// tryLeast does so with the smallest inputs there are.
	tryLeast() (tooMuch bool)
	// computeUntil asks stop again and again, whose error ends it.
	computeUntil(in []tensor.Tensor, stop func() error) ([]tensor.Tensor, error)
}

// Version is a loaded version of a classical model. It is safe for concurrent use.
type Version struct {
	opts      Options
	desc      inference.Description
	model     model
	kind      string     // of its batches
	apart     stoppable  // the model, where its requests are computed apart; else nil
	separable bool       // rows have the same results whatever they are computed beside
	hold      *memoryRef // nil: the model has no memory outside of Go's

	mu    sync.Mutex
	cost  cost.Line      // of one core
	calm  cost.LeastTime // of requests computed inline
	stats Stats
}

// Stats count what happened to a version's requests.
type Stats struct {
	Requests uint64 // that were answered
	Failed   uint64 // that the model refused, or that a bug ended
	Rows     uint64 // of those answered
	Batches  uint64
	Panics   uint64
	Waited   time.Duration // of those answered, summed up
	Computed time.Duration
	Last     time.Time
}

func newVersion(name string, m model, o Options) *Version {
	o = o.complete()
	v := &Version{opts: o, model: m, desc: m.about()}
	v.desc.Name, v.desc.Version, v.desc.MaxRows = name, o.Version, o.MaxRows
	v.kind = name + "\x00" + o.Version
	v.separable = m.batches()
	if s, ok := m.(stoppable); ok && s.open() {
		v.apart = s
	}
	v.hold = newHold(m)
	v.label(o.Labels)
	return v
}

// label names the classes of the outputs that have one column for each.
func (v *Version) label(classes []string) {
	if len(classes) == 0 {
		return
	}
	labels := maps.Clone(v.desc.Labels)
	if labels == nil {
		labels = make(map[string][]string)
	}
	for _, o := range v.desc.Outputs {
		if n := len(o.Shape); n > 0 && o.Shape[n-1] == int64(len(classes)) {
			labels[o.Name] = classes
		}
	}
	v.desc.Labels = labels
}

// Describe says what the version takes and gives. The answer is shared.
func (v *Version) Describe() *inference.Description { return &v.desc }

// Bytes is the memory that the version takes, about.
func (v *Version) Bytes() int64 { return v.model.bytes() }

// Detail is one thing that is known of a model.
type Detail struct {
	Name  string // snake_case
	Value any    // a number, text or bool
}

// Columns are the names of the values in a row, for a model of one matrix whose file has
// them; nil otherwise.
func (v *Version) Columns() []string {
	if m, is := v.model.(*trees); is {
		return m.m.FeatureNames()
	}
	return nil
}

// Details are what is known of the model beside its inputs and outputs.
func (v *Version) Details() []Detail { return v.model.details() }

// Notes are what a user should know of the model's file.
func (v *Version) Notes() []string {
	if m, is := v.model.(*trees); is {
		return m.m.Ensemble().Notes
	}
	return nil
}

// Kernel names what computes the version.
func (v *Version) Kernel() string { return v.model.kernel() }

// Batches reports whether rows of several requests are computed together.
func (v *Version) Batches() bool { return v.separable && v.opts.MaxBatch > 1 }

// Stats is a snapshot.
func (v *Version) Stats() Stats {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stats
}

// Estimate is the time that a core probably takes for so many rows.
func (v *Version) Estimate(rows int) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cost.Estimate(rows)
}

// rowsWithin is how many rows take about so long on one core, at least 1.
func (v *Version) rowsWithin(d time.Duration) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	perRow := v.cost.PerRow()
	if perRow <= 0 {
		return v.opts.MaxRows
	}
	return int(max((d-v.cost.Base())/perRow, 1))
}

// observe takes in what rows took on one core.
func (v *Version) observe(rows int, took time.Duration) {
	v.mu.Lock()
	v.cost.Observe(rows, took)
	v.mu.Unlock()
}

// observeInline takes in what rows took on a goroutine whose thread competes with the pool's workers for a core. One
// interruption is a hundred times what a small model takes: believed, it would send the model's requests to the pool, to
// wait there for a language model's step each.
func (v *Version) observeInline(rows int, took time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.cost.Ready() {
		v.cost.Observe(rows, took)
		return
	}
	if n, least, ok := v.calm.Add(rows, took); ok {
		v.cost.Observe(n, least)
	}
}

// accept checks a request and brings its inputs into the model's form.
func (v *Version) accept(p *inference.Prediction) (*task, error) {
	for _, name := range p.Wanted {
		if !slices.ContainsFunc(v.desc.Outputs, func(s tensor.Spec) bool { return s.Name == name }) {
			return nil, fmt.Errorf("%w: model %q has no output %q; it has %s", inference.ErrInvalid, v.desc.Name, name, names(v.desc.Outputs))
		}
	}
	in, own, err := v.model.accept(p.Inputs)
	if err != nil {
		return nil, fmt.Errorf("%w: model %q: %w", inference.ErrInvalid, v.desc.Name, err)
	}
	t := &task{v: v, id: p.ID, tenant: p.Tenant, class: p.Class, in: in, own: own, rows: 1, kind: v.kind}
	if v.model.batches() {
		t.rows = int(in[0].Rows())
	}
	switch {
	case t.rows == 0:
		return nil, fmt.Errorf("%w: model %q: the inputs have no rows", inference.ErrInvalid, v.desc.Name)
	case t.rows > v.opts.MaxRows:
		return nil, &inference.LimitError{
			Err: inference.ErrInvalid, What: "rows", Need: t.rows, Limit: v.opts.MaxRows, Remedy: "send them in several requests",
		}
	}
	if v.Batches() {
		t.kind = kindOf(v, in)
	}
	return t, nil
}

// kindOf names what can be computed together: the version, and the shape of a row where
// the model leaves that open.
func kindOf(v *Version, in []tensor.Tensor) string {
	open := false
	for i := range v.desc.Inputs {
		s := v.desc.Inputs[i].Shape
		open = open || len(s) > 1 && slices.Contains(s[1:], tensor.Any)
	}
	if !open {
		return v.kind
	}
	kind := append([]byte(v.kind), 0)
	for i := range in {
		kind = fmt.Append(kind, in[i].Shape[1:])
	}
	return string(kind)
}

// compute runs the model. A panic is an error that is no fault of the caller's.
func (v *Version) compute(in []tensor.Tensor) ([]tensor.Tensor, error) {
	return v.computeUntil(in, nil)
}

// computeUntil is compute with what ends the run of a model that is computed apart: nil never does.
func (v *Version) computeUntil(in []tensor.Tensor, stop func() error) (out []tensor.Tensor, err error) {
	if !v.hold.take() {
		return nil, fmt.Errorf("%w: model %q version %s has left memory", inference.ErrUnavailable, v.desc.Name, v.desc.Version)
	}
	defer v.hold.release()
	defer func() {
		if caught := recover(); caught != nil {
			v.mu.Lock()
			v.stats.Panics++
			v.mu.Unlock()
			out, err = nil, &Fault{Model: v.desc.Name, Version: v.desc.Version, Value: caught, Stack: debug.Stack()}
		}
	}()
	if v.apart != nil {
		out, err = v.apart.computeUntil(in, stop)
	} else {
		out, err = v.model.compute(in)
	}
	switch {
	case errors.Is(err, inference.ErrDeadline) || errors.Is(err, inference.ErrCancelled) || errors.Is(err, inference.ErrQueueFull):
		return nil, fmt.Errorf("model %q: %w", v.desc.Name, err)
	case err != nil:
		return nil, fmt.Errorf("%w: model %q: %w", inference.ErrInvalid, v.desc.Name, err)
	}
	return out, nil
}

// Fault is a panic of a model's engine, recovered.
type Fault struct {
	Model, Version string
	Value          any
	Stack          []byte
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%v: model %q version %s failed", inference.ErrInternal, f.Model, f.Version)
}

func (f *Fault) Unwrap() error { return inference.ErrInternal }

func names(specs []tensor.Spec) string {
	list := make([]string, len(specs))
	for i := range specs {
		list[i] = specs[i].Name
	}
	return fmt.Sprintf("%q", list)
}
