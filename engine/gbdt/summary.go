package gbdt

import "regexp"

// Summary is what inspect prints of a model.
type Summary struct {
	Format      string
	Version     string // of the format or of the library; empty where the file does not say
	Objective   string
	Transform   string // of margins to outputs
	Kernel      string
	Features    int
	Outputs     int
	Trees       int
	Nodes       int // with a test
	Leaves      int
	DepthMax    int     // tests from the root to the farthest leaf
	DepthMean   float64 // of trees' greatest depths
	Categorical int     // features that are tested by category
	Linear      bool    // leaves have linear models
	Double      bool    // results are float64
	Bytes       int     // of the file; 0 where there was none
	Notes       []string
}

// Summary describes the model.
func (m *Model) Summary() Summary {
	e := m.ensemble
	s := Summary{
		Format: e.Format, Version: e.Version, Objective: e.Objective, Transform: e.Transform.String(), Kernel: m.kernelName(),
		Features: e.Features, Outputs: m.Outputs(), Trees: len(e.Trees), Nodes: len(e.Feature), Leaves: len(e.Values) / e.Width,
		Linear: e.Linear != nil, Double: e.Sums64, Bytes: m.bytes, Notes: e.Notes,
	}
	total := 0
	for t := range e.Trees {
		depth := e.depth(t)
		s.DepthMax = max(s.DepthMax, depth)
		total += depth
	}
	if s.Trees > 0 {
		s.DepthMean = float64(total) / float64(s.Trees)
	}
	categorical := make(map[int32]bool)
	for n, rule := range e.Rules {
		if rule&Member != 0 {
			categorical[e.Feature[n]] = true
		}
	}
	s.Categorical = len(categorical)
	return s
}

// depth gives the tests from the root of tree t to its farthest leaf.
func (e *Ensemble) depth(t int) int {
	lo, hi := e.nodes(t)
	below := make([]int, hi-lo) // tests down to the farthest leaf, this one included
	for n := hi - 1; n >= lo; n-- {
		deepest := 0
		for _, child := range [2]int32{e.Left[n], e.Right[n]} {
			if child >= 0 {
				deepest = max(deepest, below[child-lo])
			}
		}
		below[n-lo] = deepest + 1
	}
	if lo == hi {
		return 0
	}
	return below[0]
}

var releasePattern = regexp.MustCompile(`(?:tags/v|release )([0-9][0-9.]{0,20})`)

// release finds a release's number in CatBoost's account of how it was built.
func release(info string) string {
	if m := releasePattern.FindStringSubmatch(info); m != nil {
		return m[1]
	}
	return ""
}
