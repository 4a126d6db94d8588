package usage

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxDays bounds what one report reads; maxDetailedDays that by hour or key.
const (
	maxDays         = 400
	maxDetailedDays = 92
)

// QueryError is what is wrong with a parameter of a report.
type QueryError struct {
	Param, Message string
}

func (e *QueryError) Error() string { return e.Message }

// ParseQuery reads a report's parameters, all of them optional: from and to, dates of UTC, by default the running month;
// model and key; by, a list of day, hour and key; and those that more names. The parameters of more are checked by the caller.
func ParseQuery(v url.Values, now time.Time, more ...string) (Query, error) {
	now = now.UTC()
	q := Query{
		Model: v.Get("model"), Key: v.Get("key"),
		From: DayOf(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)), To: DayOf(now),
	}
	known := append([]string{"from", "to", "model", "key", "by", "format"}, more...)
	for name, values := range v {
		if !slices.Contains(known, name) {
			return q, &QueryError{name, fmt.Sprintf("unknown parameter %.40q; known are %s", name, strings.Join(known, ", "))}
		}
		if len(values) != 1 {
			return q, &QueryError{name, fmt.Sprintf("%s is given %d times; give it once", name, len(values))}
		}
	}
	if err := q.readBy(v.Get("by")); err != nil {
		return q, err
	}
	for _, p := range []struct {
		name string
		day  *Day
	}{{"from", &q.From}, {"to", &q.To}} {
		text := v.Get(p.name)
		if text == "" {
			continue
		}
		date, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return q, &QueryError{p.name, fmt.Sprintf("%s is %.40q; it must be a date of UTC such as 2026-11-30", p.name, text)}
		}
		*p.day = DayOf(date)
	}
	if v.Get("from") != "" && v.Get("to") == "" {
		q.To = max(q.To, q.From)
	}
	most := Day(maxDays)
	if q.Detailed() {
		most = maxDetailedDays
	}
	if q.To < q.From || q.To-q.From >= most {
		return q, &QueryError{"from", fmt.Sprintf("from %v to %v is no span of 1 to %d days", q.From, q.To, most)}
	}
	return q, nil
}

func (q *Query) readBy(text string) error {
	if text == "" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(word) {
		case "day":
		case "hour":
			q.Hours = true
		case "key":
			q.Keys = true
		default:
			return &QueryError{"by", fmt.Sprintf("by is %.40q; it takes day, hour and key, with commas between", text)}
		}
	}
	return nil
}
