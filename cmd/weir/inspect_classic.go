package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"weir/configs"
	"weir/engine/classic"
	"weir/internal/console"
	"weir/internal/tensor"
	"weir/internal/unit"
)

// classicReport is what inspect knows of a classical model.
type classicReport struct {
	Model   string         `json:"model"`
	Path    string         `json:"path"`
	Bytes   int            `json:"file_bytes"`
	Memory  int64          `json:"memory_bytes"`
	Details map[string]any `json:"details"`
	Inputs  []specReport   `json:"inputs"`
	Outputs []specReport   `json:"outputs"`
	Kernel  string         `json:"kernel"`
	Batches bool           `json:"batches"`
	Notes   []string       `json:"notes,omitempty"` // what a user should know of the file
	Nanos   [2]int64       `json:"nanoseconds_of_1_and_64_rows"`

	order []classic.Detail
}

type specReport struct {
	Name     string   `json:"name"`
	Datatype string   `json:"datatype"`
	Shape    []int64  `json:"shape"`
	Labels   []string `json:"labels,omitempty"`
}

// isClassic reports whether a file is no GGUF file and may be a classical model.
func isClassic(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a pipe or a device has no end
		return false
	}
	f, err := os.Open(path) //nolint:gosec // the user's own file
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head)
	return n > 0 && string(head[:n]) != "GGUF" && !strings.HasSuffix(path, ".gguf")
}

// loadClassic loads a classical model as serve would, except for its golden rows.
func loadClassic(path string) (v *classic.Version, fileBytes int, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file
	if err != nil {
		return nil, 0, err
	}
	c := configs.Default()
	c.Predict.Models = []string{path}
	if v, err = classic.Load(data, c.ClassicModels()[0].Name, classic.Options{}); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, notClassic(path, err))
	}
	return v, len(data), nil
}

// notClassic says of a file that did not load what it is not: by its content, and else by its name.
func notClassic(path string, err error) error {
	switch {
	case !errors.Is(err, classic.ErrFormat): // it is a model, and broken or not supported
		return err
	case strings.HasSuffix(path, ".onnx"):
		return fmt.Errorf("its name ends with .onnx, but it is no ONNX model: %w; export it again, or fetch it where this is a pointer to the file (git lfs pull)", err)
	}
	return fmt.Errorf("it is no GGUF file and no classical model: %w", err)
}

// inspectClassic reports what a classical model is.
func inspectClassic(path string) (*classicReport, error) {
	v, fileBytes, err := loadClassic(path)
	if err != nil {
		return nil, fmt.Errorf("inspect %w", err)
	}
	d := v.Describe()
	r := &classicReport{
		Model: d.Name, Path: path, Bytes: fileBytes, Memory: v.Bytes(), Details: make(map[string]any), order: v.Details(),
		Inputs: specReports(d.Inputs, nil), Outputs: specReports(d.Outputs, d.Labels), Kernel: v.Kernel(), Batches: v.Batches(), Notes: v.Notes(),
		Nanos: [2]int64{v.Estimate(1).Nanoseconds(), v.Estimate(64).Nanoseconds()},
	}
	for _, x := range r.order {
		r.Details[x.Name] = x.Value
	}
	return r, nil
}

func specReports(specs []tensor.Spec, labels map[string][]string) []specReport {
	list := make([]specReport, len(specs))
	for i, s := range specs {
		list[i] = specReport{s.Name, s.Type.String(), s.Shape, labels[s.Name]}
	}
	return list
}

func (r *classicReport) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *classicReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, console.Printable(fmt.Sprintf(format, args...)))
	}
	line("model", "%s", r.Model)
	line("file", "%s, %s", r.Path, unit.Bytes(int64(r.Bytes)))
	for _, d := range r.order {
		if value := fmt.Sprint(d.Value); value != "" && value != "false" {
			line(strings.ReplaceAll(d.Name, "_", " "), "%s", value)
		}
	}
	for _, s := range r.Inputs {
		line("input", "%s %s %v", s.Name, s.Datatype, s.Shape)
	}
	for _, s := range r.Outputs {
		text := ""
		if len(s.Labels) > 0 {
			text = " of " + strings.Join(s.Labels, ", ")
		}
		line("output", "%s %s %v%s", s.Name, s.Datatype, s.Shape, text)
	}
	line("kernel", "%s", r.Kernel)
	line("batches", "%v", r.Batches)
	line("time", "about %v for 1 row, %v for 64, on one core", time.Duration(r.Nanos[0]), time.Duration(r.Nanos[1]))
	for _, note := range r.Notes {
		line("note", "%s", note)
	}
	return t.Flush()
}
