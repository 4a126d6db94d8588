package usage

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	for text, want := range map[string]Day{"1970-01-01": 0, "1969-12-31": -1, "2026-11-22": 20779, "2024-02-29": 19782} {
		got, err := ParseDay(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d (%v), %v", text, got, got, err)
		}
	}
	east := time.FixedZone("", 9*60*60)
	if got := DayOf(time.Date(2026, 11, 22, 8, 59, 0, 0, east)); got.String() != "2026-11-21" {
		t.Errorf("a morning in the east is %v", got)
	}
	for _, text := range []string{"", "22.11.2026", "2026-11-31", "2026-11-22T00:00:00Z"} {
		if _, err := ParseDay(text); err == nil {
			t.Errorf("%q is taken", text)
		}
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
