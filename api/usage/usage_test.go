package usage

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	for text, want := range map[string]Day{"1970-01-01": 0, "1969-12-31": -1, "2026-11-22": 20779, "2024-02-29": 19782} {
		midnight, err := time.Parse(time.DateOnly, text)
		if got := DayOf(midnight); err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d (%v), %v", text, got, got, err)
		}
	}
	east := time.FixedZone("", 9*60*60)
	if got := DayOf(time.Date(2026, 11, 22, 8, 59, 0, 0, east)); got.String() != "2026-11-21" {
		t.Errorf("a morning in the east is %v", got)
	}
}

func TestReportAsJSON(t *testing.T) {
	var sums Sums
	sums.Count(&Record{Input: 10, Cached: 4, Output: 3, Compute: 1500 * time.Millisecond, Cost: 1_000_001})
	sums.Count(&Record{Input: 1, Output: 2, Compute: time.Nanosecond, Cost: 20})
	report := Report{From: 20779, To: 20779, Rows: []Row{{Tenant: "a", Model: "m", Day: 20779, Sums: sums}}, Total: sums}
	got, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	const numbers = `"requests":2,"input_tokens":11,"cached_tokens":4,"output_tokens":5,"compute_seconds":1.500000001,"cost":1.000021}`
	want := `{"from":"2026-11-22","to":"2026-11-22","rows":[{"tenant":"a","model":"m","day":"2026-11-22",` + numbers +
		`],"total":{` + numbers + `}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMoneyIsWrittenExactly(t *testing.T) {
	for amount, want := range map[Money]string{
		0: "0.000000", 1: "0.000001", -1: "-0.000001", 12_345_678: "12.345678", -2_000_000: "-2.000000",
		math.MaxInt64: "9223372036854.775807", math.MinInt64: "-9223372036854.775808",
	} {
		if got, _ := amount.MarshalJSON(); string(got) != want {
			t.Errorf("%d reads %s, want %s", int64(amount), got, want)
		}
	}
}

func TestQueriesByHourAndKey(t *testing.T) {
	now := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
	q, err := ParseQuery(nil, now)
	if err != nil || q.To != DayOf(now) || q.To-q.From != 27 || q.Detailed() {
		t.Errorf("by default %v to %v: %v", q.From, q.To, err)
	}
	q, err = ParseQuery(url.Values{"by": {"key, hour"}, "from": {"2026-02-27"}, "key": {"k"}}, now)
	if err != nil || !q.Hours || !q.Keys || q.Key != "k" || q.To != DayOf(now) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, at := range []time.Time{now, time.Unix(0, 0), time.Date(2024, 2, 29, 0, 0, 0, 0, time.FixedZone("", 3600))} {
		h := HourOf(at)
		if h.Day() != DayOf(at) || h.String() != at.UTC().Truncate(time.Hour).Format(time.RFC3339) || DayOf(at).First() > h {
			t.Errorf("%v is in hour %v of day %v", at, h, h.Day())
		}
	}
}

// Names that clients chose do not become formulas in a spreadsheet, and other readers of CSV get what was written.
func TestCSV(t *testing.T) {
	hour := HourOf(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))
	r := Report{Rows: []Row{
		{Tenant: "acme", Model: `a "model", with=`, Day: hour.Day(), Hour: hour, Key: "0123456789", Sums: Sums{Requests: 1, Input: 20, Cached: 16, Output: 3, Compute: 1_500_000_000, Cost: -1}},
		{Tenant: "", Model: `=cmd|'/c calc'!A1`, Day: hour.Day()},
	}}
	var b strings.Builder
	if err := r.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 3 || len(rows[0]) != len(rows[1]) {
		t.Fatalf("%v %v", rows, err)
	}
	for i, want := range []string{
		"2026-11-22|2026-11-22T09:00:00Z|acme|a \"model\", with=|0123456789|1|20|16|3|1.5|-0.000001", `2026-11-22||| '=cmd|'/c calc'!A1||0|0|0|0|0|0.000000`,
	} {
		if got := strings.Join(rows[i+1], "|"); got != strings.Replace(want, "| '", "|'", 1) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSumsSaturate(t *testing.T) {
	sums := Sums{Requests: 1, Input: math.MaxInt64 - 1, Cost: math.MinInt64, Output: math.MaxInt64, Compute: -3}
	sums.Add(Sums{Requests: 1, Input: 1 << 60, Cost: -1, Output: math.MinInt64, Compute: 4})
	if want := (Sums{Requests: 2, Input: math.MaxInt64, Cost: math.MinInt64, Output: -1, Compute: 1}); sums != want {
		t.Errorf("%+v, want %+v", sums, want)
	}
}
