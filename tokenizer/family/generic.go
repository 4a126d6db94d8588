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

var think = &thought{open: "<think>", close: "</think>"}

// Generic is the form for templates that know no tools: System's text lists them and asks for <tool_call> blocks with JSON.
func Generic() *Family { return newFamily("generic", hermes, think) }

// System is the text that tells a model without tools of its own how to call them, for the system message. Empty without tools.
func System(tools []Tool) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Tools\n\nYou can call functions to help answer the user. The functions are described here, one JSON object a line:\n<tools>\n")
	for _, t := range tools {
		b.Write(toolJSON(t))
		b.WriteByte('\n')
	}
	b.WriteString("</tools>\n\nTo call a function, write a JSON object with its name and its arguments between <tool_call> and </tool_call>:\n" +
		"<tool_call>\n{\"name\": \"function-name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n" +
		"Write one such block for each call and nothing after the last one. The results come in <tool_response> blocks. " +
		"If no function helps, answer without these blocks.")
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

// Call is a call of an earlier answer.
type Call struct {
	Name      string
	Arguments []byte // JSON text
}

// CallText is the content of an earlier answer with calls, for templates that would drop its calls.
func CallText(content string, calls []Call) string {
	var b strings.Builder
	b.WriteString(content)
	for i, c := range calls {
		if i > 0 || content != "" {
			b.WriteByte('\n')
		}
		arguments := c.Arguments
		if !json.Valid(arguments) {
			arguments = marshal(string(arguments))
		}
		b.WriteString("<tool_call>\n{\"name\": ")
		b.Write(marshal(c.Name))
		b.WriteString(", \"arguments\": ")
		b.Write(arguments)
		b.WriteString("}\n</tool_call>")
	}
	return b.String()
}

// ResultText is the content of a message with a tool's result, for templates without the role "tool".
func ResultText(result string) string { return "<tool_response>\n" + result + "\n</tool_response>" }
