package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Golden is a request whose answer is known: what a prompt's answer holds, or what rows
// come to.
type Golden struct {
	// Questions to models that generate text have these.
	Prompt    string          `json:"prompt,omitempty"` // a user's message, or the text that a model without a chat template goes on with
	MaxTokens int             `json:"max_tokens,omitempty"`
	Text      string          `json:"text,omitempty"`   // the answer is this, except for space around it
	Regex     string          `json:"regex,omitempty"`  // the answer matches it somewhere, in RE2's notation
	Schema    json.RawMessage `json:"schema,omitempty"` // the answer is JSON that fits the schema

	// Questions to classical models have these, as V2 has them.
	Inputs    []Tensor `json:"inputs,omitempty"`
	Outputs   []Tensor `json:"outputs,omitempty"`   // that must come out; others may
	Tolerance float64  `json:"tolerance,omitempty"` // how far a number may be from the one here, as a share of it, or absolutely below 1; 0 is 1e-6
}

// Tensor is one of V2's tensors as JSON. Data may be nested.
type Tensor struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype,omitempty"`
	Shape    []int64 `json:"shape,omitempty"`
	Data     []any   `json:"data"`
}

const (
	maxGolden      = 100
	maxGoldenBytes = 64 << 10
	maxGoldenToken = 4096
	// DefaultGoldenTokens is how long the answer to a golden prompt may become.
	DefaultGoldenTokens = 256
	goldenTolerance     = 1e-6
)

// checkGolden says what is wrong with a plan's golden requests.
func checkGolden(list []Golden) error {
	var errs []error
	if len(list) > maxGolden {
		errs = append(errs, fmt.Errorf("there are %d golden requests, limit %d", len(list), maxGolden))
	}
	for i := range list {
		if err := list[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("golden %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

func (g *Golden) check() error {
	if (g.Prompt == "") == (len(g.Inputs) == 0) {
		return errors.New("it needs either a prompt, with text, regex or schema, or inputs with outputs")
	}
	size := len(g.Prompt) + len(g.Text) + len(g.Regex) + len(g.Schema)
	switch {
	case size > maxGoldenBytes:
		return fmt.Errorf("it has %d bytes, limit %d", size, maxGoldenBytes)
	case g.Prompt == "" && len(g.Outputs) == 0:
		return errors.New("its outputs are missing")
	case g.Prompt == "":
		return nil
	case g.Text == "" && g.Regex == "" && len(g.Schema) == 0:
		return errors.New("it says nothing of the answer; give text, regex or schema")
	case g.MaxTokens < 0 || g.MaxTokens > maxGoldenToken:
		return fmt.Errorf("max_tokens is %d; it must be from 1 to %d", g.MaxTokens, maxGoldenToken)
	}
	if _, err := regexp.Compile(g.Regex); err != nil {
		return fmt.Errorf("regex: %w", err)
	}
	_, err := g.schema()
	return err
}

// schema is nil where the answer need not fit one.
func (g *Golden) schema() (*jsonschema.Schema, error) {
	if len(g.Schema) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(g.Schema))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noDocuments{}) // a plan reads no files and asks no servers
	const name = "golden.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// noDocuments loads no documents.
type noDocuments struct{}

func (noDocuments) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %.80q; only what is in it can be referred to", url)
}

// Answered says what is wrong with an answer to the prompt; nil: nothing.
func (g *Golden) Answered(text string) error {
	text = strings.TrimSpace(text)
	if want := strings.TrimSpace(g.Text); want != "" && text != want {
		return fmt.Errorf("the answer to %.80q is %.80q; it must be %.80q", g.Prompt, text, want)
	}
	if g.Regex != "" {
		re, err := regexp.Compile(g.Regex)
		if err != nil {
			return err
		}
		if !re.MatchString(text) {
			return fmt.Errorf("the answer to %.80q is %.80q, which does not match %.80q", g.Prompt, text, g.Regex)
		}
	}
	s, err := g.schema()
	if s == nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("the answer to %.80q is %.80q, which does not fit its schema: %w", g.Prompt, text, err)
	}
	return nil
}

// Scored says what is wrong with a V2 answer to the inputs; nil: nothing.
func (g *Golden) Scored(answer []byte) error {
	var got struct{ Outputs []Tensor }
	d := json.NewDecoder(bytes.NewReader(answer))
	if err := d.Decode(&got); err != nil {
		return fmt.Errorf("the answer is no V2 answer: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the answer is no V2 answer: there is something behind it")
	}
	for _, want := range g.Outputs {
		found := false
		for _, out := range got.Outputs {
			if found = out.Name == want.Name; found {
				if err := g.same(&want, &out); err != nil {
					return err
				}
				break
			}
		}
		if !found {
			return fmt.Errorf("the answer has no output %.40q", want.Name)
		}
	}
	return nil
}

func (g *Golden) same(want, got *Tensor) error {
	w, o := flat(nil, want.Data), flat(nil, got.Data)
	if len(w) != len(o) {
		return fmt.Errorf("the output %.40q has %d values; %d must come out", want.Name, len(o), len(w))
	}
	tolerance := g.Tolerance
	if tolerance == 0 {
		tolerance = goldenTolerance
	}
	for i := range w {
		a, aNumber := w[i].(float64)
		b, bNumber := o[i].(float64)
		near := aNumber && bNumber && math.Abs(a-b) <= tolerance*math.Max(1, math.Abs(a))
		if !near && (aNumber || bNumber || w[i] != o[i]) {
			return fmt.Errorf("value %d of the output %.40q is %v; it must be %v, within %g", i+1, want.Name, o[i], w[i], tolerance)
		}
	}
	return nil
}

// flat are the values of nested lists.
func flat(into, from []any) []any {
	for _, x := range from {
		if list, ok := x.([]any); ok {
			into = flat(into, list)
			continue
		}
		if _, ok := x.(map[string]any); !ok { // not comparable, and no value of a tensor
			into = append(into, x)
		}
	}
	return into
}
