package heap_test

import (
	"fmt"

	"weir/internal/heap"
)

// deadlines are a heap of jobs by the second that each is due.
type deadlines []struct {
	job string
	due int
}

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].due < d[j].due }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// The owner appends and removes; the package keeps the order.
func Example() {
	d := deadlines{{"sweep", 30}, {"renew", 10}, {"flush", 20}}
	heap.Init(d)
	d[0].due = 40 // renewed
	heap.Fix(d, 0)
	d = append(d, d[0])
	d[3].job, d[3].due = "reload", 5
	heap.Up(d, 3)
	for len(d) > 0 {
		fmt.Println(d[0].due, d[0].job)
		d.Swap(0, len(d)-1)
		d = d[:len(d)-1]
		heap.Down(d, 0)
	}
	// Output:
	// 5 reload
	// 20 flush
	// 30 sweep
	// 40 renew
}
