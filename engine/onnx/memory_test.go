package onnx

import (
	"errors"
	"math"
	"sync"
	"testing"

	"weir/internal/reference"
	"weir/internal/tensor"
)

// holding is a model whose graph runs y = x + x + … on a table of floats, with as many buffers as it takes.
func holding(t *testing.T) *Model {
	t.Helper()
	m, err := Load(modelOf(graphOf([][]byte{valueInfo("x")}, [][]byte{valueInfo("y")},
		nodeOf("Add", []string{"x", "x"}, []string{"a"}), nodeOf("Mul", []string{"a", "x"}, []string{"b"}), nodeOf("Add", []string{"a", "b"}, []string{"y"}))))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// zeros is a table of so many MB.
func zeros(mb int64) []tensor.Tensor {
	return []tensor.Tensor{tensor.Of("x", tensor.Float32, []int64{mb << 17, 2}, make([]float32, mb<<18))}
}

// runsWithin runs with a bound of what all runs hold.
func runsWithin(t *testing.T, m *Model, mb int64, stop func() error, in []tensor.Tensor, memory *Memory) error {
	t.Helper()
	memory.Limit(mb << 20)
	_, err := m.runWithin(in, limits{budget: maxRunBytes, work: math.MaxInt64, stop: stop, held: held{memory: memory}})
	return err
}

// Runs that go on at the same time hold no more than they may together: who comes too late is refused, and
// succeeds when others have ended.
func TestRunsShareMemory(t *testing.T) {
	m, memory := holding(t), &Memory{}
	in := zeros(8) // three values of 8 MB each at most
	reached, goOn := make(chan struct{}), make(chan struct{})
	asked := 0
	var first error
	var run sync.WaitGroup
	ended := make(chan struct{})
	run.Go(func() {
		defer close(ended)
		first = runsWithin(t, m, 40, func() error {
			if asked++; asked == 3 { // two values are there
				close(reached)
				<-goOn
			}
			return nil
		}, in, memory)
	})
	<-reached
	if taken := memory.Taken(); taken < 14<<20 || taken > 40<<20 {
		t.Errorf("two values of 8 MB take %d bytes", taken)
	}
	var errs []error
	var others []func()
	for range 2 { // the second finds no room beside the first two
		reached, release := make(chan struct{}), make(chan struct{})
		asked, refused := 0, make(chan error, 1)
		run.Go(func() {
			err := runsWithin(t, m, 40, func() error {
				if asked++; asked == 3 {
					close(reached)
					<-release
				}
				return nil
			}, in, memory)
			refused <- err
		})
		select {
		case <-reached:
			others = append(others, func() { close(release); errs = append(errs, <-refused) })
		case err := <-refused:
			errs = append(errs, err)
		}
	}
	if len(errs) != 1 || !errors.Is(errs[0], ErrMemory) {
		t.Errorf("beside two runs: %v, want one %v", errs, ErrMemory)
	}
	close(goOn)
	<-ended
	for _, end := range others {
		end()
	}
	run.Wait()
	if first != nil || memory.Taken() != 0 {
		t.Errorf("%v; %d bytes are taken at the end", first, memory.Taken())
	}
	if err := runsWithin(t, m, 40, nil, in, memory); err != nil {
		t.Errorf("alone: %v", err)
	}
	if err := runsWithin(t, m, 10, nil, in, memory); !errors.Is(err, ErrTooMuch) || errors.Is(err, ErrMemory) {
		t.Errorf("more than all may have: %v", err)
	}
	if memory.Taken() != 0 {
		t.Errorf("%d bytes are taken at the end", memory.Taken())
	}
}

// What a loop holds is what its state takes, and not what all of its iterations have taken.
func TestLoopsHoldTheirState(t *testing.T) {
	reference.Slow(t)
	m, err := Load(doubling(1000))
	if err != nil {
		t.Fatal(err)
	}
	memory := &Memory{}
	if err := runsWithin(t, m, 32, nil, zeros(2), memory); err != nil || memory.Taken() != 0 {
		t.Errorf("%v, %d bytes at the end", err, memory.Taken())
	}
}
