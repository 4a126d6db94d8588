package telemetry_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"go.uber.org/zap/zapcore"

	"weir/telemetry"
)

// A model joins the registry with a snapshot, which each scrape asks for. What happens to requests is observed as it happens.
func Example() {
	metrics, err := telemetry.NewMetrics(telemetry.Build{Version: "0.1.0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := metrics.AddModel(telemetry.ModelInfo{Name: "llama", MaxModelLen: 8192}, func() telemetry.Snapshot {
		return telemetry.Snapshot{Running: 3, Waiting: 1}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	model.ObserveFirstToken(0.12, "")

	scrape := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		for _, name := range []string{"vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:time_to_first_token_seconds_count{"} {
			if strings.HasPrefix(line, name) {
				fmt.Print(line)
			}
		}
	}
	// Output:
	// vllm:num_requests_running{engine="0",model_name="llama"} 3
	// vllm:num_requests_waiting{engine="0",model_name="llama"} 1
	// vllm:time_to_first_token_seconds_count{engine="0",model_name="llama"} 1
}

// A log line has counts, ids and durations, and never the text of a request.
func ExampleNewLogger() {
	var b strings.Builder
	log, level, err := telemetry.NewLogger(&b, false, telemetry.LogConfig{Level: "warn", Format: "json"})
	if err != nil {
		fmt.Println(err)
		return
	}
	log.Info("model loaded")
	level.SetLevel(zapcore.InfoLevel)
	log.Info("model loaded")
	fmt.Println(strings.Count(b.String(), "\n"), strings.Contains(b.String(), `"message":"model loaded"`))
	// Output: 1 true
}
