// Package moderation says what texts of requests and answers may hold: policies of rules, the
// filter that answers pass through while they are written, and what is reported of it. It
// is pure: it opens no files, and what it knows of texts leaves it as names, counts and
// digests only.
package moderation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/jsonfault"
)

// Side is a direction of texts.
type Side string

// The sides.
const (
	Input  Side = "input"
	Output Side = "output"
)

// Action is what a rule does about a text that it finds.
type Action string

// The actions.
const (
	Ignore Action = "ignore"
	Flag   Action = "flag"   // report it
	Redact Action = "redact" // replace it; of answers only
	Block  Action = "block"  // refuse the request, or end the answer before it
)

// Roles are the values of Spec.Roles, as chats have them.
var Roles = []string{"system", "user", "assistant", "tool"}

// Spec is a policy as a file has it.
type Spec struct {
	Name           string     `json:"name,omitempty"`
	HoldBackTokens int        `json:"hold_back_tokens,omitempty"` // 0: DefaultHoldBackTokens
	Roles          []string   `json:"roles,omitempty"`            // whose messages are read; none: those of users and tools
	Rules          []RuleSpec `json:"rules"`
}

// RuleSpec is one rule of a policy. It has one of words, patterns, kinds of personal data and a
// classifier, or several of the first three.
type RuleSpec struct {
	ID       string `json:"id"`
	Category string `json:"category,omitempty"` // OpenAI's or another; empty: pii of personal data, else the id

	Words         []string `json:"words,omitempty"`    // whole words or phrases
	Patterns      []string `json:"patterns,omitempty"` // of package regexp
	WordsFile     string   `json:"words_file,omitempty"`
	PatternsFile  string   `json:"patterns_file,omitempty"` // one on a line, as in WordsFile; # begins a comment
	PII           []string `json:"pii,omitempty"`           // of PIIKinds
	CaseSensitive bool     `json:"case_sensitive,omitempty"`

	// MaxMatchBytes is how long a match may get. 0 is as long as the patterns say, which must
	// have an end then.
	MaxMatchBytes int `json:"max_match_bytes,omitempty"`

	Classifier *ClassifierSpec `json:"classifier,omitempty"`

	Input       Action `json:"input,omitempty"`       // empty: ignore
	Output      Action `json:"output,omitempty"`      // empty: ignore
	Replacement string `json:"replacement,omitempty"` // of Redact; empty: the category, or the kind of data, in brackets
}

// ClassifierSpec names a model that scores texts.
type ClassifierSpec struct {
	Model     string  `json:"model"`               // a reranker, or a text encoder
	Question  string  `json:"question,omitempty"`  // that a reranker scores texts against
	Predictor string  `json:"predictor,omitempty"` // a classical model that reads the vectors of a text encoder
	Threshold float64 `json:"threshold"`           // from this score on the rule has found something
}

// DefaultHoldBackTokens are as many as most names, numbers and phrases have.
const DefaultHoldBackTokens = 32

// Limits of policies.
const (
	MaxSpecBytes  = 4 << 20
	MaxFileBytes  = 4 << 20 // of a file with words or patterns
	maxHoldBack   = 256
	maxRules      = 1000
	maxNameBytes  = 64
	maxMarkBytes  = 256
	maxMatchBytes = 1024
	maxInsts      = 1 << 20 // of all patterns

	// bytesPerToken turns the window from tokens into bytes, which do not depend on how a
	// text is divided: English has about four bytes per token, other texts fewer.
	bytesPerToken = 4
)

// Policy is a Spec that was checked and compiled. It is immutable except for what it remembers, and
// safe for concurrent use.
type Policy struct {
	name        string
	roles       []string
	rules       []*rule
	windowBytes int
	secret      []byte
	input       sideRules
	output      sideRules
	filters     bool // output has rules
	reads       bool // input has rules
	all         *automaton
	classifiers []*rule
}

// sideRules are the rules of one side by what they do.
type sideRules struct{ block, redact, flag *automaton }

// rule is one rule of a policy, on one side or on both.
type rule struct {
	id, category  string
	side          Side // of the findings; "": none, as in Classify
	classifier    *ClassifierSpec
	input, output Action
}

// Options are what a policy needs beside its Spec.
type Options struct {
	ReadFile func(path string) ([]byte, error) // nil: files are refused
	Secret   []byte                            // keys the digests of reports
}

// ParseSpec reads a policy as JSON. Unknown fields are errors.
func ParseSpec(data []byte) (Spec, error) {
	var s Spec
	if len(data) > MaxSpecBytes {
		return s, fmt.Errorf("the policy has %d bytes; at most %d are read", len(data), MaxSpecBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("the policy: %w", jsonfault.Describe(err, data))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("the policy has more behind its object")
	}
	return s, nil
}

// New checks and compiles a policy. All errors are named.
func New(s Spec, o Options) (*Policy, error) {
	p := &Policy{name: s.Name, roles: s.Roles, secret: o.Secret}
	errs := s.check()
	if s.HoldBackTokens == 0 {
		s.HoldBackTokens = DefaultHoldBackTokens
	}
	p.windowBytes = bytesPerToken * s.HoldBackTokens
	if len(p.roles) == 0 {
		p.roles = []string{"user", "tool"}
	}
	c := compiler{policy: p, options: o}
	for i := range s.Rules {
		if err := c.add(&s.Rules[i]); err != nil {
			errs = append(errs, fmt.Errorf("rule %q: %w", s.Rules[i].ID, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c.finish()
	return p, nil
}

// check says what is wrong beside the rules' own content.
func (s *Spec) check() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.HoldBackTokens < 0 || s.HoldBackTokens > maxHoldBack {
		wrong("hold_back_tokens is %d; it must be from 1 to %d, or left out for %d", s.HoldBackTokens, maxHoldBack, DefaultHoldBackTokens)
	}
	for _, r := range s.Roles {
		if !slices.Contains(Roles, r) {
			wrong("the role %.32q is none of %s", r, strings.Join(Roles, ", "))
		}
	}
	if len(s.Rules) == 0 || len(s.Rules) > maxRules {
		wrong("the policy has %d rules; it needs 1 to %d", len(s.Rules), maxRules)
	}
	seen := make(map[string]bool)
	for i := range s.Rules {
		r := &s.Rules[i]
		switch {
		case !isName(r.ID):
			wrong("rules[%d] has the id %.80q; it must be of 1 to %d letters, digits and any of - _ . /", i, r.ID, maxNameBytes)
		case r.Category != "" && !isName(r.Category):
			wrong("rule %q has the category %.80q; it must be of 1 to %d letters, digits and any of - _ . /", r.ID, r.Category, maxNameBytes)
		case seen[r.ID]:
			wrong("two rules have the id %q", r.ID)
		}
		seen[r.ID] = true
	}
	return errs
}

// isName takes what may be a label of metrics.
func isName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && !strings.ContainsFunc(s, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("-_./", r) })
}

// Name is the policy's.
func (p *Policy) Name() string { return p.name }

// Reads reports whether messages of a role are read.
func (p *Policy) Reads(role string) bool { return slices.Contains(p.roles, role) }

// ReadsInput reports whether any rule looks at requests; of nil it does not.
func (p *Policy) ReadsInput() bool { return p != nil && p.reads }

// FiltersOutput reports whether any rule looks at answers; of nil it does not.
func (p *Policy) FiltersOutput() bool { return p != nil && p.filters }

// ChangesOutput reports whether a rule may end an answer or take something out of it.
func (p *Policy) ChangesOutput() bool {
	return p != nil && (p.output.block != nil || p.output.redact != nil)
}

// Check looks at a text of a request. What it finds is added to the report; blocked says that
// the request is to be refused. proceed is called between slices of a long text and may end
// the work; it may be nil.
func (p *Policy) Check(text string, report *Report, proceed func() bool) (blocked bool) {
	if !p.ReadsInput() {
		return false
	}
	return p.newFilter(&p.input, Plain, report).all(text, proceed)
}

// sliceBytes of a text are read between two calls of proceed.
const sliceBytes = 4 << 10

// all reads a whole text, of which nothing is sent.
func (f *Filter) all(text string, proceed func() bool) (blocked bool) {
	f.quiet = true
	for len(text) > 0 {
		n := min(len(text), sliceBytes)
		if _, blocked = f.Append(nil, []byte(text[:n])); blocked || proceed != nil && !proceed() {
			return blocked
		}
		text = text[n:]
	}
	_, blocked = f.Close(nil)
	return blocked
}

// Classify says which rules of either side find something in a text. proceed is as in Check.
func (p *Policy) Classify(text string, report *Report, proceed func() bool) {
	p.newFilter(&sideRules{flag: p.all}, Plain, report).all(text, proceed)
}

// Categories are those of the rules, without repetitions, in the file's order.
func (p *Policy) Categories() (list []string) {
	for _, r := range p.rules {
		if !slices.Contains(list, r.category) {
			list = append(list, r.category)
		}
	}
	return list
}

// Classifier is a rule that a model computes.
type Classifier struct {
	ClassifierSpec
	Category string
	Action   Action // on the input
	rule     *rule
}

// Classifiers are the rules that models compute.
func (p *Policy) Classifiers() (list []Classifier) {
	if p == nil {
		return nil
	}
	for _, r := range p.classifiers {
		list = append(list, Classifier{*r.classifier, r.category, r.input, r})
	}
	return list
}

// Scored adds what a classifier says of a text to a report; blocked says that the request is to be
// refused.
func (p *Policy) Scored(c *Classifier, score float64, text string, report *Report) (blocked bool) {
	if score < c.Threshold {
		return false
	}
	report.count(p, c.rule, c.Action, score, text)
	return c.Action == Block
}
