package openai

import (
	"slices"
	"strings"

	"weir/api"
)

// harmlessParts are fields of items, blocks and parts that say nothing to a model: clients
// send back what they were answered, and hints.
var harmlessParts = []string{"id", "status", "phase", "annotations", "logprobs", "citations", "cache_control"}

func (o *object) skipHarmless() {
	for _, name := range harmlessParts {
		o.take(name)
	}
}

// textPart reads the text of a part whose type is among kinds. The text of a refusal
// stands in a field of that name.
func (o *object) textPart(path string, raw []byte, kinds []string) (string, *api.Error) {
	part, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return "", fault
	}
	kind, ok := part.text("type", &fault)
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", missing(join(path, "type"), strings.Join(kinds, " or "))
	case !slices.Contains(kinds, kind):
		return "", unsupported(join(path, "type"), "models here read text: send parts of type "+strings.Join(kinds, " or ")+", not "+quote([]byte(kind)))
	}
	field := "text"
	if kind == "refusal" {
		field = kind
	}
	text, ok := part.text(field, &fault)
	if !ok {
		keep(&fault, missing(join(path, field), "a string"))
	}
	part.skipHarmless()
	part.finish(&fault)
	return text, fault
}

// needText reads a string that an item or a block cannot do without.
func (o *object) needText(name string, fault **api.Error) string {
	text, ok := o.text(name, fault)
	if !ok {
		keep(fault, missing(join(o.path, name), "a string"))
	}
	return text
}
