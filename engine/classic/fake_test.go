package classic

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// doubler is a model whose output is twice its input, of one column. It takes as long per
// row as it is told. A row of -1 makes it panic and one of -2 fail, whatever else is computed
// beside it.
type doubler struct {
	perRow  time.Duration
	sleeps  bool // in virtual time, instead of computing
	apart   bool // rows cannot be told apart
	calls   atomic.Int64
	largest atomic.Int64 // rows of a call
	gate    chan struct{}
}

func (d *doubler) about() inference.Description {
	spec := func(name string) []tensor.Spec {
		return []tensor.Spec{{Name: name, Type: tensor.Float32, Shape: []int64{-1}}}
	}
	return inference.Description{Platform: "fake", Inputs: spec("x"), Outputs: spec("y")}
}

func (d *doubler) accept(in []tensor.Tensor) ([]tensor.Tensor, bool, error) {
	if len(in) != 1 || in[0].Type != tensor.Float32 || len(in[0].Shape) != 1 {
		return nil, false, errors.New("want one input of one column")
	}
	return in, false, nil
}

func (d *doubler) compute(in []tensor.Tensor) ([]tensor.Tensor, error) {
	if d.gate != nil {
		<-d.gate
	}
	d.calls.Add(1)
	x := tensor.Values[float32](&in[0])
	if n := int64(len(x)); n > d.largest.Load() {
		d.largest.Store(n)
	}
	if takes := time.Duration(len(x)) * d.perRow; d.sleeps {
		time.Sleep(takes)
	} else {
		for begin := time.Now(); time.Since(begin) < takes; {
		}
	}
	y := make([]float32, len(x))
	for i, v := range x {
		switch v {
		case -1:
			panic("poison")
		case -2:
			return nil, errors.New("a row is bad")
		}
		y[i] = 2 * v
	}
	return []tensor.Tensor{tensor.Of("y", tensor.Float32, []int64{int64(len(y))}, y)}, nil
}

func (d *doubler) batches() bool  { return !d.apart }
func (d *doubler) bytes() int64   { return 1 }
func (d *doubler) kernel() string { return "fake" }

func (d *doubler) details() []Detail { return nil }

// fakeVersion is a version whose cost is known to the lane.
func fakeVersion(d *doubler, o Options) *Version {
	v := newVersion("fake", d, o)
	v.observe(1, max(d.perRow, time.Microsecond))
	v.observe(64, 64*max(d.perRow, time.Microsecond))
	return v
}

func newTestLane(t *testing.T, o LaneOptions) *Lane {
	t.Helper()
	l, err := NewLane(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return l
}

// ask is a request of rows.
func ask(tenant string, rows ...float32) *inference.Prediction {
	return &inference.Prediction{
		Tenant: tenant, Inputs: []tensor.Tensor{tensor.Of("x", tensor.Float32, []int64{int64(len(rows))}, rows)},
	}
}

// doubled checks an answer.
func doubled(t *testing.T, p *inference.Prediction) {
	t.Helper()
	in, out := tensor.Values[float32](&p.Inputs[0]), p.Outputs
	if len(out) != 1 || out[0].Shape[0] != int64(len(in)) {
		t.Fatalf("%d outputs: %v", len(out), out)
	}
	for i, y := range tensor.Values[float32](&out[0]) {
		if y != 2*in[i] {
			t.Fatalf("row %d: %v of %v", i, y, in[i])
		}
	}
}
