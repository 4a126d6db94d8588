// Package heap keeps the items of a slice in heap order, the least first, where the owner of the slice moves them and notes where each
// of them is. Unlike container/heap it calls no
// method through an interface, and adds and removes nothing itself.
package heap

// Items are those of a heap, by their places in it.
type Items interface {
	Len() int
	Less(i, j int) bool
	Swap(i, j int)
}

// Up moves an item towards the first place until none before it is greater.
func Up[H Items](h H, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Less(i, parent) {
			return
		}
		h.Swap(i, parent)
		i = parent
	}
}

// Down moves an item away from the first place until none behind it is less. A place that is not there is ignored.
func Down[H Items](h H, i int) {
	for n := h.Len(); ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if h.Less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.Swap(i, least)
		i = least
	}
}

// Fix moves an item that has changed, or that came to the place of another one.
func Fix[H Items](h H, i int) {
	Down(h, i)
	Up(h, i)
}

// Init brings all items into the order.
func Init[H Items](h H) {
	for i := h.Len()/2 - 1; i >= 0; i-- {
		Down(h, i)
	}
}
