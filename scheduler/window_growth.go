package scheduler

// windowGrowth adds up what groups with a window take of the choices that go on, from one end of a choice to the next: of each as
// many blocks as it grows by until then, or what it takes at most, whichever is less. Choices come with the most left first, so the
// ends are ever nearer, and a choice that does not reach its most by one of them does not by the next.
type windowGrowth struct {
	pages  int   // that a block takes in all groups with a window
	counts []int // choices at their most, by the blocks that they grew by until there
	mosts  []int // what these take
	filled int   // all of mosts
	open   int   // choices that are not at their most by the end
	end    int   // blocks until the end that was asked for last
}

// newWindowGrowth is for choices that take at most so many pages.
func newWindowGrowth(pages, most int) windowGrowth {
	w := windowGrowth{pages: pages}
	if pages > 0 {
		w.counts, w.mosts = make([]int, blocksFor(most, pages)+1), make([]int, blocksFor(most, pages)+1)
	}
	return w
}

func (w *windowGrowth) reset() {
	clear(w.counts)
	clear(w.mosts)
	w.filled, w.open, w.end = 0, 0, max(len(w.counts)-1, 0)
}

// until adds a choice that takes most pages at most, and is what it and those before it take until it ends, so many blocks from now.
func (w *windowGrowth) until(blocks, most int) int {
	if w.pages == 0 {
		return 0
	}
	for ; w.end > blocks; w.end-- {
		w.open += w.counts[w.end]
		w.filled -= w.mosts[w.end]
	}
	if at := blocksFor(most, w.pages); at > w.end {
		w.open++
	} else {
		w.counts[at]++
		w.mosts[at] += most
		w.filled += most
	}
	return w.filled + w.open*w.end*w.pages
}
