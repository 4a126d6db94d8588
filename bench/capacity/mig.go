package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// Profile is a kind of MIG slice: so many of a card's compute and memory slices, at one of its placements.
type Profile struct {
	Name      string  // "1g.10gb"
	Compute   int     // of the card's compute slices
	Slices    int     // of its memory slices, as `nvidia-smi mig -lgipp` gives the size of a placement
	Starts    []int   // memory slices that it may begin at
	MemoryGiB float64 // that `nvidia-smi mig -lgip` shows
}

// Card is a GPU that can be cut into MIG slices.
type Card struct {
	Name      string
	Compute   int // slices
	Slices    int // of memory
	MemoryGiB float64
	Profiles  []Profile // largest first
}

// sevenths are the profiles of the cards with seven compute and eight memory slices, whose placements are the same: those that
// `nvidia-smi mig -lgipp` prints and NVIDIA's MIG user guide shows. The profiles with media engines (+me) take the place of one without.
func sevenths(names [6]string, gib [6]float64) []Profile {
	return []Profile{
		{names[0], 7, 8, []int{0}, gib[0]},
		{names[1], 4, 4, []int{0}, gib[1]},
		{names[2], 3, 4, []int{0, 4}, gib[2]},
		{names[3], 2, 2, []int{0, 2, 4}, gib[3]},
		{names[4], 1, 2, []int{0, 2, 4, 6}, gib[4]},
		{names[5], 1, 1, []int{0, 1, 2, 3, 4, 5, 6}, gib[5]},
	}
}

// Cards are the GPUs whose MIG slices can be planned.
var Cards = []Card{
	{"A30-24GB", 4, 4, 23.5, []Profile{
		{"4g.24gb", 4, 4, []int{0}, 23.5}, {"2g.12gb", 2, 2, []int{0, 2}, 11.69}, {"1g.6gb", 1, 1, []int{0, 1, 2, 3}, 5.81},
	}},
	{"A100-40GB", 7, 8, 39.5, sevenths([6]string{"7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb"},
		[6]float64{39.5, 19.5, 19.5, 9.62, 9.62, 4.75})},
	{"A100-80GB", 7, 8, 79, sevenths([6]string{"7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb"},
		[6]float64{79, 39.25, 39.25, 19.5, 19.5, 9.5})},
	{"H100-80GB", 7, 8, 79.25, sevenths([6]string{"7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb"},
		[6]float64{79.25, 39.5, 39.5, 19.62, 19.62, 9.75})},
	{"H200-141GB", 7, 8, 140, sevenths([6]string{"7g.141gb", "4g.71gb", "3g.71gb", "2g.35gb", "1g.35gb", "1g.18gb"},
		[6]float64{140, 69.75, 69.75, 32.5, 32.5, 16})},
}

// FindCard finds a card by its name.
func FindCard(name string) (*Card, error) {
	var known []string
	for i := range Cards {
		if Cards[i].Name == name {
			return &Cards[i], nil
		}
		known = append(known, Cards[i].Name)
	}
	return nil, fmt.Errorf("card %q is not known; known are %s; leave card out for one that is used whole", name, strings.Join(known, ", "))
}

// find returns the number of a profile, or -1.
func (c *Card) find(name string) int {
	return slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == name })
}

// counts is how many slices of each of a card's profiles.
type counts []int

func (n counts) empty() bool { return !slices.ContainsFunc(n, func(k int) bool { return k > 0 }) }

// Placed is a slice on a card.
type Placed struct {
	Profile string `json:"profile"`
	Start   int    `json:"start"` // memory slice
	Size    int    `json:"size"`
}

// place finds where so many slices stand on one card; false if they do not fit.
func (c *Card) place(want counts) ([]Placed, bool) {
	left, compute := slices.Clone(want), 0
	for i, n := range want {
		compute += n * c.Profiles[i].Compute
	}
	if compute > c.Compute {
		return nil, false
	}
	var placed []Placed
	var fill func(taken uint) bool
	fill = func(taken uint) bool {
		i := slices.IndexFunc(left, func(n int) bool { return n > 0 })
		if i < 0 {
			return true
		}
		p := &c.Profiles[i]
		left[i]--
		for _, start := range p.Starts {
			mask := (uint(1)<<p.Slices - 1) << start
			if taken&mask != 0 {
				continue
			}
			placed = append(placed, Placed{p.Name, start, p.Slices})
			if fill(taken | mask) {
				return true
			}
			placed = placed[:len(placed)-1]
		}
		left[i]++
		return false
	}
	if !fill(0) {
		return nil, false
	}
	return placed, true
}

// layouts are the largest sets of slices that a card can hold: no further slice fits beside one of them.
func (c *Card) layouts() []counts {
	var found []counts
	var grow func(n counts, from int)
	grow = func(n counts, from int) {
		full := true
		for i := range n {
			n[i]++
			if _, ok := c.place(n); ok {
				full = false
				if i >= from {
					grow(n, i)
				}
			}
			n[i]--
		}
		if full {
			found = append(found, slices.Clone(n))
		}
	}
	grow(make(counts, len(c.Profiles)), 0)
	return found
}

// dense is how many sets of slices are looked at for the fewest cards; where there are more, full cards are taken off first.
const dense = 40_000

// cards cuts as few cards as it can find for the slices that are wanted, and says what stands on each. It is the fewest unless there are
// more than dense sets of slices.
func (c *Card) cards(want counts) []counts {
	layouts, left := c.layouts(), slices.Clone(want)
	var used []counts
	for left.states() > dense {
		best, most := counts(nil), 0
		for _, l := range layouts {
			if size := c.covered(l, left); size > most {
				best, most = l, size
			}
		}
		used = append(used, left.take(best))
	}
	return append(used, (&packer{layouts: layouts, known: map[string]int{}}).fewest(left)...)
}

// states is how many sets of slices are contained in this one.
func (n counts) states() int {
	s := 1
	for _, k := range n {
		s = min(s*(k+1), 1<<40)
	}
	return s
}

// covered is how many memory slices of a layout are wanted.
func (c *Card) covered(layout, want counts) int {
	size := 0
	for i, n := range layout {
		size += min(n, want[i]) * c.Profiles[i].Slices
	}
	return size
}

// take takes what it can of a layout and returns it.
func (n counts) take(layout counts) counts {
	taken := make(counts, len(n))
	for i := range n {
		taken[i] = min(n[i], layout[i])
		n[i] -= taken[i]
	}
	return taken
}

// packer finds the fewest cards by remembering the answers for smaller sets.
type packer struct {
	layouts []counts
	known   map[string]int // 1 + the layout to take first
	cost    map[string]int
}

func (p *packer) fewest(want counts) []counts {
	p.cost = map[string]int{}
	p.solve(want)
	var used []counts
	for left := slices.Clone(want); !left.empty(); {
		used = append(used, left.take(p.layouts[p.known[left.key()]]))
	}
	return used
}

func (n counts) key() string {
	b := make([]byte, 0, 2*len(n))
	for _, k := range n {
		b = append(b, byte(k), byte(k>>8))
	}
	return string(b)
}

func (p *packer) solve(want counts) int {
	if want.empty() {
		return 0
	}
	key := want.key()
	if cost, ok := p.cost[key]; ok {
		return cost
	}
	best := -1
	for i, l := range p.layouts {
		left := slices.Clone(want)
		if left.take(l).empty() {
			continue
		}
		if cost := 1 + p.solve(left); best < 0 || cost < best {
			best, p.known[key] = cost, i
		}
	}
	p.cost[key] = best
	return best
}
