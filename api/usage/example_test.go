package usage_test

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"weir/api/usage"
)

// Records add up to the rows of a report.
func Example() {
	ended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var sums usage.Sums
	sums.Count(&usage.Record{Ended: ended, Tenant: "acme", Model: "llama", Input: 200, Cached: 128, Output: 50, Compute: 300 * time.Millisecond})
	sums.Count(&usage.Record{Ended: ended, Tenant: "acme", Model: "llama", Input: 20, Output: 5, Cost: 1_500})

	day := usage.DayOf(ended)
	r := usage.Report{From: day, To: day, Rows: []usage.Row{{Tenant: "acme", Model: "llama", Day: day, Sums: sums}}, Total: sums}
	if err := r.WriteCSV(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// day,hour,tenant,model,key,requests,input_tokens,cached_tokens,output_tokens,compute_seconds,cost
	// 2026-03-01,,acme,llama,,2,220,128,55,0.3,0.001500
}

// Without parameters a report is of the running month.
func ExampleParseQuery() {
	now := time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)
	q, err := usage.ParseQuery(url.Values{"model": {"llama"}, "by": {"hour"}}, now)
	fmt.Println(q.Model, q.From, q.To, q.Hours, err)
	_, err = usage.ParseQuery(url.Values{"from": {"yesterday"}}, now)
	fmt.Println(err)
	// Output:
	// llama 2026-03-01 2026-03-17 true <nil>
	// from is "yesterday"; it must be a date of UTC such as 2026-11-30
}
