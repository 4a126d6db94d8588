package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Length is how many tokens a prompt and its answer have.
type Length struct {
	Prompt int `json:"input_length"`
	Output int `json:"output_length"`
}

// ReadLengths reads the lengths of requests: of a result that `weir bench serve --save-detailed` or vLLM's wrote, or of a trace in
// Mooncake's published form, and how many requests came in a second; 0 is unknown.
func ReadLengths(path string) (lengths []Length, rate float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read lengths: %w", err)
	}
	defer f.Close()
	if lengths, rate, err = lengthsOf(f); err != nil {
		return nil, 0, fmt.Errorf("read lengths of %s: %w", path, err)
	}
	return lengths, rate, nil
}

func lengthsOf(from io.ReadSeeker) ([]Length, float64, error) {
	r, notResult := decodeResult(from)
	if notResult == nil {
		return r.lengths()
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	var lengths []Length
	w := Workload{Count: maxRequests}
	w.Trace.Shrink = 1
	list, at, err := w.drawTimedTrace(io.LimitReader(from, maxFileBytes))
	if err != nil {
		return nil, 0, fmt.Errorf("neither a result (%w) nor a trace (%w)", notResult, err)
	}
	for _, d := range list {
		lengths = append(lengths, Length{d.input, d.output})
	}
	if last := at[len(at)-1]; last > 0 {
		return lengths, float64(len(at)) / last, nil
	}
	return lengths, 0, nil
}

// lengths are those of a detailed result's finished requests.
func (r *Result) lengths() ([]Length, float64, error) {
	var inputs, outputs []int
	if !r.Member("input_lens", &inputs) || !r.Member("output_lens", &outputs) || len(inputs) != len(outputs) {
		return nil, 0, errors.New("the result has no lengths of its requests: save it with --save-detailed")
	}
	var lengths []Length
	for i := range inputs {
		if inputs[i] >= 1 && inputs[i] <= maxLen && outputs[i] >= 1 && outputs[i] <= maxLen {
			lengths = append(lengths, Length{inputs[i], outputs[i]})
		}
	}
	if len(lengths) == 0 {
		return nil, 0, errors.New("no request of it has a prompt and an answer")
	}
	for i := range r.Rows {
		if r.Rows[i].Name == "request_throughput" {
			return lengths, r.Rows[i].Value, nil
		}
	}
	return lengths, 0, nil
}
