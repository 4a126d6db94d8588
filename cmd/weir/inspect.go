package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
	"weir/internal/unit"
	"weir/tokenizer"
)

func newInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect [MODEL]",
		Short: "Show what a model file holds and the memory that it needs",
		Long: "Show metadata, tensors and types of a GGUF file, and the memory that weir would use to\n" +
			"run it with the same flags as serve. Weights are not read. Without an argument it\n" +
			"shows the built-in model. Of a tree or ONNX model it shows format, objective, trees, inputs, outputs,\n" +
			"kernel and time.",
		Example: "  weir inspect model.gguf\n" +
			"  weir inspect model.gguf --max-model-len 8192 --kv-cache-dtype q8_0\n" +
			"  weir inspect model.gguf --tensors --json > model.json",
		Args: atMost(1),
	}
	opts := addOptions(cmd, engineSections)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	tensors := cmd.Flags().Bool("tensors", false, "list every tensor")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if err := choosePath(&c, args); err != nil {
			return err
		}
		locator := newLocator(cmd)
		locator.any = true
		if err := locator.locate(cmd.Context(), &c); err != nil {
			return err
		}
		if c.Model.Path != "" && isClassic(c.Model.Path) {
			r, err := inspectClassic(c.Model.Path)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return r.printJSON(cmd.OutOrStdout())
			}
			return r.print(cmd.OutOrStdout())
		}
		r, err := inspect(c)
		if err != nil {
			return err
		}
		if *asJSON {
			return r.printJSON(cmd.OutOrStdout())
		}
		return r.print(cmd.OutOrStdout(), *tensors)
	}
	return cmd
}

// report is what inspect knows of a file.
type report struct {
	Model     string          `json:"model"`
	Path      string          `json:"path"` // empty: the built-in model
	Version   uint32          `json:"gguf_version"`
	FileBytes int64           `json:"file_bytes"`
	Params    uint64          `json:"parameters"`
	Metadata  []entry         `json:"metadata"`
	Types     []typeSum       `json:"tensor_types"`
	Tensors   []tensorSummary `json:"tensors"`
	Supported bool            `json:"supported"`
	WhyNot    string          `json:"why_not,omitempty"`
	Tokenizer string          `json:"tokenizer,omitempty"`
	Chats     bool            `json:"chats"`
	WhyNoChat string          `json:"why_no_chat,omitempty"`
	ChatNote  string          `json:"chat_note,omitempty"`
	Calls     string          `json:"tool_call_parser,omitempty"` // how it writes tool calls
	Thoughts  []string        `json:"thoughts,omitempty"`         // what opens and closes one
	Engine    *engineReport   `json:"engine,omitempty"`
}

// adapterReport is a LoRA adapter of the model.
type adapterReport struct {
	Name     string  `json:"name"`
	Rank     int     `json:"rank"`     // the largest of its matrices
	Matrices int     `json:"matrices"` // of the model that it changes
	Scale    float32 `json:"scale"`
	Bytes    int64   `json:"bytes"` // in memory
}

// addAdapters tells of the adapters of a configuration, which fit the model.
func (e *engineReport) addAdapters(list []llm.AdapterInfo) {
	for _, a := range list {
		e.Adapters = append(e.Adapters, adapterReport{a.Name, a.Rank, a.Tensors, a.Scale, a.Bytes})
		e.AdapterBytes += a.Bytes
	}
}

// printAdapters tells of the adapters.
func (e *engineReport) printAdapters(row func(...string)) {
	for i, a := range e.Adapters {
		title := ""
		if i == 0 {
			title = "adapters"
		}
		row(title, fmt.Sprintf("%s: rank %d, of %d matrices, in %s", console.Printable(a.Name), a.Rank, a.Matrices, unit.Bytes(a.Bytes)))
	}
}

type entry struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"` // arrays: their first items
	Items int    `json:"items,omitempty"`
}

type typeSum struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

type tensorSummary struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Dims  []uint64 `json:"dims"` // contiguous dimension first
	Bytes int64    `json:"bytes"`
}

// inspect reads a file's header. That weir cannot run the model is part of
// the report, not an error.
func inspect(c configs.Config) (*report, error) {
	f, err := local.Open(c.Model.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &report{
		Model: c.Model.Name(), Path: c.Model.Path, Version: f.Version,
		FileBytes: f.FileBytes(), Params: f.ParamCount(),
	}
	for _, kv := range f.KV {
		r.Metadata = append(r.Metadata, newEntry(kv))
	}
	r.addTensors(f.Tensors)
	options, err := local.EngineOptions(c)
	if err != nil {
		return nil, err
	}
	if r.Engine, err = describeConfigured(f, c, options); err != nil {
		r.WhyNot = err.Error()
	}
	r.checkText(f, c.Model)
	r.Supported = r.WhyNot == ""
	return r, nil
}

// checkText notes whether weir can tokenise text for the model, and render chats
// with the template of --chat-template or, where that is empty, the model's own.
func (r *report) checkText(f *gguf.File, c configs.Model) {
	t, err := tokenizer.New(f.Value)
	if err != nil {
		r.WhyNoChat = err.Error()
		r.WhyNot = cmp.Or(r.WhyNot, r.WhyNoChat)
		return
	}
	r.Tokenizer = t.Kind()
	if r.Engine != nil && r.Engine.Embeds {
		r.WhyNoChat = "it embeds texts and writes none"
		return
	}
	chosen, err := local.ChooseTemplate(c, f, t)
	if err != nil { // serve would not start
		r.WhyNoChat = err.Error()
		r.WhyNot = cmp.Or(r.WhyNot, r.WhyNoChat)
		return
	}
	if choice := c.ChatTemplate; choice != "" {
		chosen.Note = cmp.Or(chosen.Note, "with --chat-template "+choice)
	}
	if r.Chats = chosen.Template != nil; !r.Chats {
		r.WhyNoChat = chosen.Why.Error()
	}
	r.ChatNote = chosen.Note
	if chosen.Family == nil {
		return
	}
	r.Calls = chosen.Family.Name
	if open, end := chosen.Family.ThoughtMarkers(); chosen.Family.Thinks {
		r.Thoughts = []string{open, end}
	}
}

// shownItems is how many items of an array are reported.
const shownItems = 8

func newEntry(kv gguf.KeyValue) entry {
	v := reflect.ValueOf(kv.Value)
	if v.Kind() != reflect.Slice {
		return entry{Key: kv.Key, Type: v.Type().String(), Value: jsonValue(kv.Value)}
	}
	items := make([]any, min(v.Len(), shownItems))
	for i := range items {
		items[i] = jsonValue(v.Index(i).Interface())
	}
	return entry{Key: kv.Key, Type: v.Type().String(), Value: items, Items: v.Len()}
}

// jsonValue gives numbers that JSON cannot hold as text.
func jsonValue(v any) any {
	switch f := v.(type) {
	case float32:
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return fmt.Sprint(f)
		}
	case float64:
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f)
		}
	}
	return v
}

func (r *report) addTensors(tensors []gguf.Tensor) {
	sums := make(map[string]*typeSum)
	for i := range tensors {
		t := &tensors[i]
		name := t.Type.String()
		if sums[name] == nil {
			sums[name] = &typeSum{Type: name}
		}
		sums[name].Tensors++
		sums[name].Bytes += t.Bytes
		r.Tensors = append(r.Tensors, tensorSummary{t.Name, name, t.Dims, t.Bytes})
	}
	for _, s := range slices.SortedFunc(maps.Values(sums), func(a, b *typeSum) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	}) {
		r.Types = append(r.Types, *s)
	}
}

func (r *report) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func (r *report) print(w io.Writer, tensors bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, "  "+strings.Join(cells, "\t")) }
	fmt.Fprintf(table, "%s\n", console.Printable(r.Model))
	row("file", fmt.Sprintf("GGUF version %d, %s, %s parameters, %d tensors",
		r.Version, unit.Bytes(r.FileBytes), unit.Count(r.Params), len(r.Tensors)))
	r.printEngine(row)
	if len(r.Types) > 0 {
		fmt.Fprintln(table, "\nweights")
	}
	for _, t := range r.Types {
		row(t.Type, fmt.Sprintf("%d tensors", t.Tensors), unit.Bytes(t.Bytes))
	}
	fmt.Fprintln(table, "\nmetadata")
	for _, e := range r.Metadata {
		row(console.Printable(e.Key), console.Printable(e.text()))
	}
	if tensors {
		fmt.Fprintln(table, "\ntensors")
		for _, t := range r.Tensors {
			row(console.Printable(t.Name), t.Type, dims(t.Dims), unit.Bytes(t.Bytes))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// shownRunes is how much of a text is shown.
const shownRunes = 72

func (e entry) text() string {
	text := fmt.Sprint(e.Value)
	if e.Items > 0 {
		text = fmt.Sprintf("%d items %q", e.Items, e.Value)
		if !strings.Contains(e.Type, "string") {
			text = fmt.Sprintf("%d items %v", e.Items, e.Value)
		}
	} else if s, ok := e.Value.(string); ok {
		text = strconv.Quote(s)
	}
	if utf8.RuneCountInString(text) > shownRunes {
		text = string([]rune(text)[:shownRunes]) + " …"
	}
	return text
}

func dims(d []uint64) string {
	parts := make([]string, len(d))
	for i, n := range d {
		parts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(parts, " x ")
}
