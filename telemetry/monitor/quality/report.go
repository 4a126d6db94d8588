package quality

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Task is what a model was made for.
type Task string

// The tasks. Auto takes Classes where there are several scores, Binary where labels are
// 0 and 1 and scores between them, and else Numbers.
const (
	Auto        Task = "auto"
	BinaryTask  Task = "binary"
	ClassesTask Task = "classes"
	NumbersTask Task = "regression"
)

// Data are predictions with their labels, row by row.
type Data struct {
	Scores [][]float64 // by output, then row
	Labels []float64
	Slices []Column // what rows are told apart by
}

// Column is a property of rows.
type Column struct {
	Name    string
	Numbers []float64 // nil: Texts
	Texts   []string
}

// Report is the quality of all rows, and of slices of them.
type Report struct {
	Task   Task    `json:"task"`
	All    Slice   `json:"all"`
	Slices []Slice `json:"slices"`
}

// Slice is the quality of some rows. One of the three is set.
type Slice struct {
	Name    string      `json:"name"`
	Binary  *Binary     `json:"binary,omitempty"`
	Classes *Classes    `json:"classes,omitempty"`
	Numbers *Regression `json:"regression,omitempty"`
}

// maxSlices of a column; the rest of a column of strings is one more.
const maxSlices = 20

// Make measures data.
func Make(d Data, task Task) (Report, error) {
	if len(d.Labels) == 0 {
		return Report{}, errors.New("no row has a score and a label")
	}
	if task == Auto {
		task = d.task()
	}
	r := Report{Task: task, Slices: []Slice{}}
	every := make([]int, len(d.Labels))
	for i := range every {
		every[i] = i
	}
	var err error
	if r.All, err = d.slice("all", task, every); err != nil {
		return r, err
	}
	for _, c := range d.Slices {
		for _, g := range c.groups() {
			s, err := d.slice(g.name, task, g.rows)
			if err != nil {
				return r, err
			}
			r.Slices = append(r.Slices, s)
		}
	}
	return r, nil
}

func (d *Data) task() Task {
	if len(d.Scores) > 1 {
		return ClassesTask
	}
	for i, y := range d.Labels {
		if s := d.Scores[0][i]; y != 0 && y != 1 || s < 0 || s > 1 {
			return NumbersTask
		}
	}
	return BinaryTask
}

func (d *Data) slice(name string, task Task, rows []int) (Slice, error) {
	labels := pick(d.Labels, rows)
	s := Slice{Name: name}
	if task != ClassesTask && len(d.Scores) != 1 {
		return s, fmt.Errorf("the log has %d scores per row, and the task %s is about one: choose it with --score", len(d.Scores), task)
	}
	switch task {
	case BinaryTask:
		for _, y := range labels {
			if y != 0 && y != 1 {
				return s, fmt.Errorf("label %v: labels of the task %s are 0 and 1", y, task)
			}
		}
		b := OfBinary(pick(d.Scores[0], rows), labels)
		s.Binary = &b
	case ClassesTask:
		shares, classes := make([][]float64, len(rows)), make([]int, len(rows))
		for i, row := range rows {
			if classes[i] = int(labels[i]); float64(classes[i]) != labels[i] || classes[i] < 0 || classes[i] >= len(d.Scores) {
				return s, fmt.Errorf("label %v: labels of the task %s are indices of its %d scores", labels[i], task, len(d.Scores))
			}
			for k := range d.Scores {
				shares[i] = append(shares[i], d.Scores[k][row])
			}
		}
		c := OfClasses(shares, classes)
		s.Classes = &c
	case NumbersTask:
		r := OfRegression(pick(d.Scores[0], rows), labels)
		s.Numbers = &r
	default:
		return s, fmt.Errorf("task %q is unknown; known are %s, %s, %s and %s", task, Auto, BinaryTask, ClassesTask, NumbersTask)
	}
	return s, nil
}

func pick(list []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for i, row := range rows {
		out[i] = list[row]
	}
	return out
}

// group is a slice's rows.
type group struct {
	name string
	rows []int
}

// groups parts rows: by value where there are few, numbers by quarters of their rows,
// strings by the most frequent and the rest.
func (c *Column) groups() []group {
	by := map[string][]int{}
	for row := range max(len(c.Numbers), len(c.Texts)) {
		by[c.text(row)] = append(by[c.text(row)], row)
	}
	if c.Numbers != nil && len(by) > maxSlices {
		return c.quarters()
	}
	var out []group
	for value, rows := range by {
		out = append(out, group{value, rows})
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.rows), len(a.rows)), cmp.Compare(a.name, b.name))
	})
	if len(out) > maxSlices {
		rest := group{name: fmt.Sprintf("%d others", len(out)-maxSlices)}
		for _, g := range out[maxSlices:] {
			rest.rows = append(rest.rows, g.rows...)
		}
		out = append(out[:maxSlices], rest)
	}
	for i := range out {
		out[i].name = c.Name + " = " + out[i].name
	}
	return out
}

func (c *Column) text(row int) string {
	text := ""
	switch {
	case c.Numbers == nil:
		text = c.Texts[row]
	case !math.IsNaN(c.Numbers[row]):
		text = strconv.FormatFloat(c.Numbers[row], 'g', 6, 64)
	}
	if text == "" {
		return "missing"
	}
	return text
}

func (c *Column) quarters() []group {
	var present, absent []int
	for row, x := range c.Numbers {
		if math.IsNaN(x) {
			absent = append(absent, row)
		} else {
			present = append(present, row)
		}
	}
	slices.SortStableFunc(present, func(a, b int) int { return cmp.Compare(c.Numbers[a], c.Numbers[b]) })
	var out []group
	for from := 0; from < len(present); {
		to := min(max((len(out)+1)*len(present)/4, from+1), len(present))
		for to < len(present) && c.Numbers[present[to]] == c.Numbers[present[to-1]] { // equal values stay together
			to++
		}
		out = append(out, group{fmt.Sprintf("%s from %.6g to %.6g", c.Name, c.Numbers[present[from]], c.Numbers[present[to-1]]), present[from:to]})
		from = to
	}
	if len(absent) > 0 {
		out = append(out, group{c.Name + " = missing", absent})
	}
	return out
}
