package capacity

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
)

// What `nvidia-smi mig -lgipp` prints for an H100-80GB, in the order 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb.
const published = `{0,1,2,3,4,5,6}:1
{0,2,4,6}:2
{0,2,4}:2
{0,4}:4
{0}:4
{0}:8`

// How many of one profile a card holds at most, as `nvidia-smi mig -lgip` prints them ("Instances Free/Total").
var publishedTotals = map[string]map[string]int{
	"A30-24GB":   {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
	"A100-40GB":  {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
	"A100-80GB":  {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
	"H100-80GB":  {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
	"H200-141GB": {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1},
}

func card(t *testing.T, name string) *Card {
	t.Helper()
	c, err := FindCard(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProfilesAreThePublishedOnes(t *testing.T) {
	rows := strings.Split(published, "\n")
	for _, c := range Cards {
		for i, p := range c.Profiles {
			want := make(counts, len(c.Profiles))
			for most := publishedTotals[c.Name][p.Name]; want[i] < most; {
				want[i]++
				if _, ok := c.place(want); !ok {
					t.Errorf("%s: %d of %s do not fit, %d should", c.Name, want[i], p.Name, most)
				}
			}
			want[i]++
			if _, ok := c.place(want); ok {
				t.Errorf("%s: %d of %s fit", c.Name, want[i], p.Name)
			}
			if len(c.Profiles) < len(rows) {
				continue
			}
			row := rows[len(rows)-1-i]
			if got := placements(p); got != row {
				t.Errorf("%s %s is placed at %s, published is %s", c.Name, p.Name, got, row)
			}
		}
	}
}

// placements writes a profile's as nvidia-smi does.
func placements(p Profile) string {
	var starts []string
	for _, s := range p.Starts {
		starts = append(starts, string(rune('0'+s)))
	}
	return "{" + strings.Join(starts, ",") + "}:" + string(rune('0'+p.Slices))
}

// Combinations that NVIDIA's GPU Operator ships ("all-balanced" of mig-parted's default configuration) or that people run, and
// combinations that the cards refuse.
func TestLayoutsOfOthers(t *testing.T) {
	for _, c := range []struct {
		card, slices string
		fits         bool
	}{
		{"A100-40GB", "1g.5gb 1g.5gb 2g.10gb 3g.20gb", true},
		{"A100-80GB", "1g.10gb 1g.10gb 2g.20gb 3g.40gb", true},
		{"H100-80GB", "1g.10gb 1g.10gb 2g.20gb 3g.40gb", true},
		{"H200-141GB", "1g.18gb 1g.18gb 2g.35gb 3g.71gb", true},
		{"A30-24GB", "1g.6gb 1g.6gb 2g.12gb", true},
		{"H100-80GB", "3g.40gb 1g.20gb 1g.10gb", true}, // nvidia-smi mig -cgi 9,15,19
		{"H100-80GB", "4g.40gb 1g.10gb 1g.10gb 1g.10gb", true},
		{"H100-80GB", "4g.40gb 3g.40gb", true},
		{"H100-80GB", "2g.20gb 2g.20gb 2g.20gb 1g.20gb", true}, // the last at memory slices 6 and 7
		{"H100-80GB", "4g.40gb 4g.40gb", false},
		{"H100-80GB", "3g.40gb 3g.40gb 1g.10gb", false}, // seven compute slices, but no memory slice is left
		{"H100-80GB", "4g.40gb 2g.20gb 2g.20gb", false},
		{"H100-80GB", "1g.20gb 1g.20gb 1g.20gb 1g.20gb 1g.10gb", false},
		{"H100-80GB", "7g.80gb 1g.10gb", false},
	} {
		gpu := card(t, c.card)
		n := make(counts, len(gpu.Profiles))
		for name := range strings.FieldsSeq(c.slices) {
			n[gpu.find(name)]++
		}
		if _, ok := gpu.place(n); ok != c.fits {
			t.Errorf("%s: %s fits: %v", c.card, c.slices, ok)
		}
	}
	if n := len(card(t, "A30-24GB").layouts()); n != 4 {
		t.Errorf("%d layouts of an A30, want 4, 2+2, 2+1+1 and 1+1+1+1", n)
	}
}

// Whatever is wanted: all of it is placed, no card holds two slices at one place, and one slice more never needs fewer cards.
func TestCutCards(t *testing.T) {
	reference.Slow(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := &Cards[rng.IntN(len(Cards))]
		want := make(counts, len(c.Profiles))
		for i := range want {
			if rng.IntN(2) == 0 {
				want[i] = rng.IntN(6)
			}
		}
		cut := c.cards(want)
		checkCut(t, c, want, cut)
		more := slices.Clone(want)
		more[rng.IntN(len(more))]++
		if n := len(c.cards(more)); n < len(cut) {
			t.Errorf("%s: %v takes %d cards, %v only %d", c.Name, want, len(cut), more, n)
		}
	}
	c := card(t, "H100-80GB")
	big := counts{0, 3, 150, 2000, 70, 1500}
	cut := c.cards(big)
	checkCut(t, c, big, cut)
	memory, compute := 0, 0
	for i, n := range big {
		memory, compute = memory+n*c.Profiles[i].Slices, compute+n*c.Profiles[i].Compute
	}
	if least := max((memory+7)/8, (compute+6)/7); len(cut) > least+least/20 {
		t.Errorf("%v takes %d cards, by slices at least %d", big, len(cut), least)
	}
}

func checkCut(t *testing.T, c *Card, want counts, cut []counts) {
	t.Helper()
	sum := make(counts, len(want))
	for _, n := range cut {
		placed, ok := c.place(n)
		if !ok {
			t.Fatalf("%s cannot hold %v", c.Name, n)
		}
		var taken, compute int
		for _, p := range placed {
			profile := &c.Profiles[c.find(p.Profile)]
			if !slices.Contains(profile.Starts, p.Start) || p.Start+p.Size > c.Slices {
				t.Fatalf("%s: %s at %d", c.Name, p.Profile, p.Start)
			}
			mask := (1<<p.Size - 1) << p.Start
			if taken&mask != 0 {
				t.Fatalf("%s: %v overlap", c.Name, placed)
			}
			taken, compute = taken|mask, compute+profile.Compute
		}
		if compute > c.Compute {
			t.Fatalf("%s: %v take %d compute slices", c.Name, placed, compute)
		}
		for i, k := range n {
			sum[i] += k
		}
	}
	if !slices.Equal(sum, want) {
		t.Fatalf("%s: %v were wanted, %v are cut", c.Name, want, sum)
	}
}
