// Package usage counts what finished requests used: the record of one request, the
// ledger that keeps the sums, and the report per tenant and model, by day, hour and key.
package usage

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Record is what one finished request used, whatever its end was.
type Record struct {
	Ended   time.Time // its UTC date is the day that the request counts for
	Tenant  string
	Model   string
	Key     string        // id of the API key; "" where another proof counted
	Input   int64         // prompt tokens, Cached included
	Cached  int64         // prompt tokens that came out of the prefix cache
	Output  int64         // tokens generated
	Compute time.Duration // the request's share of the steps that computed it, and what it took beside them
	Cost    Money
	Beside  bool // compute time of a request to no model's answer, such as /tokenize: it counts as no request
}

// Money is an amount in millionths of the unit that prices are given in.
type Money int64

// MarshalJSON writes units with six decimals, exactly.
func (m Money) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	return fmt.Appendf(nil, "%s%d.%06d", sign, n/1_000_000, n%1_000_000), nil
}

// Seconds is a time that reads in JSON as a number of seconds.
type Seconds time.Duration

// MarshalJSON writes seconds with as many decimals as it takes.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// Sums are records added up.
type Sums struct {
	Requests int64   `json:"requests"`
	Input    int64   `json:"input_tokens"`
	Cached   int64   `json:"cached_tokens"`
	Output   int64   `json:"output_tokens"`
	Compute  Seconds `json:"compute_seconds"`
	Cost     Money   `json:"cost"`
}

// Count adds one request.
func (s *Sums) Count(r *Record) {
	one := int64(1)
	if r.Beside {
		one = 0
	}
	s.Add(Sums{Requests: one, Input: r.Input, Cached: r.Cached, Output: r.Output, Compute: Seconds(r.Compute), Cost: r.Cost})
}

// Add adds what others used. Sums that no number of 64 bits holds stay at the largest.
func (s *Sums) Add(o Sums) {
	s.Requests = sum(s.Requests, o.Requests)
	s.Input = sum(s.Input, o.Input)
	s.Cached = sum(s.Cached, o.Cached)
	s.Output = sum(s.Output, o.Output)
	s.Compute = sum(s.Compute, o.Compute)
	s.Cost = sum(s.Cost, o.Cost)
}

func sum[N ~int64](a, b N) N {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// Day is a date in UTC, counted in days since 1 January 1970.
type Day int32

const secondsPerDay = 24 * 60 * 60

// DayOf is the day of a moment.
func DayOf(t time.Time) Day {
	seconds := t.Unix()
	day := seconds / secondsPerDay
	if seconds%secondsPerDay < 0 {
		day--
	}
	return Day(day)
}

// String is the date, such as 2026-11-22.
func (d Day) String() string { return time.Unix(int64(d)*secondsPerDay, 0).UTC().Format(time.DateOnly) }

// MarshalText is String, for JSON.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Hour is an hour in UTC, counted in hours since 1 January 1970.
type Hour int32

// HoursPerDay is how many hours a Day has.
const HoursPerDay = 24

// HourOf is the hour of a moment.
func HourOf(t time.Time) Hour {
	return Hour(int64(DayOf(t))*HoursPerDay + int64(t.UTC().Hour()))
}

// Day is the day that the hour belongs to.
func (h Hour) Day() Day { return DayOf(time.Unix(int64(h)*60*60, 0)) }

// First is the day's first hour.
func (d Day) First() Hour { return Hour(d) * HoursPerDay }

// String is the hour's begin, such as 2026-11-22T09:00:00Z.
func (h Hour) String() string { return time.Unix(int64(h)*60*60, 0).UTC().Format(time.RFC3339) }

// MarshalText is String, for JSON.
func (h Hour) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Query says which usage to report. An empty Tenant, Model or Key stands for all.
type Query struct {
	Tenant, Model, Key string
	Alone              bool // Tenant is one tenant, also where it is empty
	From, To           Day  // both are in the report
	Hours, Keys        bool // rows are told apart by hour, and by key; what is older than KeptHours is in neither
}

// Detailed reports whether the sums per day do not answer the query.
func (q *Query) Detailed() bool { return q.Hours || q.Keys || q.Key != "" }

// KeptHours is for how long usage is kept by hour and key. By day it is kept for ever.
const KeptHours = 92 * 24 * time.Hour

// Row is the usage of one tenant and model, on a day or in an hour of it, of all keys or of one.
type Row struct {
	Tenant string `json:"tenant"`
	Model  string `json:"model"`
	Day    Day    `json:"day"`
	Hour   Hour   `json:"hour,omitempty"` // 0: of the whole day
	Key    string `json:"key,omitempty"`
	Sums
}

// Report is usage in the order of time, tenant, model and key, and its sum.
type Report struct {
	From  Day   `json:"from"`
	To    Day   `json:"to"`
	Rows  []Row `json:"rows"`
	Total Sums  `json:"total"`
}

// Ledger keeps usage; internal/store has it.
type Ledger interface {
	// Record counts a request. It neither waits for the store nor fails; what it
	// cannot keep is counted where the operator sees it.
	Record(r Record)
	// Report sums up usage. All that was recorded before, here, is in it.
	Report(ctx context.Context, q Query) (Report, error)
}
