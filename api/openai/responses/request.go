package responses

import (
	"bytes"
	"math"
	"strconv"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/translation"
)

// Request is what a request of POST /v1/responses says beside its chat: what its
// answer repeats, and whether the answer is kept.
type Request struct {
	instructions []byte // JSON
	tools        []byte // JSON, as the answer lists them
	namespaced   map[string]toolOfNamespace
	toolChoice   []byte // JSON
	text         []byte // JSON
	effort       []byte // JSON
	metadata     []byte // JSON
	labels       []byte // JSON fields: user, safety_identifier, prompt_cache_key; each with a comma in front
	maxTokens    []byte // JSON
	parallel     bool
	Summary      []byte // JSON; a thought is told as its own summary unless this is null
	Previous     string // id of the response that this one goes on from; "" is none
	Conversation string // id of the conversation that this one is part of; "" is none
	input        []byte // JSON: what this request adds to the conversation
	Store        bool   // the response is kept
	background   bool   // it is computed without its client
	Truncates    bool   // the oldest items are left out of an input that does not fit
	Keeper       Keeper // stores it as it changes; nil: it is not stored
}

// A Keeper stores a response as it changes. Its owner is the goroutine that answers.
type Keeper interface {
	Keep(status string, object []byte) bool // false where that failed
}

// RequestOf is that of a job; nil where the job is of another API.
func RequestOf(j *job.Job) *Request {
	r, _ := j.Own.(*Request)
	return r
}

// InBackground reports whether the response is computed without its client.
func (r *Request) InBackground() bool { return r.background }

func (r *Request) summarises() bool { return !jsonbody.IsNull(r.Summary) }

// responseNames are the fields that a chat calls otherwise.
var responseNames = []translation.Renamed{
	{Chat: "response_format.json_schema", Client: "text.format"}, {Chat: "response_format", Client: "text.format"},
	{Chat: "reasoning_effort", Client: "reasoning.effort"}, {Chat: "tool_choice.function", Client: "tool_choice"}, {Chat: "tool_choice.custom", Client: "tool_choice"},
	{Chat: "tool_choice.allowed_tools", Client: "tool_choice"},
	{Chat: "verbosity", Client: "text.verbosity"},
}

// Read reads a request of POST /v1/responses into a job.
func Read(readChat translation.ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	if m.Template == nil {
		return nil, m.NoTemplate()
	}
	w, fault := Translate(o)
	if fault != nil {
		return nil, fault
	}
	return w.Read(readChat, o, m)
}

// Translate writes a request of POST /v1/responses as a chat.
func Translate(o *job.Body) (*translation.Translation, *api.Error) {
	var fault *api.Error
	w := translation.New(o, "input", "call_id", responseNames...)
	r := &Request{}
	r.refuseOthers(o.Object, &fault)
	r.readStore(o, &fault)
	r.readInput(o, w, &fault)
	r.readTools(o.Object, w, &fault)
	r.readText(o.Object, w, &fault)
	r.readReasoning(o.Object, w, &fault)
	r.readInclude(o.Object, w, &fault)
	r.readEchoed(o.Object, w, &fault)
	w.Own, w.Background, w.Truncates = r, r.background, r.Truncates
	return w, fault
}

// refuseOthers refuses fields whose meaning in a chat is another one, and those that ask
// for what there is not.
func (r *Request) refuseOthers(o *jsonbody.Object, fault **api.Error) {
	for _, f := range []struct{ name, wayOut string }{
		{"messages", "send input, or use /v1/chat/completions"},
		{"prompt", "prompts are not kept here: send instructions and input"},
		{"response_format", "send text.format"},
		{"functions", "send tools"}, {"function_call", "send tool_choice"},
		{"continue_final_message", "use /v1/chat/completions"}, {"add_generation_prompt", "use /v1/chat/completions"},
		{"echo", "use /v1/completions"}, {"prompt_logprobs", "use /v1/completions"}, {"return_token_ids", "use /v1/chat/completions"},
	} {
		if raw, ok := o.Take(f.name); ok && string(raw) != "false" {
			jsonbody.Keep(fault, jsonbody.Unsupported(f.name, f.wayOut))
		}
	}
	if how, ok := o.Text("truncation", fault); ok {
		if r.Truncates = how == "auto"; !r.Truncates && how != "disabled" {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncation", "truncation is %s; it must be auto or disabled", jsonbody.HeaderQuote(how)))
		}
	}
	if _, ok := o.Integer("max_tool_calls", 1, math.MaxInt32, fault); ok {
		o.Ignored("max_tool_calls", jsonbody.Unsupported("max_tool_calls", "leave it out: it counts calls of tools that the server itself runs"), fault)
	}
}

// readStore reads whether the answer is kept. As with OpenAI, it is kept unless the request
// says otherwise.
func (r *Request) readStore(o *job.Body, fault **api.Error) {
	r.Previous, r.Conversation = o.Previous, o.Conversation
	asked, said := o.Bool("store", fault)
	r.Store = o.KeepsResponses && (asked || !said)
	if asked && !o.KeepsResponses {
		o.Ignored("store", jsonbody.Unsupported("store", "send false: responses of this tenant, or of all, are not kept here"), fault)
	}
	r.background = o.Flag("background", false, fault)
	switch {
	case !r.background:
	case !r.Store:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "background", "background is true and the response is not kept, so that no client could read it; send store: true, "+
			"to a server that keeps this tenant's responses"))
	}
}

// readText reads text: the format of the answer, and its verbosity.
func (r *Request) readText(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	r.text = []byte(`{"format":{"type":"text"}}`)
	raw, ok := o.Take("text")
	if !ok {
		return
	}
	text, err := o.Parse("text", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	format := []byte(`{"type":"text"}`)
	if raw, ok := text.Take("format"); ok {
		format = raw
		asked, err := readTextFormat(text, raw)
		jsonbody.Keep(fault, err)
		if asked != nil {
			w.Set("response_format", asked)
		}
	}
	r.text = append(append([]byte(`{"format":`), format...), '}')
	if verbosity, ok := text.Take("verbosity"); ok {
		w.Set("verbosity", verbosity)
		r.text = append(append(append(r.text[:len(r.text)-1], `,"verbosity":`...), verbosity...), '}')
	}
	text.Finish(fault)
}

// readTextFormat gives a chat's response_format for text.format; nil for plain text.
func readTextFormat(text *jsonbody.Object, raw []byte) ([]byte, *api.Error) {
	f, fault := text.Parse("text.format", raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	switch kind := f.Need("type", &fault); {
	case fault != nil:
		return nil, fault
	case kind == "text":
		f.Finish(&fault)
		return nil, fault
	case kind != "json_schema":
		return raw, nil
	}
	inner := &jsonbody.Object{}
	for _, g := range f.Fields {
		if g.Name != "type" {
			inner.Add(g.Name, g.Raw)
		}
	}
	return append(inner.AppendJSON([]byte(`{"type":"json_schema","json_schema":`)), '}'), nil
}

// readReasoning reads reasoning. A thought is told as reasoning_text, or as its own
// summary where the request asks for one, which is what some clients show.
func (r *Request) readReasoning(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	r.effort, r.Summary = jsonbody.Null, jsonbody.Null
	raw, ok := o.Take("reasoning")
	if !ok {
		return
	}
	reasoning, err := o.Parse("reasoning", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	if effort, ok := reasoning.Text("effort", fault); ok {
		r.effort = api.AppendString(nil, effort)
		w.Set("reasoning_effort", r.effort)
	}
	for _, name := range []string{"generate_summary", "summary"} {
		if summary, ok := reasoning.Text(name, fault); ok && summary != "none" {
			r.Summary = api.AppendString(nil, summary)
		}
	}
	reasoning.Finish(fault)
}

// readInclude reads include, and top_logprobs, which asks for log-probabilities without it. What include may name
// beside them is in an answer anyway, or belongs to tools that are refused.
func (r *Request) readInclude(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	if raw, ok := o.Take("top_logprobs"); ok {
		w.Set("top_logprobs", raw)
		if string(raw) != "0" {
			w.SetFor("top_logprobs", "logprobs", []byte("true"))
		}
	}
	raw, ok := o.Take("include")
	if !ok {
		return
	}
	list, err := jsonbody.Array("include", raw, jsonbody.MaxFields)
	jsonbody.Keep(fault, err)
	for i, item := range list {
		name, err := jsonbody.String(jsonbody.At("include", i), item)
		jsonbody.Keep(fault, err)
		switch name {
		case "message.output_text.logprobs":
			w.SetFor("include", "logprobs", []byte("true"))
		case "reasoning.encrypted_content": // thoughts come as plain text, which may be sent back
		default:
			o.Notes.Add("ignored include of %s", jsonbody.HeaderQuote(name))
		}
	}
}

// readEchoed reads what the answer repeats.
func (r *Request) readEchoed(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	r.metadata, r.maxTokens, r.parallel = []byte("{}"), jsonbody.Null, true
	if n, ok := o.Integer("max_output_tokens", 1, math.MaxInt32, fault); ok {
		r.maxTokens = strconv.AppendInt(nil, n, 10)
		w.Set("max_output_tokens", r.maxTokens)
	}
	if raw, ok := o.Take("metadata"); ok {
		jsonbody.Keep(fault, jsonbody.CheckMetadata(raw))
		r.metadata = bytes.Clone(raw)
		w.Set("metadata", raw)
	}
	for _, name := range params.Labels {
		if raw, ok := o.Take(name); ok {
			w.Set(name, raw)
			r.labels = append(api.AppendString(append(r.labels, ','), name), ':')
			r.labels = append(r.labels, raw...)
		}
	}
	if v, ok := o.Bool("parallel_tool_calls", fault); ok {
		r.parallel = v
		if len(r.tools) > len("[]") {
			w.Set("parallel_tool_calls", strconv.AppendBool(nil, v))
		}
	}
}
