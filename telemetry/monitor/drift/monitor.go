package drift

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Rules say when a column drifts. Zero values take what stands beside each.
type Rules struct {
	Window  time.Duration // 10 min: how long rows are counted before they are judged
	MinRows int64         // 1000: a window with fewer goes on
	PSI     float64       // 0.2: from it on a window is off
	JS      float64       // 0: not judged
	KS      float64       // 0: not judged
	Windows int           // 3: so many in a row begin and end a drift
}

func (r Rules) withDefaults() Rules {
	if r.Window <= 0 {
		r.Window = 10 * time.Minute
	}
	if r.MinRows <= 0 {
		r.MinRows = 1000
	}
	if r.PSI <= 0 && r.JS <= 0 && r.KS <= 0 {
		r.PSI = 0.2
	}
	if r.Windows <= 0 {
		r.Windows = 3
	}
	return r
}

// off reports whether a window is above a threshold. A drift ends only below 3/4 of
// them, so that a value that wavers about one makes one drift and not many.
func (r Rules) off(d Distance, drifting bool) bool {
	scale := 1.0
	if drifting {
		scale = 0.75
	}
	over := func(value, threshold float64) bool { return threshold > 0 && value >= threshold*scale }
	return over(d.PSI, r.PSI) || over(d.JS, r.JS) || over(d.KS, r.KS)
}

// Monitor counts a version's features and scores against its profile. Number, Text and
// Rows may be called at any time from anywhere; they take some nanoseconds and allocate
// nothing. Time is an argument of the rest.
type Monitor struct {
	profile *Profile
	rules   Rules
	columns []counted
	live    atomic.Pointer[window]

	mu     sync.Mutex
	spare  *window
	states []state
	judged time.Time // zero: no window was yet
	last   int64     // rows of the window that was judged last
}

// counted is a column with its bins' place in a window.
type counted struct {
	*Column
	score bool
	first int // bin; the missing values are behind the last
	codes map[string]int
}

// window holds the counts of all columns' bins.
type window struct {
	rows   atomic.Int64
	began  time.Time
	counts []atomic.Int64
}

// state is what is known of a column.
type state struct {
	now      []int64 // by bin, of the window that was judged last
	distance Distance
	drifting bool
	streak   int       // windows in a row that speak against the present state
	history  []float64 // PSI of the last windows
}

// kept windows in a column's history.
const kept = 48

// NewMonitor counts from now on.
func NewMonitor(p *Profile, rules Rules, now time.Time) *Monitor {
	m := &Monitor{profile: p, rules: rules.withDefaults()}
	bins := 0
	add := func(list []Column, score bool) {
		for i := range list {
			c := counted{Column: &list[i], score: score, first: bins}
			if c.Categories != nil {
				c.codes = make(map[string]int, len(c.Categories))
				for code, name := range c.Categories {
					c.codes[name] = code
				}
			}
			m.columns = append(m.columns, c)
			bins += len(c.Counts) + 1
		}
	}
	add(p.Features, false)
	add(p.Scores, true)
	m.states = make([]state, len(m.columns))
	m.live.Store(&window{began: now, counts: make([]atomic.Int64, bins)})
	m.spare = &window{counts: make([]atomic.Int64, bins)}
	return m
}

// Feature finds the column of a feature, or -1.
func (m *Monitor) Feature(name string) int { return m.find(name, false) }

// Score finds the column of an output, or -1.
func (m *Monitor) Score(name string) int { return m.find(name, true) }

func (m *Monitor) find(name string, score bool) int {
	for i, c := range m.columns {
		if c.Name == name && c.score == score {
			return i
		}
	}
	return -1
}

// IsText reports whether a column is one of strings.
func (m *Monitor) IsText(column int) bool { return m.columns[column].codes != nil }

// Number counts a value of a column of numbers; NaN is missing.
func (m *Monitor) Number(column int, x float64) {
	c := &m.columns[column]
	at := len(c.Counts)
	if !math.IsNaN(x) {
		at = bin(c.Edges, x)
	}
	m.live.Load().counts[c.first+at].Add(1)
}

// Text counts a value of a column of strings; "" is missing.
func (m *Monitor) Text(column int, s string) {
	c := &m.columns[column]
	at := len(c.Counts)
	if s != "" {
		code, known := c.codes[s]
		if at = code; !known {
			at = len(c.Categories)
		}
	}
	m.live.Load().counts[c.first+at].Add(1)
}

// Rows counts rows whose values have been counted.
func (m *Monitor) Rows(n int) { m.live.Load().rows.Add(int64(n)) }

// Tick ends a window whose time is over and that has rows enough, and judges it. It
// reports whether it did. What is being counted during the call may fall into either
// window, or be lost by a few values.
func (m *Monitor) Tick(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.live.Load()
	if now.Sub(w.began) < m.rules.Window || w.rows.Load() < m.rules.MinRows {
		return false
	}
	for i := range m.spare.counts {
		m.spare.counts[i].Store(0)
	}
	m.spare.rows.Store(0)
	m.spare.began = now
	m.live.Store(m.spare)
	m.spare = w
	m.judged, m.last = now, w.rows.Load()
	for i := range m.columns {
		m.judge(i, w)
	}
	return true
}

func (m *Monitor) judge(column int, w *window) {
	c, s := &m.columns[column], &m.states[column]
	s.now = bins(c, w, s.now)
	reference := append(append(make([]int64, 0, len(c.Counts)+1), c.Counts...), c.Missing)
	s.distance = measure(reference, s.now, c.codes == nil)
	if len(s.history) == kept {
		s.history = append(s.history[:0], s.history[1:]...)
	}
	s.history = append(s.history, s.distance.PSI)
	if m.rules.off(s.distance, s.drifting) == s.drifting {
		s.streak = 0
		return
	}
	if s.streak++; s.streak == m.rules.Windows {
		s.drifting, s.streak = !s.drifting, 0
	}
}

// bins copies a column's counts.
func bins(c *counted, w *window, into []int64) []int64 {
	into = into[:0]
	for i := range len(c.Counts) + 1 {
		into = append(into, w.counts[c.first+i].Load())
	}
	return into
}

// Report is a version's drift at one time.
type Report struct {
	Model    string         `json:"model"`
	Version  string         `json:"version"`
	Judged   *time.Time     `json:"judged"`      // the end of the last window; null: none was yet
	Rows     int64          `json:"rows"`        // of that window
	Waiting  int64          `json:"window_rows"` // counted since
	Since    time.Time      `json:"window_since"`
	MinRows  int64          `json:"window_min_rows"`
	Drifting int            `json:"drifting"` // columns
	Columns  []ColumnReport `json:"columns"`
}

// ColumnReport is one column of a Report.
type ColumnReport struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`  // feature, score
	State    string   `json:"state"` // waiting, steady, drifting
	Distance Distance `json:"distance"`
	Missing  Shares   `json:"missing"`
	Bins     []Bin    `json:"bins"`

	History []float64 `json:"psi_history"` // oldest first
}

// Shares are those of all rows.
type Shares struct {
	Reference float64 `json:"reference"`
	Now       float64 `json:"now"`
}

// Bin is a range of numbers, or a category.
type Bin struct {
	Label string `json:"label"`
	Shares
}

// Report describes the last window.
func (m *Monitor) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.live.Load()
	r := Report{
		Model: m.profile.Model, Version: m.profile.Version, Rows: m.last, Waiting: w.rows.Load(), Since: w.began, MinRows: m.rules.MinRows,
		Columns: make([]ColumnReport, len(m.columns)),
	}
	if !m.judged.IsZero() {
		at := m.judged
		r.Judged = &at
	}
	for i := range m.columns {
		r.Columns[i] = m.columns[i].report(&m.states[i])
		if m.states[i].drifting {
			r.Drifting++
		}
	}
	return r
}

func (c *counted) report(s *state) ColumnReport {
	out := ColumnReport{Name: c.Name, Kind: "feature", State: "waiting", Distance: s.distance, History: append([]float64{}, s.history...)}
	if c.score {
		out.Kind = "score"
	}
	if s.now != nil {
		out.State = "steady"
	}
	if s.drifting {
		out.State = "drifting"
	}
	reference, now := float64(total(c.Counts)+c.Missing), float64(total(s.now))
	share := func(n int64, of float64) float64 {
		if of == 0 {
			return 0
		}
		return float64(n) / of
	}
	at := func(i int) int64 {
		if i >= len(s.now) {
			return 0
		}
		return s.now[i]
	}
	out.Missing = Shares{share(c.Missing, reference), share(at(len(c.Counts)), now)}
	for i, label := range c.labels() {
		out.Bins = append(out.Bins, Bin{label, Shares{share(c.Counts[i], reference), share(at(i), now)}})
	}
	return out
}
