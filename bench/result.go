package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/internal/outfile"
)

// Result is what every measuring verb writes: where its figures come from, and
// the figures as rows. `bench serve` adds the fields of vLLM's result file, flat
// beside these. Compare reads any two.
type Result struct {
	Tool    string            `json:"tool"`    // "weir"
	Version string            `json:"version"` // of weir
	Kind    string            `json:"kind"`    // the verb: "serve", "engine", "batched", "micro"
	Date    string            `json:"date"`    // of the start, RFC 3339 in UTC
	Commit  string            `json:"commit"`  // of weir; "+dirty" if the tree had changes
	Go      string            `json:"go"`
	OS      string            `json:"os"`      // "linux/amd64"
	CPU     string            `json:"cpu"`     // of the machine that measured
	Threads int               `json:"threads"` // compute threads measured; 0 where another process computes
	Model   ModelRef          `json:"model"`
	Flags   map[string]string `json:"flags"` // all flags of the verb, without secrets
	Seed    uint64            `json:"seed"`
	Notes   []string          `json:"notes,omitempty"` // what a reader of the figures must know
	Rows    []Row             `json:"rows"`

	fields []field                    // further members, in order
	extra  map[string]json.RawMessage // members of a file that was read, beyond those above
}

// ModelRef says which model was measured, as far as it is known.
type ModelRef struct {
	Name        string `json:"name,omitempty"`        // as requests call it
	Path        string `json:"path,omitempty"`        // of its file
	Digest      string `json:"digest,omitempty"`      // of its file, hexadecimal
	Fingerprint string `json:"fingerprint,omitempty"` // a server's system_fingerprint
}

// Row is one figure. Its unit tells whether more is better: what is "per
// second" should grow, what is a time should shrink.
type Row struct {
	Name    string    `json:"name"` // unique in a result: "pp512", "median_ttft_ms"
	Unit    string    `json:"unit"` // "tok/s", "GB/s", "Gop/s", "ms", "s", "B" …; "" is a count
	Value   float64   `json:"value"`
	Samples []float64 `json:"samples,omitempty"` // of the repetitions, in the same unit
}

// field is a member of a result that has no place in its struct.
type field struct {
	name  string
	value any
}

// NewResult describes this machine and the start of a run of verb kind. The
// caller fills Version, Commit, Threads, Model, Flags and Seed.
func NewResult(kind string) *Result {
	return &Result{
		Tool: "weir", Kind: kind, Date: time.Now().UTC().Format(time.RFC3339),
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuName("/proc/cpuinfo"),
		Flags: map[string]string{}, Rows: []Row{},
	}
}

// Add appends a row whose value is the mean of its samples.
func (r *Result) Add(name, unit string, samples ...float64) {
	r.Rows = append(r.Rows, Row{Name: name, Unit: unit, Value: mean(samples), Samples: samples})
}

// AddValue appends a row that was measured once.
func (r *Result) AddValue(name, unit string, value float64) {
	r.Rows = append(r.Rows, Row{Name: name, Unit: unit, Value: value})
}

// set adds or replaces a member outside the struct.
func (r *Result) set(name string, value any) {
	for i := range r.fields {
		if r.fields[i].name == name {
			r.fields[i].value = value
			return
		}
	}
	r.fields = append(r.fields, field{name, value})
}

// plainResult is Result without its methods.
type plainResult Result

// MarshalJSON writes the struct's members, then the further ones in order.
func (r *Result) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal((*plainResult)(r))
	if err != nil {
		return nil, err
	}
	out = out[:len(out)-1] // the closing brace
	for _, f := range r.fields {
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
		out = append(append(append(append(out, ','), name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON keeps the members that the struct does not know, too.
func (r *Result) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainResult)(r)); err != nil {
		return err
	}
	return json.Unmarshal(data, &r.extra)
}

// What indentation spreads over several lines although it is read as one:
// arrays of numbers, and rows. A string of JSON has no line ends.
var (
	numberLists = regexp.MustCompile(`\[\n[-+0-9.eE,\s]+\]`)
	rowObjects  = regexp.MustCompile(`\{\n *"name": .*\n *"unit": .*\n *"value": .*(?:\n *"samples": .*)?\n *\}`)
)

// Write prints the result as indented JSON, lists of numbers and rows in a line
// each.
func (r *Result) Write(w io.Writer) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	text := numberLists.ReplaceAllFunc(out.Bytes(), func(list []byte) []byte {
		return bytes.ReplaceAll(bytes.Join(bytes.Fields(list), nil), []byte(","), []byte(", "))
	})
	text = rowObjects.ReplaceAllFunc(text, func(row []byte) []byte {
		lines := bytes.Split(row, []byte("\n"))
		for i := range lines {
			lines[i] = bytes.TrimSpace(lines[i])
		}
		inner := bytes.Join(lines[1:len(lines)-1], []byte(" "))
		return slices.Concat([]byte("{"), inner, []byte("}"))
	})
	_, err = w.Write(append(text, '\n'))
	return err
}

// WriteFile writes the result to path and makes the folders above it.
func (r *Result) WriteFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("save result: %w", err)
	}
	if err := outfile.Write(path, outfile.Public, r.Write); err != nil {
		return fmt.Errorf("save result: %w", err)
	}
	return nil
}

// maxResultBytes bounds a result file that is read.
const maxResultBytes = 256 << 20

// ReadResult reads a file of weir, or one of `vllm bench serve`, whose flat
// figures become rows.
func ReadResult(path string) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	defer f.Close()
	r, err := decodeResult(f)
	if err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	return r, nil
}

var errNoRows = errors.New("it has no rows and no figures of a known name; is it a result of weir bench or vllm bench serve?")

func decodeResult(from io.Reader) (*Result, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxResultBytes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxResultBytes {
		return nil, fmt.Errorf("more than %d MiB; save it without per-request details", maxResultBytes>>20)
	}
	r := new(Result)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	if len(r.Rows) == 0 {
		r.adopt()
	}
	if len(r.Rows) == 0 {
		return nil, errNoRows
	}
	for i, row := range r.Rows {
		if row.Name == "" || len(row.Name) > 200 {
			return nil, fmt.Errorf("row %d has a name of %d bytes, must be 1 to 200", i, len(row.Name))
		}
	}
	return r, nil
}

// adopt takes a foreign result's flat figures as rows.
func (r *Result) adopt() {
	if r.Rows = rowsOfFields(r.extra); len(r.Rows) == 0 || r.Tool != "" {
		return
	}
	r.Tool, r.Kind = "vllm bench", "serve"
	if json.Unmarshal(r.extra["model_id"], &r.Model.Name) != nil {
		r.Model.Name = ""
	}
}

// ParseMetadata reads "key=value", a further member of a result. Names that a
// result has itself are refused.
func ParseMetadata(s string) ([2]string, error) {
	key, value, ok := strings.Cut(s, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		return [2]string{}, fmt.Errorf("metadata %q must be KEY=VALUE", s)
	}
	raw, err := json.Marshal((*plainResult)(&Result{Notes: []string{""}}))
	if err != nil {
		return [2]string{}, err
	}
	var own map[string]json.RawMessage
	if err := json.Unmarshal(raw, &own); err != nil {
		return [2]string{}, err
	}
	if _, taken := own[key]; taken {
		return [2]string{}, fmt.Errorf("metadata %q: every result has a %s of its own; choose another name", s, key)
	}
	return [2]string{key, strings.TrimSpace(value)}, nil
}

// cpuName finds the processor's name in Linux's list of processors; elsewhere
// it is the architecture.
func cpuName(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// mean of no values is 0, as everywhere in a result: JSON has no NaN.
func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation is the standard deviation of the values; of a population, as
// numpy and vLLM compute it.
func Deviation(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(values)))
}

// Member reads a member of a file that was read which is not of this struct, such as vLLM's; false if it is not there or of another kind.
func (r *Result) Member(name string, into any) bool {
	raw, ok := r.extra[name]
	return ok && json.Unmarshal(raw, into) == nil
}
