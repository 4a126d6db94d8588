// Package drift compares what a model sees and says now with what it saw when it was
// made: reference profiles per version, counters on the path of requests, and PSI,
// Jensen-Shannon and Kolmogorov-Smirnov by window.
package drift

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Profile is how a model's features and scores were distributed in its reference data.
type Profile struct {
	Format   int      `json:"weir_profile"` // 1
	Model    string   `json:"model,omitempty"`
	Version  string   `json:"version,omitempty"`
	Rows     int64    `json:"rows"`
	Features []Column `json:"features"`
	Scores   []Column `json:"scores,omitempty"`
}

// Column is the distribution of one feature or score. A column of numbers has Edges, one
// of strings Categories.
type Column struct {
	Name string `json:"name"`
	// Edges part the numbers into len(Edges)+1 bins: bin i has those above Edges[i-1] and
	// at most Edges[i].
	Edges      []float64 `json:"edges,omitempty"`
	Categories []string  `json:"categories,omitempty"`
	// Counts are by bin, or by category and then all others.
	Counts  []int64 `json:"counts"`
	Missing int64   `json:"missing"`
	Min     float64 `json:"min"` // of the numbers
	Max     float64 `json:"max"`
}

// Limits of a profile.
const (
	MaxBytes   = 64 << 20
	maxColumns = 8192 + 64
	maxBins    = 256
	maxName    = 256
)

// DefaultBins of a column of numbers.
const DefaultBins = 10

// maxListed categories have a bin of their own in a profile that is made of data.
const maxListed = 32

// Numbers profiles a column of numbers by its quantiles; NaN is missing.
func Numbers(name string, values []float64, bins int) Column {
	sorted := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) {
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted)
	c := Column{Name: name, Missing: int64(len(values) - len(sorted)), Edges: []float64{}}
	n := len(sorted)
	if n == 0 {
		c.Counts = []int64{0}
		return c
	}
	c.Min, c.Max = finite(sorted[0]), finite(sorted[n-1])
	bins = min(max(bins, 2), maxBins-2)
	for i := 1; i < bins; i++ {
		e := finite(sorted[i*n/bins])
		if e == c.Max { // an edge belongs to the bin below it, so the highest value makes none
			e = below(sorted, sorted[i*n/bins])
		}
		if e < c.Max && (len(c.Edges) == 0 || e > c.Edges[len(c.Edges)-1]) {
			c.Edges = append(c.Edges, e)
		}
	}
	if c.Min == c.Max { // whatever else comes falls beside it
		c.Edges = append(c.Edges, math.Nextafter(c.Min, -math.MaxFloat64), c.Min)
	}
	c.Counts = make([]int64, len(c.Edges)+1)
	for _, v := range sorted {
		c.Counts[bin(c.Edges, v)]++
	}
	return c
}

// below is the highest of the sorted values that is below x, or x.
func below(sorted []float64, x float64) float64 {
	if i, _ := slices.BinarySearch(sorted, x); i > 0 {
		return finite(sorted[i-1])
	}
	return finite(x)
}

// finite keeps a number within what JSON can write.
func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// Texts profiles a column of strings; "" is missing. The most frequent have a bin each.
func Texts(name string, values []string) Column {
	c := Column{Name: name}
	counts := map[string]int64{}
	for _, v := range values {
		if v == "" {
			c.Missing++
			continue
		}
		counts[v]++
	}
	for v := range counts {
		if len(v) <= maxName {
			c.Categories = append(c.Categories, v)
		}
	}
	slices.SortFunc(c.Categories, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	c.Categories = append([]string{}, c.Categories[:min(len(c.Categories), maxListed)]...)
	c.Counts = make([]int64, len(c.Categories)+1)
	others := int64(len(values)) - c.Missing
	for i, v := range c.Categories {
		c.Counts[i] = counts[v]
		others -= counts[v]
	}
	c.Counts[len(c.Categories)] = others
	return c
}

// bin finds the bin of x, which is not NaN.
func bin(edges []float64, x float64) int {
	low, high := 0, len(edges)
	for low < high {
		if mid := int(uint(low+high) >> 1); edges[mid] < x { //nolint:gosec // neither is negative
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// ParseProfile reads a profile and checks it.
func ParseProfile(data []byte) (*Profile, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the profile has %d bytes, at most %d are read", len(data), MaxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var p Profile
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the profile: there is more behind its end")
	}
	return &p, p.validate()
}

func (p *Profile) validate() error {
	switch {
	case p.Format != 1:
		return fmt.Errorf("weir_profile is %d; this weir reads 1", p.Format)
	case len(p.Features)+len(p.Scores) > maxColumns:
		return fmt.Errorf("the profile has %d columns, at most %d", len(p.Features)+len(p.Scores), maxColumns)
	case p.Rows < 0:
		return fmt.Errorf("rows is %d", p.Rows)
	}
	for _, list := range [][]Column{p.Features, p.Scores} {
		seen := map[string]bool{}
		for i := range list {
			if err := list[i].validate(); err != nil {
				return fmt.Errorf("column %.64q: %w", list[i].Name, err)
			}
			if seen[list[i].Name] {
				return fmt.Errorf("column %.64q is listed twice", list[i].Name)
			}
			seen[list[i].Name] = true
		}
	}
	return nil
}

func (c *Column) validate() error {
	bins := len(c.Edges) + 1
	if c.Categories != nil {
		bins = len(c.Categories) + 1
	}
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return fmt.Errorf("its name has %d bytes; it must have 1 to %d", len(c.Name), maxName)
	case c.Categories != nil && c.Edges != nil:
		return errors.New("it has edges and categories; a column has one of them")
	case bins > maxBins:
		return fmt.Errorf("it has %d bins, at most %d", bins, maxBins)
	case len(c.Counts) != bins:
		return fmt.Errorf("it has %d counts for %d bins", len(c.Counts), bins)
	case c.Missing < 0 || c.Missing > maxCount:
		return fmt.Errorf("missing is %d", c.Missing)
	}
	for i, n := range c.Counts {
		if n < 0 || n > maxCount {
			return fmt.Errorf("count %d is %d; it must be from 0 to %d", i, n, int64(maxCount))
		}
	}
	for i, e := range c.Edges {
		if math.IsInf(e, 0) || math.IsNaN(e) || i > 0 && e <= c.Edges[i-1] {
			return fmt.Errorf("edge %d is %v; edges are finite and increase", i, e)
		}
	}
	return nil
}

// maxCount keeps sums of counts within an int64.
const maxCount = 1 << 48

// labels name the bins, for pages.
func (c *Column) labels() []string {
	out := make([]string, 0, len(c.Counts))
	if c.Categories != nil {
		return append(append(out, c.Categories...), "others")
	}
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	for i := range c.Counts {
		switch {
		case len(c.Edges) == 0:
			out = append(out, "all")
		case i == 0:
			out = append(out, "≤ "+text(c.Edges[0]))
		case i == len(c.Edges):
			out = append(out, "> "+text(c.Edges[i-1]))
		default:
			out = append(out, text(c.Edges[i-1])+" … "+text(c.Edges[i]))
		}
	}
	return out
}
