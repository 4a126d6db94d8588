package feature

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome says where a value came from, or why there is none.
type Outcome uint8

// The outcomes by the names that metrics and reports have. From NoEntity on they are
// reasons why the default stands in, or nothing.
const (
	Requested   Outcome = iota // the request has it
	Constant                   // the manifest's
	Cached                     // read of the store within cache.fresh
	Stored                     // read of the store now
	Outdated                   // of the cache, because the store does not answer
	NoEntity                   // neither the value nor the entity's id is in the request
	Absent                     // the store does not have it, or the request leaves it out
	TooOld                     // older than max_staleness, or of unknown age
	Mistyped                   // not of the feature's type
	Timeout                    // the store did not answer in the request's time
	Unavailable                // the store cannot be reached, or could not recently
	Unknown                    // no known category, and on_violation is clip
	outcomes
)

var outcomeNames = [outcomes]string{
	"request", "constant", "cache", "store", "outdated", "no_entity", "absent", "too_old", "wrong_type", "timeout", "unavailable", "unknown",
}

func (o Outcome) String() string { return outcomeNames[o] }

// resolved reports whether the value is from a source.
func (o Outcome) resolved() bool { return o < NoEntity }

// Rows are the features of a request, resolved. They are valid until the call that they
// are passed to returns.
type Rows struct {
	manifest *Manifest
	n        int
	values   []Value   // row by row
	outcomes []Outcome // of each
	violated []int32   // by feature: values outside of the range
}

// Len is the number of rows.
func (r *Rows) Len() int { return r.n }

// Manifest says what the columns are.
func (r *Rows) Manifest() *Manifest { return r.manifest }

// Value is a feature of a row.
func (r *Rows) Value(row, feature int) Value { return r.values[row*len(r.manifest.Features)+feature] }

// Number is a feature of a row as a number: NaN where it is missing, a category by its
// index.
func (r *Rows) Number(row, feature int) float64 {
	return r.manifest.Features[feature].number(r.Value(row, feature))
}

// Defaulted lists the features of a row that no source gave, separated by spaces.
func (r *Rows) Defaulted(row int) string {
	var names []byte
	for f := range r.manifest.Features {
		if r.Outcome(row, f).resolved() {
			continue
		}
		if len(names) > 0 {
			names = append(names, ' ')
		}
		names = append(names, r.manifest.Features[f].Name...)
	}
	return string(names)
}

// Outcome says where the value came from.
func (r *Rows) Outcome(row, feature int) Outcome {
	return r.outcomes[row*len(r.manifest.Features)+feature]
}

// Violations counts the rows whose value of a feature was outside of its range.
func (r *Rows) Violations(feature int) int { return int(r.violated[feature]) }

// reset makes room for n rows without values.
func (r *Rows) reset(m *Manifest, n int) {
	cells := n * len(m.Features)
	if cap(r.values) < cells {
		r.values, r.outcomes = make([]Value, cells), make([]Outcome, cells)
	}
	r.manifest, r.n, r.values, r.outcomes = m, n, r.values[:cells], r.outcomes[:cells]
	clear(r.values)
	clear(r.outcomes)
	if cap(r.violated) < len(m.Features) {
		r.violated = make([]int32, len(m.Features))
	}
	r.violated = r.violated[:len(m.Features)]
	clear(r.violated)
}

// reported bounds how many features a note lists.
const reported = 32

// featureList lists features for a note, as far as it has room.
type featureList struct {
	features []string
	more     int
}

func (t *featureList) add(format string, args ...any) {
	if len(t.features) == reported {
		t.more++
		return
	}
	t.features = append(t.features, fmt.Sprintf(format, args...))
}

func (t *featureList) String() string {
	text := strings.Join(t.features, ", ")
	if t.more > 0 {
		text += fmt.Sprintf(", and %d more", t.more)
	}
	return text
}

// defaulted lists features that no source gave, as "age:timeout", with how many rows
// where it is not all of them.
func (r *Rows) defaulted() string { return r.list(func(o Outcome) bool { return !o.resolved() }) }

// outdated lists features that the cache gave because the store did not answer.
func (r *Rows) outdated() string { return r.list(func(o Outcome) bool { return o == Outdated }) }

func (r *Rows) list(which func(Outcome) bool) string {
	if !slices.ContainsFunc(r.outcomes, which) { // nearly always
		return ""
	}
	var t featureList
	for f := range r.manifest.Features {
		var count [outcomes]int
		for row := range r.n {
			count[r.Outcome(row, f)]++
		}
		for o, n := range count {
			switch {
			case n == 0 || !which(Outcome(o)): //nolint:gosec // an index
			case n == r.n:
				t.add("%s:%s", r.manifest.Features[f].Name, outcomeNames[o])
			default:
				t.add("%s:%s:%d/%d", r.manifest.Features[f].Name, outcomeNames[o], n, r.n)
			}
		}
	}
	return t.String()
}

// broken lists the features whose values were outside of their range, with what was
// done about them.
func (r *Rows) broken() string {
	var t featureList
	for f, n := range r.violated {
		if n > 0 {
			t.add("%s:%s:%d/%d", r.manifest.Features[f].Name, r.manifest.Features[f].OnRange, n, r.n)
		}
	}
	return t.String()
}
