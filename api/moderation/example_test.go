package moderation_test

import (
	"fmt"

	"weir/api/moderation"
)

// A policy refuses one word in requests, and takes addresses out of answers, however the answer is cut into pieces.
func Example() {
	spec, err := moderation.ParseSpec([]byte(`{"name": "shop", "rules": [
		{"id": "rivals", "words": ["acme"], "input": "block"},
		{"id": "addresses", "pii": ["email"], "output": "redact"}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := moderation.New(spec, moderation.Options{Secret: []byte("of this process")})
	if err != nil {
		fmt.Println(err)
		return
	}
	var report moderation.Report
	fmt.Println(p.Check("Is ACME cheaper?", &report, nil))

	f := p.NewFilter(moderation.Plain, false, &report)
	var sent []byte
	for _, piece := range []string{"Write to ann@exa", "mple.org", " today."} {
		sent, _ = f.Append(sent, []byte(piece))
	}
	sent, _ = f.Close(sent)
	fmt.Println(string(sent))
	for _, found := range report.Findings {
		fmt.Println(found.Rule, found.Side, found.Action, found.Count)
	}
	// Output:
	// true
	// Write to [email] today.
	// rivals input block 1
	// addresses output redact 1
}
