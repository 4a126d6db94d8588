package pool_test

import (
	"fmt"

	"weir/engine/kernel/pool"
)

// squares is a job whose items are independent of each other.
type squares []int

func (s squares) Do(_, item int) { s[item] = item * item }

// Two threads compute an engine's rows, four at a time.
func Example() {
	p := pool.New(2)
	defer p.Close()
	engine := p.Join(1)
	s := make(squares, 10)
	engine.Run(s, len(s), 4)
	fmt.Println(s)
	// Output:
	// [0 1 4 9 16 25 36 49 64 81]
}

// An engine computes in steps, which alternate with those of others.
func ExampleMember_Drive() {
	p := pool.New(2)
	engine := p.Join(1)
	steps, done := 0, make(chan struct{})
	engine.Drive(func() (more bool) {
		if steps++; steps < 3 {
			return true
		}
		p.Close() // no step of any engine runs beside this one
		close(done)
		return false
	})
	engine.Ready() // a request has come
	<-done
	fmt.Println(steps, "steps")
	// Output:
	// 3 steps
}
