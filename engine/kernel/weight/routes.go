package weight

import "weir/engine/kernel/isa"

// Routes say which experts the rows of a step meet, Use each, in ascending order, and by how much counts what they give.
type Routes struct {
	Use    int
	Expert []int32   // [rows][Use]
	Share  []float32 // [rows][Use]
}

// visits are the routes of rows, ordered by expert and row: the rows of an expert are a section.
type visits struct {
	sections []section
	experts  []int32   // of the sections
	picks    []pick    // [rows][Use]: of rows
	own      []pick    // of visits
	rows     []int32   // of visits
	shares   []float32 // of visits
	counts   []int32   // of experts, then where their next visit goes
}

// order takes in the routes of rows to so many experts.
func (v *visits) order(level isa.Level, r *Routes, rows, experts int) {
	n := rows * r.Use
	v.resize(n, experts)
	for _, e := range r.Expert[:n] {
		v.counts[e]++
	}
	first, panels := 0, 0
	for e, count := range v.counts {
		v.counts[e] = int32(first)
		if count == 0 {
			continue
		}
		c := section{panelSplit: cutRows(level, int(count)), row: first, panel: panels}
		for i := range int(count) {
			v.own[first+i] = pick{section: int32(len(v.sections)), row: int32(first + i)}
		}
		v.sections, v.experts = append(v.sections, c), append(v.experts, int32(e))
		first, panels = first+int(count), panels+c.panels
	}
	for i, e := range r.Expert[:n] {
		at := v.counts[e]
		v.counts[e]++
		v.picks[i], v.rows[at], v.shares[at] = v.own[at], int32(i/r.Use), r.Share[i]
	}
}

func (v *visits) resize(n, experts int) {
	if cap(v.picks) < n {
		more := n + n/4
		v.picks, v.own, v.rows, v.shares = make([]pick, more), make([]pick, more), make([]int32, more), make([]float32, more)
	}
	if len(v.counts) != experts {
		v.counts = make([]int32, experts)
	}
	clear(v.counts)
	v.sections, v.experts = v.sections[:0], v.experts[:0]
	v.picks, v.own, v.rows, v.shares = v.picks[:n], v.own[:n], v.rows[:n], v.shares[:n]
}

// spread takes each row to the sections of its routes; visited is where rows are visits already.
func (i *input) spread(v *visits, use int) {
	i.sections, i.picks, i.use = append(i.sections[:0], v.sections...), v.picks, use
}

func (i *input) visited(v *visits) {
	i.sections, i.picks, i.use = append(i.sections[:0], v.sections...), v.own, 1
}
