package translation

import (
	"slices"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
)

// harmlessParts are fields of items, blocks and parts that say nothing to a model: clients
// send back what they were answered, and hints.
var harmlessParts = []string{"id", "status", "phase", "annotations", "logprobs", "citations", "cache_control"}

// SkipHarmless takes fields that say nothing to a model.
func SkipHarmless(o *jsonbody.Object) {
	for _, name := range harmlessParts {
		o.Take(name)
	}
}

// textPart reads the text of a part whose type is among kinds. The text of a refusal
// stands in a field of that name.
func textPart(o *jsonbody.Object, path string, raw []byte, kinds []string) (string, *api.Error) {
	part, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return "", fault
	}
	kind, ok := part.Text("type", &fault)
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", jsonbody.Missing(jsonbody.Join(path, "type"), strings.Join(kinds, " or "))
	case !slices.Contains(kinds, kind):
		return "", jsonbody.Unsupported(jsonbody.Join(path, "type"), "models here read text: send parts of type "+strings.Join(kinds, " or ")+", not "+jsonbody.Quote([]byte(kind)))
	}
	field := "text"
	if kind == "refusal" {
		field = kind
	}
	text, ok := part.Text(field, &fault)
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, field), "a string"))
	}
	SkipHarmless(part)
	part.Finish(&fault)
	return text, fault
}
