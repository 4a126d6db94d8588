package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/router"
)

// MaxRankLabels is how many labels a rank head may have: the logit of "relevant", or
// those of "yes" and "no".
const MaxRankLabels = 2

// Pooler is the lane of a model that reads texts and writes none: of each text it
// gives a vector, or, with a rank head, a score. vLLM calls such models pooling
// models. A Pooler is immutable once its Model was given to SetModels.
type Pooler struct {
	Embedder   router.Embedder
	Dimensions int // of a vector; 0 with a rank head

	// Prompts are texts that models want before those of one task, such as
	// "search_query: ", by the name of the task or by an alias of the model. A
	// request gets one by naming either; none is added otherwise.
	Prompts map[string]string

	// Labels are those of a rank head, which scores pairs of texts and gives no
	// vectors: 1, whose logit says how relevant the second is, or 2, "yes" and "no".
	// 0: none.
	Labels int
	// PairTemplate is the text that a rank head reads of a pair, with {query} and
	// {document} where the texts go. Without one they are tokenised with the
	// vocabulary's separator between them.
	PairTemplate string
	PairTypes    bool // a pair's second text is marked by token type 1

	Classes  []string  // the labels of a classifier, which gives the logit of each; nil: it is none
	Decision *Decision // how its decision head is asked; nil: it has none
}

// Width is how many values the embedder gives of a text with so many marks.
func (p *Pooler) Width(marks int) int {
	if p.Decision != nil {
		return marks
	}
	return max(p.Dimensions, p.Labels, len(p.Classes)) // two of them are 0
}

// Ranks reports whether the model scores pairs of texts.
func (p *Pooler) Ranks() bool { return p.Labels > 0 }

func (p *Pooler) check(m *Model) error {
	switch head := p.Ranks() || p.Classes != nil || p.Decision != nil; {
	case p.Embedder == nil:
		return fmt.Errorf("model %q has a pooler without an embedder", m.ID)
	case head != (p.Dimensions == 0) || p.Dimensions < 0:
		return fmt.Errorf("model %q has vectors of %d dimensions; a rank head has 0, other models have at least 1", m.ID, p.Dimensions)
	case p.Ranks() && p.Classes != nil, p.Decision != nil && (p.Ranks() || p.Classes != nil):
		return fmt.Errorf("model %q has more than one head", m.ID)
	case p.Labels < 0 || p.Labels > MaxRankLabels:
		return fmt.Errorf("model %q has a head of %d labels; a rank head has 1, or 2 for yes and no", m.ID, p.Labels)
	case !p.Ranks() && (p.PairTemplate != "" || p.PairTypes):
		return fmt.Errorf("model %q reads pairs of texts but has no rank head", m.ID)
	case p.Ranks() && p.PairTemplate == "" && m.separators() == 0:
		return fmt.Errorf("model %q has a rank head, and neither a template nor a separator for pairs of texts", m.ID)
	case p.PairTemplate != "" && (strings.Count(p.PairTemplate, "{query}") != 1 || strings.Count(p.PairTemplate, "{document}") != 1):
		return fmt.Errorf("model %q has a template for pairs of texts without one {query} and one {document}", m.ID)
	}
	return nil
}

// ReadPrompt finds the text that goes before each text of a request: that of the task
// in prompt_name or input_type, else that of the alias by which the model was asked for.
func (p *Pooler) ReadPrompt(o *jsonbody.Object, fault **api.Error) string {
	model, _ := o.Text("model", fault)
	prompt := p.Prompts[model]
	if name, ok := o.Text("input_type", fault); ok {
		name = p.Task(name)
		if text, known := p.Prompts[name]; known || len(p.Prompts) > 0 {
			prompt = text
			jsonbody.Keep(fault, p.knows("input_type", name))
		} else {
			o.Ignored("input_type", p.knows("input_type", name), fault)
		}
	}
	if name, ok := o.Text("prompt_name", fault); ok {
		prompt = p.Prompts[name]
		jsonbody.Keep(fault, p.knows("prompt_name", name))
	}
	return prompt
}

// otherTasks are Cohere's names of tasks, with those that models and their libraries have for the same.
var otherTasks = map[string][]string{"search_query": {"query"}, "search_document": {"document", "passage"}}

// Task is the name under which the model has the prompt of a task; as it is where it has none.
func (p *Pooler) Task(name string) string {
	for _, n := range append([]string{name}, otherTasks[name]...) {
		if _, known := p.Prompts[n]; known {
			return n
		}
	}
	return name
}

// knows refuses the name of a task that the model has no prompt for.
func (p *Pooler) knows(field, name string) *api.Error {
	if _, known := p.Prompts[name]; known {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(p.Prompts)), ", ")
	if names == "" {
		names = "none; write the prompt into the text"
	}
	return api.RefuseParam("invalid_value", field, "%s is %s; the model's prompts are: %s", field, jsonbody.HeaderQuote(name), names)
}
