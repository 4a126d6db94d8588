package decision

import (
	"bytes"
	"encoding/json"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
)

// What an input may hold. The limits of JSON parts are OpenAI's.
const (
	maxItems     = 4096
	maxParts     = 1024
	maxJSONBytes = 256 << 10
	maxJSONDepth = 32
	maxJSONCount = 10_000
)

// The parts that texts are made of.
var (
	inputParts     = []string{"input_text", "input_json", "input_image"}
	questionParts  = inputParts
	textParts      = []string{"input_text"}
	assistantParts = []string{"output_text", "refusal"}
	outputParts    = []string{"input_text", "input_image"}
)

// partsOf are the parts of a message by its role.
var partsOf = map[string][]string{"user": inputParts, "system": textParts, "developer": textParts, "assistant": assistantParts}

// readInput gives the text of an input: a string as it is, and a conversation as a transcript. It is what questions are about, and no
// message of the prompt itself, so that no role in it has any power.
func readInput(o *jsonbody.Object, raw json.RawMessage) (string, *api.Error) {
	if raw[0] != '[' {
		if raw[0] != '"' {
			return "", jsonbody.WrongType("input", "a string or an array of messages", raw)
		}
		text, err := jsonbody.String("input", raw)
		if err == nil && strings.TrimSpace(text) == "" {
			err = emptyInput("input")
		}
		return text, err
	}
	list, err := jsonbody.Array("input", raw, maxItems)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", emptyInput("input")
	}
	r := inputReader{calls: map[string]bool{}}
	for i, raw := range list {
		inner, err := o.Parse(jsonbody.At("input", i), raw, jsonbody.MaxFields)
		if err == nil {
			err = r.item(inner)
		}
		if err != nil {
			return "", err
		}
	}
	if len(list) == 1 && r.users == 1 {
		return strings.TrimPrefix(r.text.String(), "user: "), nil
	}
	return r.text.String(), nil
}

func emptyInput(path string) *api.Error {
	return api.RefuseParam("invalid_value", path, "%s is empty; send what the questions are about", path)
}

// inputReader writes the transcript of an input.
type inputReader struct {
	text  strings.Builder
	calls map[string]bool // ids of calls that may have an output
	users int             // messages of the user
}

func (r *inputReader) line(who, text string) {
	if r.text.Len() > 0 {
		r.text.WriteByte('\n')
	}
	r.text.WriteString(who + ": " + text)
}

// item reads an item of an input.
func (r *inputReader) item(o *jsonbody.Object) *api.Error {
	var fault *api.Error
	kind, typed := o.Text("type", &fault)
	if fault != nil {
		return fault
	}
	switch {
	case kind == "message" || !typed:
		r.message(o, &fault)
	case kind == "function_call", kind == "custom_tool_call":
		r.call(o, kind, &fault)
	case kind == "function_call_output", kind == "custom_tool_call_output":
		r.output(o, &fault)
	default:
		at := jsonbody.Join(o.Path, "type")
		return api.RefuseParam("invalid_value", at, "%s is %s; it must be message, function_call, function_call_output, custom_tool_call or custom_tool_call_output",
			at, jsonbody.HeaderQuote(kind))
	}
	for _, name := range []string{"id", "status", "phase", "namespace"} { // they change no answer
		o.Take(name)
	}
	o.Finish(&fault)
	return fault
}

func (r *inputReader) message(o *jsonbody.Object, fault **api.Error) {
	role := o.Need("role", fault)
	at := jsonbody.Join(o.Path, "content")
	raw, ok := o.Take("content")
	kinds, known := partsOf[role]
	switch {
	case *fault != nil:
	case !known:
		at := jsonbody.Join(o.Path, "role")
		*fault = api.RefuseParam("invalid_value", at, "%s is %s; it must be user, assistant, system or developer", at, jsonbody.HeaderQuote(role))
	case !ok:
		*fault = jsonbody.Missing(at, "a string or an array of parts")
	default:
		text, err := readParts(o, at, raw, kinds)
		if role == "user" {
			r.users++
		}
		jsonbody.Keep(fault, err)
		r.line(role, text)
	}
}

func (r *inputReader) call(o *jsonbody.Object, kind string, fault **api.Error) {
	argument := "arguments"
	if kind == "custom_tool_call" {
		argument = "input"
	}
	id, name, text := o.Need("call_id", fault), o.Need("name", fault), o.Need(argument, fault)
	r.calls[id] = true
	r.line("assistant calls "+name, text)
}

func (r *inputReader) output(o *jsonbody.Object, fault **api.Error) {
	id, at := o.Need("call_id", fault), jsonbody.Join(o.Path, "output")
	raw, ok := o.Take("output")
	switch path := jsonbody.Join(o.Path, "call_id"); {
	case *fault != nil:
	case !r.calls[id]:
		*fault = api.RefuseParam("invalid_value", path, "%s is %s, and no call before it has this id", path, jsonbody.HeaderQuote(id))
	case !ok:
		*fault = jsonbody.Missing(at, "a string or an array of parts")
	default:
		text, err := readParts(o, at, raw, outputParts)
		jsonbody.Keep(fault, err)
		r.line("tool", text)
	}
}

// readParts gives a text, or those of parts on lines of their own.
func readParts(o *jsonbody.Object, path string, raw json.RawMessage, kinds []string) (string, *api.Error) {
	if raw[0] != '[' {
		if raw[0] != '"' {
			return "", jsonbody.WrongType(path, "a string or an array of parts", raw)
		}
		return jsonbody.String(path, raw)
	}
	list, err := jsonbody.Array(path, raw, maxParts)
	if err != nil {
		return "", err
	}
	texts := make([]string, len(list))
	for i, raw := range list {
		inner, err := o.Parse(jsonbody.At(path, i), raw, jsonbody.MaxFields)
		if err == nil {
			texts[i], err = readPart(inner, kinds)
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(texts, "\n"), nil
}

func readPart(o *jsonbody.Object, kinds []string) (text string, fault *api.Error) {
	kind, at := o.Need("type", &fault), jsonbody.Join(o.Path, "type")
	known := false
	for _, k := range kinds {
		known = known || k == kind
	}
	switch {
	case fault != nil:
		return "", fault
	case !known:
		return "", api.RefuseParam("invalid_value", at, "%s is %s; it must be %s", at, jsonbody.HeaderQuote(kind), strings.Join(kinds, " or "))
	case kind == "input_image":
		return "", api.RefuseParam("unsupported_parameter", o.Path, "%s is an image, and no model here reads images; describe it in words", o.Path)
	case kind == "input_json":
		text = readJSONPart(o, &fault)
	case kind == "refusal":
		text = o.Need("refusal", &fault)
	default:
		text = o.Need("text", &fault)
	}
	o.Take("prompt_cache_breakpoint") // every prefix is cached
	o.Finish(&fault)
	return text, fault
}

// readJSONPart gives the JSON of a part as compact text.
func readJSONPart(o *jsonbody.Object, fault **api.Error) string {
	path := jsonbody.Join(o.Path, "data")
	raw, ok := o.Take("data")
	switch {
	case !ok:
		jsonbody.Keep(fault, jsonbody.Missing(path, "an object or an array of objects"))
		return ""
	case raw[0] != '{' && raw[0] != '[':
		jsonbody.Keep(fault, jsonbody.WrongType(path, "an object or an array of objects", raw))
		return ""
	}
	text, err := compact(path, raw)
	jsonbody.Keep(fault, err)
	return text
}

// compact is JSON without blanks, within the limits of such parts.
func compact(path string, raw json.RawMessage) (string, *api.Error) {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > maxJSONBytes {
		return "", api.RefuseParam("invalid_value", path, "%s has %d bytes of compact JSON, of %d that it may have", path, b.Len(), maxJSONBytes)
	}
	depth, deepest, values, quoted := 0, 0, 1, false
	for i, text := 0, b.Bytes(); i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest, values = max(deepest, depth), values+1
		case c == '}' || c == ']':
			depth--
		case c == ',':
			values++
		}
	}
	if deepest > maxJSONDepth || values > maxJSONCount {
		return "", api.RefuseParam("invalid_value", path, "%s has %d levels and about %d values, of %d and %d that it may have",
			path, deepest, values, maxJSONDepth, maxJSONCount)
	}
	return b.String(), nil
}
