package heap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/heap"
)

// numbers are a heap whose owner knows the place of each number.
type numbers struct {
	list  []int
	place map[int]int
}

func (n *numbers) Len() int           { return len(n.list) }
func (n *numbers) Less(i, j int) bool { return n.list[i] < n.list[j] }

func (n *numbers) Swap(i, j int) {
	n.list[i], n.list[j] = n.list[j], n.list[i]
	n.place[n.list[i]], n.place[n.list[j]] = i, j
}

// TestItemsComeInOrder adds, changes and takes numbers at random, beside a sorted list.
func TestItemsComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, sorted := &numbers{place: map[int]int{}}, []int(nil)
	take := func(i int) {
		last := len(n.list) - 1
		n.Swap(i, last)
		delete(n.place, n.list[last])
		n.list = n.list[:last]
		if i < last {
			heap.Fix(n, i)
		}
	}
	for range 20_000 {
		v := r.IntN(1 << 30)
		if _, have := n.place[v]; have {
			continue
		}
		switch at, _ := slices.BinarySearch(sorted, v); r.IntN(4) {
		case 0, 1:
			n.list = append(n.list, v)
			n.place[v] = len(n.list) - 1
			heap.Up(n, len(n.list)-1)
			sorted = slices.Insert(sorted, at, v)
		case 2:
			if len(sorted) > 0 { // any of them
				k := r.IntN(len(sorted))
				take(n.place[sorted[k]])
				sorted = slices.Delete(sorted, k, k+1)
			}
		case 3:
			for i, p := range n.list {
				if n.place[p] != i {
					t.Fatalf("%d is at %d, noted at %d", p, i, n.place[p])
				}
			}
		}
		if len(sorted) > 0 && n.list[0] != sorted[0] {
			t.Fatalf("the first is %d, want %d", n.list[0], sorted[0])
		}
	}
	heap.Init(n)
	for _, want := range sorted {
		if n.list[0] != want {
			t.Fatalf("%d comes first, want %d", n.list[0], want)
		}
		take(0)
	}
}

// words are a heap of words by their lengths.
type words []string

func (w words) Len() int           { return len(w) }
func (w words) Less(i, j int) bool { return len(w[i]) < len(w[j]) }
func (w words) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

func ExampleInit() {
	w := words{"prefill", "step", "decode"}
	heap.Init(w)
	fmt.Println(w[0])
	w[0] = "admission" // the first has changed
	heap.Down(w, 0)
	fmt.Println(w[0])
	// Output:
	// step
	// decode
}
