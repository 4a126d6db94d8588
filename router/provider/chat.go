package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// chat is a request for a chat completion.
type chat struct {
	system []string       // of all messages of the system, wherever they stand
	turns  []messageGroup // no two in a row are of the same side

	tools    []tool
	choice   string // "", auto, none, required, or named
	named    string // the function that has to be called
	parallel *bool

	schema  *schema
	anyJSON bool // any JSON object

	most        int64 // tokens; 0: the provider's own limit
	temperature *float64
	topP        *float64
	topK        *float64
	stop        []string
	seed        *int64
	presence    *float64
	frequency   *float64

	effort string // of thinking; "": not said
	budget *int64 // tokens of thinking
	thinks *bool

	user    string
	ignored []string
}

// messageGroup is what one side says in a row.
type messageGroup struct {
	assistant bool
	parts     []part
}

type partKind uint8

const (
	textPart partKind = iota
	mediaPart
	thoughtPart
	callPart
	resultPart
)

// part is a piece of a turn.
type part struct {
	kind partKind
	path string // of the client's field

	text      string // of a text, a thought, or a call's result
	media     media
	signature string // of a thought or of a call
	redacted  string // a thought that only the provider can read

	id, name  string          // of a call, or of the call that a result answers
	arguments json.RawMessage // an object

	cache json.RawMessage // cache_control; nil: none
}

// media is a picture, a sound or a document.
type media struct {
	kind string // MIME type; "" where only the URL is known
	data string // base64
	url  string // where data is not sent
	name string // of a file
}

// tool is a function that the model may call.
type tool struct {
	name, description string
	parameters        json.RawMessage // nil: none
	strict            bool
}

// schema is the form that the answer has to have.
type schema struct {
	name, description string
	schema            json.RawMessage
}

// refused are fields that ask for what no provider here can do, with the way out. An empty value asks for nothing.
var refused = map[string]string{
	"logprobs":               "the provider tells no log-probabilities; leave it out",
	"top_logprobs":           "the provider tells no log-probabilities; leave it out",
	"prompt_logprobs":        "the provider tells no log-probabilities; leave it out",
	"logit_bias":             "the provider takes no biases of tokens; leave it out",
	"audio":                  "the provider is asked for text; leave it out",
	"functions":              "functions are older than tools; send tools",
	"function_call":          "function_call is older than tool_choice; send tool_choice",
	"continue_final_message": "the provider does not go on with a message of the assistant; end with one of the user",
	"web_search_options":     "the provider is asked for no tools of its own; send tools that you run yourself",
	"structured_outputs":     "the provider knows JSON schemas only; send response_format",
	"guided_json":            "send response_format of type json_schema",
	"guided_regex":           "the provider knows JSON schemas only; send response_format",
	"guided_choice":          "the provider knows JSON schemas only; send response_format",
	"guided_grammar":         "the provider knows JSON schemas only; send response_format",
	"grammar":                "the provider knows JSON schemas only; send response_format",
	"json_schema":            "send response_format of type json_schema",
	"return_token_ids":       "the provider tells no token ids; leave it out",
}

// silent are fields that say nothing to a provider.
var silent = []string{
	"model", "stream", "stream_options", "store", "metadata", "add_generation_prompt", "prompt_cache_key", "prompt_cache_retention", "cache_salt", "priority",
	"service_tier", "safety_identifier",
}

// readChat reads a chat's request.
func readChat(body []byte) (*chat, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, wrong("body", "it is no JSON object: %v", err)
	}
	c := &chat{}
	r := reader{fields: fields}
	c.readSampling(&r)
	c.readThinking(&r)
	c.readTools(&r)
	c.readFormat(&r)
	c.readMessages(&r)
	for _, name := range r.rest() {
		switch {
		case slices.Contains(silent, name):
		case refused[name] != "":
			r.fail(lacks(name, "%s", refused[name]))
		default:
			c.ignored = append(c.ignored, name)
		}
	}
	return c, r.err
}

func (c *chat) readSampling(r *reader) {
	var n *int64
	if r.value("n", &n, "an integer"); n != nil && *n != 1 {
		r.fail(lacks("n", "%d answers were asked for, and the provider gives one; send n requests", *n))
	}
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		var most *int64
		if r.value(name, &most, "an integer"); most != nil {
			c.most = *most
			if *most < 1 {
				r.fail(wrong(name, "it is %d, and must be at least 1", *most))
			}
		}
	}
	r.value("temperature", &c.temperature, "a number")
	r.value("top_p", &c.topP, "a number")
	r.value("top_k", &c.topK, "a number")
	r.value("presence_penalty", &c.presence, "a number")
	r.value("frequency_penalty", &c.frequency, "a number")
	r.value("seed", &c.seed, "an integer")
	r.value("user", &c.user, "a string")
	if raw := r.take("stop"); raw != nil {
		var one string
		switch {
		case json.Unmarshal(raw, &one) == nil:
			c.stop = []string{one}
		case json.Unmarshal(raw, &c.stop) != nil:
			r.fail(wrong("stop", "it must be a string or an array of strings"))
		}
	}
	if c.topK != nil && *c.topK <= 0 { // vLLM's word for all tokens
		c.topK = nil
	}
	for _, p := range []**float64{&c.presence, &c.frequency} {
		if *p != nil && **p == 0 {
			*p = nil
		}
	}
	var kinds []string
	if r.value("modalities", &kinds, "an array of strings"); len(kinds) > 0 && !slices.Equal(kinds, []string{"text"}) {
		r.fail(lacks("modalities", "the provider is asked for text; leave it out"))
	}
}

// efforts are the values of reasoning_effort.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func (c *chat) readThinking(r *reader) {
	if r.value("reasoning_effort", &c.effort, "a string"); c.effort != "" && !slices.Contains(efforts, c.effort) {
		r.fail(wrong("reasoning_effort", "it is %q, and must be one of %s", c.effort, strings.Join(efforts, ", ")))
	}
	r.value("thinking_token_budget", &c.budget, "an integer")
	var kwargs map[string]json.RawMessage
	if r.value("chat_template_kwargs", &kwargs, "an object"); kwargs != nil {
		inner := reader{fields: kwargs, path: "chat_template_kwargs."}
		inner.value("enable_thinking", &c.thinks, "true or false")
		r.fail(inner.err)
		for _, name := range inner.rest() {
			c.ignored = append(c.ignored, "chat_template_kwargs."+name)
		}
	}
	r.value("enable_thinking", &c.thinks, "true or false")
	if c.effort == "none" {
		c.thinks = new(bool)
	}
}

func (c *chat) readTools(r *reader) {
	var list []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
			Strict            *bool
		}
	}
	r.value("tools", &list, "an array of tools")
	for i, t := range list {
		path := fmt.Sprintf("tools[%d]", i)
		switch {
		case t.Type != "function":
			r.fail(lacks(path+".type", "the provider knows functions, not %q", t.Type))
		case t.Function.Name == "":
			r.fail(wrong(path+".function.name", "it is missing"))
		}
		one := tool{name: t.Function.Name, description: t.Function.Description, strict: t.Function.Strict != nil && *t.Function.Strict}
		if !isNull(t.Function.Parameters) {
			if one.parameters = t.Function.Parameters; one.parameters[0] != '{' {
				r.fail(wrong(path+".function.parameters", "it must be a JSON schema, an object"))
			}
		}
		c.tools = append(c.tools, one)
	}
	r.value("parallel_tool_calls", &c.parallel, "true or false")
	raw := r.take("tool_choice")
	if raw == nil {
		return
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	switch {
	case json.Unmarshal(raw, &c.choice) == nil && slices.Contains([]string{"auto", "none", "required"}, c.choice):
	case json.Unmarshal(raw, &named) == nil && named.Type == "function" && named.Function.Name != "":
		c.choice, c.named = "named", named.Function.Name
	default:
		r.fail(lacks("tool_choice", "it must be auto, none, required, or a function by name, and is %.100s", raw))
	}
}

func (c *chat) readFormat(r *reader) {
	var format struct {
		Type       string
		JSONSchema *struct {
			Name, Description string
			Schema            json.RawMessage
		} `json:"json_schema"`
	}
	raw := r.take("response_format")
	if raw == nil {
		return
	}
	if json.Unmarshal(raw, &format) != nil {
		r.fail(wrong("response_format", "it must be an object with a type"))
		return
	}
	switch format.Type {
	case "text":
	case "json_object":
		c.anyJSON = true
	case "json_schema":
		f := format.JSONSchema
		if f == nil || isNull(f.Schema) || f.Schema[0] != '{' {
			r.fail(wrong("response_format.json_schema.schema", "it is missing, or no object"))
			return
		}
		c.schema = &schema{f.Name, f.Description, f.Schema}
	default:
		r.fail(lacks("response_format.type", "the provider knows json_schema, not %q", format.Type))
	}
}

// reader reads the fields of an object, each once.
type reader struct {
	fields map[string]json.RawMessage
	path   string
	err    error // the first one
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// take gives a field's value, nil where it is missing or null.
func (r *reader) take(name string) json.RawMessage {
	raw := r.fields[name]
	delete(r.fields, name)
	if isNull(raw) {
		return nil
	}
	return bytes.TrimSpace(raw)
}

func (r *reader) value(name string, into any, form string) {
	if raw := r.take(name); raw != nil && json.Unmarshal(raw, into) != nil {
		r.fail(wrong(r.path+name, "it must be %s, and is %.100s", form, raw))
	}
}

// rest are the names of the fields that were not taken and are not empty, sorted.
func (r *reader) rest() []string {
	var names []string
	for name, raw := range r.fields {
		if !saysNothing(raw) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func saysNothing(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "false", `""`, "[]", "{}", "0"}, string(bytes.TrimSpace(raw)))
}
