package decision

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// controlText reads like a control token.
var controlText = regexp.MustCompile(`<\|([A-Za-z0-9_]+)\|>`)

// plainControl is a text in which nothing reads like a control token: models that decide were trained with other strokes in such places.
func plainControl(text string) string { return controlText.ReplaceAllString(text, "<¦$1¦>") }

// mostNested is how deep flatten follows lists and objects; what lies deeper stays JSON.
const mostNested = 64

// flatten writes JSON as lines of text, the keys of objects as labels, as models of type kev read it.
func flatten(raw json.RawMessage) string { return flattened(bytes.TrimSpace(raw), 0) }

func flattened(raw json.RawMessage, indent int) string {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case string(raw) == "true":
		return "True"
	case string(raw) == "false":
		return "False"
	case raw[0] == '"':
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
	case (raw[0] == '[' || raw[0] == '{') && indent < mostNested:
		return flattenMany(raw, indent)
	}
	return string(raw)
}

// flattenMany writes a list or an object, an item a line.
func flattenMany(raw json.RawMessage, indent int) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	begin, err := d.Token()
	if err != nil {
		return string(raw)
	}
	pad := strings.Repeat("  ", indent)
	var lines []string
	for d.More() {
		name := ""
		if begin == json.Delim('{') {
			key, _ := d.Token()
			name, _ = key.(string)
		}
		var item json.RawMessage
		if d.Decode(&item) != nil {
			return string(raw)
		}
		nested := len(item) > 0 && (item[0] == '[' || item[0] == '{')
		switch {
		case begin == json.Delim('['):
			lines = append(lines, pad+"- "+strings.TrimLeft(flattened(item, indent+1), " \t\n\r"))
		case nested:
			lines = append(lines, pad+name+":\n"+flattened(item, indent+1))
		default:
			lines = append(lines, pad+name+": "+flattened(item, 0))
		}
	}
	return strings.Join(lines, "\n")
}
