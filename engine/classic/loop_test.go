package classic

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/tensor"
)

// countdown reads a model whose loop runs as often as its input n says.
func countdown(t *testing.T) *Version {
	t.Helper()
	data, err := os.ReadFile("../onnx/testdata/loop.onnx")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Load(data, "loop", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Batches() || v.apart == nil {
		t.Error("a model of loops is computed in batches")
	}
	return v
}

func times(n int64) *inference.Prediction {
	return &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{
		tensor.Of("n", tensor.Int64, []int64{}, []int64{n}), tensor.Of("x", tensor.Float32, []int64{1, 2}, []float32{1, 2}),
	}}
}

// A loop of 2^60 iterations ends with its request, and keeps no other request waiting: neither those of
// other models, nor, once it has ended, those of its own.
func TestAnEndlessLoopHoldsNoOneUp(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 2})
	loop := countdown(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 { // more than may run at a time
		wg.Go(func() {
			if err := l.Predict(ctx, loop, times(1<<60)); !errors.Is(err, inference.ErrCancelled) {
				t.Errorf("an endless loop whose caller has gone: %v", err)
			}
		})
	}
	other := fakeVersion(&doubler{}, Options{})
	for range 100 {
		if err := l.Predict(t.Context(), other, ask("b", 1)); err != nil {
			t.Fatalf("another model beside it: %v", err)
		}
	}
	cancel()
	wg.Wait()
	p := times(10)
	if err := l.Predict(t.Context(), loop, p); err != nil || tensor.Values[float32](&p.Outputs[0])[0] != 1024 {
		t.Errorf("%v, %v", p.Outputs, err)
	}
	if l.apart.free != 1 || l.inline.free != 2 {
		t.Errorf("%d and %d cores are free", l.apart.free, l.inline.free)
	}
}

func TestALoopEndsAtItsDeadline(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 2})
	loop := countdown(t)
	p := times(1 << 60)
	p.DoneBy = time.Now().Add(20 * time.Millisecond)
	if err := l.Predict(t.Context(), loop, p); !errors.Is(err, inference.ErrDeadline) {
		t.Errorf("%v", err)
	}
}

// A model of which one row takes seconds is found at load, within a bound, and computed apart.
func TestAHeavyModelIsComputedApart(t *testing.T) {
	reference.Slow(t)
	data, err := os.ReadFile("testdata/heavy.onnx")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Load(data, "heavy", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Batches() || v.apart == nil {
		t.Error("it is computed beside others")
	}
}
