package decision

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
)

// The limits of a request. Those of questions and choices are OpenAI's.
const (
	MaxQuestions  = 400
	MaxOptions    = 255     // of a question
	MaxLabelBytes = 1 << 10 // of an option's label
	MaxNameBytes  = 512     // of a question's name
	MaxTokens     = 1 << 20 // of all questions, the input counted once
)

// kind is what a question asks for.
type kind uint8

const (
	predicate kind = iota // whether a statement is true; the options are Yes and No
	choice                // one of several options
	score                 // one of several levels, which are numbers from 0 on
)

// question is one about the input.
type question struct {
	path         string // in the body
	name         string
	isNamed      bool
	kind         kind
	instructions string
	raw          json.RawMessage // JSON that the instructions are written of; nil: they are text
	options      []option
}

// option is one of the answers that a question may have.
type option struct {
	path        string          // of the label in the body
	label       string          // that the model answers with; unique in its question
	description string          // "" is none
	raw         json.RawMessage // JSON that the description is written of; nil: it is text
	value       []byte          // JSON of a choice's value, or of what a score's level is called
}

// agreed and denied are the labels of a predicate.
const (
	agreed = "Yes"
	denied = "No"
)

// statement gives a predicate its options; what they mean may be described.
func (q *question) statement() {
	q.kind = predicate
	q.options = []option{{path: q.path, label: agreed}, {path: q.path, label: denied}}
}

// checkName refuses a name that is too long.
func checkName(path, name string) *api.Error {
	if len(name) > MaxNameBytes {
		return api.RefuseParam("invalid_value", path, "%s has %d bytes; a question's name may have %d", path, len(name), MaxNameBytes)
	}
	return nil
}

// checkNames refuses a name that two questions have: an answer could not be told from the other's.
func checkNames(questions []question) *api.Error {
	first := make(map[string]string, len(questions))
	for i := range questions {
		q := &questions[i]
		if !q.isNamed {
			continue
		}
		if other, ok := first[q.name]; ok {
			return api.RefuseParam("invalid_value", jsonbody.Join(q.path, "name"), "%s and %s have the same name, %s; give each question its own",
				other, q.path, jsonbody.HeaderQuote(q.name))
		}
		first[q.name] = q.path
	}
	return nil
}

// checkOptions refuses options that a model cannot tell apart, and labels that no answer can be.
func (q *question) checkOptions() *api.Error {
	first := make(map[string]string, len(q.options))
	for i := range q.options {
		o := &q.options[i]
		switch other, again := first[o.label]; {
		case strings.TrimSpace(o.label) == "":
			return api.RefuseParam("invalid_value", o.path, "%s is empty; the model answers with this text", o.path)
		case len(o.label) > MaxLabelBytes:
			return api.RefuseParam("invalid_value", o.path, "%s has %d bytes, of %d that a label may have; put what it means into its description",
				o.path, len(o.label), MaxLabelBytes)
		case again:
			return api.RefuseParam("invalid_value", o.path, "%s is the same as %s; each option must be unique", o.path, other)
		}
		first[o.label] = o.path
	}
	return nil
}

// checkCount refuses too few and too many options.
func checkCount(path, what string, n int) *api.Error {
	if n >= 2 && n <= MaxOptions {
		return nil
	}
	return api.RefuseParam("invalid_value", path, "%s has %d %s; a question takes 2 to %d", path, n, what, MaxOptions)
}

// separateTypes writes the strings among choices in quotes where one of them reads as a boolean that is a choice, too.
func (q *question) separateTypes(isText []bool) {
	clash := slices.ContainsFunc(q.options, func(o option) bool {
		return (o.label == "true" || o.label == "false") && slices.ContainsFunc(q.options, func(other option) bool {
			return other.label == o.label && string(other.value) != string(o.value)
		})
	})
	if !clash {
		return
	}
	for i := range q.options {
		if isText[i] {
			q.options[i].label = strconv.Quote(q.options[i].label)
		}
	}
}

// text is what the model reads of a question, behind the input.
func (q *question) text() string {
	var b strings.Builder
	switch q.kind {
	case predicate:
		b.WriteString("Statement or question: ")
		b.WriteString(cmp.Or(q.instructions, q.name))
		for _, o := range q.options {
			if o.description != "" {
				b.WriteString("\n" + o.label + " means: " + o.description)
			}
		}
		b.WriteString("\nIs it true of the input? Answer " + agreed + " or " + denied + ", and nothing else.")
		return b.String()
	case choice:
		b.WriteString("Question: ")
		b.WriteString(cmp.Or(q.instructions, q.name))
		b.WriteString("\nOptions:")
	case score:
		b.WriteString("Question: ")
		b.WriteString(cmp.Or(q.instructions, q.name))
		b.WriteString("\nLevels, from the lowest to the highest:")
	}
	for _, o := range q.options {
		b.WriteString("\n- " + o.label)
		if o.description != "" {
			b.WriteString(": " + o.description)
		}
	}
	b.WriteString("\nAnswer with the one that fits best, as it is written before any colon, and nothing else.")
	return b.String()
}
