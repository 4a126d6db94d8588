package family

import (
	"encoding/json"
	"strings"
)

// hermes is how Hermes, Qwen 2.5 and 3 and many others write calls, and the generic form.
var hermes = &markup{
	openers: []string{"<tool_call>"},
	closers: []string{"</tool_call>"},
	crumbs:  "}]",
	read:    readObject,
	item:    readCall,
}

var think = marked(thought{open: "<think>", close: "</think>"})

// generic is the form for templates that know no tools: System's text lists them and asks for JSON between <tool_call> and </tool_call>.
func generic(t *thought) *Family { return newFamily(genericName, hermes, hermesLayout, t) }

const (
	genericName = "generic"
	hermesName  = "hermes"
)

// System is the text that tells a model how to call tools where its template does not (Listed is false), for the system message: the
// tools, and an example in the family's own form. Empty without tools.
func (f *Family) System(tools []Tool) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Tools\n\nYou can call functions to help answer the user. They are described here, one JSON object a line:\n<tools>\n")
	for _, t := range tools {
		b.Write(toolJSON(t))
		b.WriteByte('\n')
	}
	b.WriteString("</tools>\n\nTo call a function, write its name and its arguments in exactly this form:\n")
	b.WriteString(f.CallText("", []Call{{Name: "function-name", Arguments: []byte(`{"argument": "value"}`)}}))
	b.WriteString("\nWrite nothing after the calls: their results come next, in <tool_response> blocks. If no function helps, answer without a call.")
	return b.String()
}

func toolJSON(t Tool) []byte {
	line := struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}{t.Name, t.Description, json.RawMessage(`{"type":"object","properties":{}}`)}
	if json.Valid(t.Parameters) {
		line.Parameters = t.Parameters
	}
	return marshal(line)
}

// marshal is JSON without the escapes that only HTML needs.
func marshal(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // strings and valid raw JSON only
		return []byte("null")
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// ResultText is the content of a message with a tool's result, for templates without the role "tool".
func ResultText(result string) string { return "<tool_response>\n" + result + "\n</tool_response>" }
