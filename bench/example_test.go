package bench_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"

	"weir/bench"
)

// Three clients at a time ask a server of the same API, and the record of the run has an outcome for each request.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"text\":\"A low dam.\",\"finish_reason\":\"stop\"}]}\n\n")
		fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	target := &bench.Target{BaseURL: server.URL, Endpoint: bench.EndpointCompletions, Model: "llama"}
	defer target.Close()
	w := bench.Workload{Name: "random", Count: 6, Seed: 1}
	w.Random.InputLen, w.Random.OutputLen = 5, 4
	requests, err := w.Requests()
	if err != nil {
		fmt.Println(err)
		return
	}
	load, err := bench.Serve(context.Background(), target, bench.ServeOptions{Requests: requests, Rate: math.Inf(1), Burstiness: 1, MaxConcurrency: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range load.Outcomes[:2] {
		fmt.Println(o.PromptTokens, o.OutputTokens, o.Chunks, o.Kind == "")
	}
	// Output:
	// 5 4 1 true
	// 5 4 1 true
}
