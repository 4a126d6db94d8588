package ollama

import (
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/translation"
)

// Request is what a request says beside its chat.
type Request struct {
	model     string // as the client wrote it
	generates bool   // it is one of /api/generate
	context   []byte // JSON: the tokens of the conversation so far; nil: none
	tells     bool   // the answer ends with the tokens of the conversation
	numCtx    int    // the context that the client asks for; 0: the model's
	thinks    thinking
	said      map[string]bool // options with a value

	KeepAlive *time.Duration // how long the model shall stay in memory; negative: as long as it can; nil: the request does not say
}

// thinking is what a request says of the model's thoughts.
type thinking uint8

const (
	unsaid thinking = iota
	wanted
	unwanted
)

// RequestOf is that of a job; nil where the job is of another API.
func RequestOf(j *job.Job) *Request {
	r, _ := j.Own.(*Request)
	return r
}

// names are the fields that a chat calls otherwise.
var names = []translation.Renamed{
	{Chat: "response_format.json_schema.schema", Client: "format"}, {Chat: "response_format.json_schema", Client: "format"}, {Chat: "response_format", Client: "format"},
	{Chat: "reasoning_effort", Client: "think"}, {Chat: "enable_thinking", Client: "think"},
	{Chat: "max_tokens", Client: "options.num_predict"}, {Chat: "temperature", Client: "options.temperature"}, {Chat: "top_k", Client: "options.top_k"},
	{Chat: "top_p", Client: "options.top_p"}, {Chat: "min_p", Client: "options.min_p"}, {Chat: "typical_p", Client: "options.typical_p"},
	{Chat: "seed", Client: "options.seed"}, {Chat: "stop", Client: "options.stop"}, {Chat: "repeat_penalty", Client: "options.repeat_penalty"},
	{Chat: "presence_penalty", Client: "options.presence_penalty"}, {Chat: "frequency_penalty", Client: "options.frequency_penalty"},
}

// begin reads what requests for a chat and for a completion have in common. list is the field of the conversation.
func begin(o *job.Body, list string, fault **api.Error) (*translation.Translation, *Request) {
	w, r := translation.New(o, list, "tool_call_id", names...), &Request{said: map[string]bool{}}
	r.model, _ = o.Text("model", fault)
	r.KeepAlive = ReadKeepAlive(o.Object, fault)
	w.Set("stream", strconv.AppendBool(nil, o.Flag("stream", true, fault)))
	w.Truncates = o.Flag("truncate", true, fault)
	o.Flag("shift", true, fault) // an answer ends where the context does
	r.readFormat(o.Object, w, fault)
	r.readThink(o.Object, w, fault)
	r.readOptions(o.Object, w, fault)
	if o.Flag(rendersOnly, false, fault) {
		jsonbody.Keep(fault, jsonbody.Unsupported(rendersOnly, "POST /apply-template shows the prompt of a chat"))
	}
	w.Own = r
	return w, r
}

// rendersOnly asks for the prompt in place of an answer.
const rendersOnly = "_debug_render_only"

// mostTopLogprobs is Ollama's limit of alternatives per token.
const mostTopLogprobs = 20

// readLogprobs reads logprobs and top_logprobs. asked is false where no log-probabilities are; top_logprobs alone asks for none.
func readLogprobs(o *jsonbody.Object, fault **api.Error) (asked bool, top []byte) {
	asked = o.Flag("logprobs", false, fault)
	n := o.Count("top_logprobs", 0, mostTopLogprobs, 0, fault)
	return asked, strconv.AppendInt(nil, int64(n), 10)
}

// readFormat reads format: "json", or a JSON Schema.
func (r *Request) readFormat(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("format")
	switch {
	case !ok || string(raw) == `""`:
	case string(raw) == `"json"`:
		w.Set("response_format", []byte(`{"type":"json_object"}`))
	case raw[0] == '{':
		w.Set("response_format", append(append([]byte(`{"type":"json_schema","json_schema":{"name":"answer","schema":`), raw...), "}}"...))
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "format", `format is %s; it must be "json" or a JSON schema`, jsonbody.Quote(raw)))
	}
}

// readThink reads think: true, false or an effort.
func (r *Request) readThink(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("think")
	if !ok {
		return
	}
	switch string(raw) {
	case "false":
		r.thinks = unwanted
	case `"low"`, `"medium"`, `"high"`, `"max"`:
		w.Set("reasoning_effort", raw)
		r.thinks = wanted
	case "true":
		r.thinks = wanted
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "think", `think is %s; it must be true, false, "low", "medium", "high" or "max"`, jsonbody.Quote(raw)))
	}
	w.Set("enable_thinking", strconv.AppendBool(nil, r.thinks == wanted))
}

// of completes a request for a model: what Ollama does where the request does not say, and what the model cannot do.
func (r *Request) of(m *models.Model, w *translation.Translation) (*models.Model, *api.Error) {
	thinks := m.Family != nil && m.Family.Thinks
	switch {
	case r.thinks == wanted && !thinks:
		return nil, api.RefuseParam("unsupported_parameter", "think", "%q does not support thinking: leave think out, or send false", r.model)
	case r.thinks == unsaid && thinks:
		w.Set("enable_thinking", []byte("true"))
	}
	r.fill(m, w)
	if r.numCtx > m.MaxModelLen {
		w.Chat.Notes.Add("options.num_ctx %d cut to %d, the context that the model has here", r.numCtx, m.MaxModelLen)
	}
	if r.numCtx == 0 || r.numCtx >= m.MaxModelLen {
		return m, nil
	}
	own := *m
	own.MaxModelLen = r.numCtx
	return &own, nil
}

// ReadKeepAlive reads keep_alive: seconds, or a duration as Go writes it; nil: the request does not say.
func ReadKeepAlive(o *jsonbody.Object, fault **api.Error) *time.Duration {
	raw, ok := o.Take("keep_alive")
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		text, err := jsonbody.String("keep_alive", raw)
		d, wrong := time.ParseDuration(text)
		if err == nil && wrong == nil {
			return &d
		}
	} else if seconds, err := strconv.ParseFloat(string(raw), 64); err == nil {
		d := time.Duration(-1)
		if seconds >= 0 {
			d = time.Duration(min(seconds, mostSeconds) * float64(time.Second))
		}
		return &d
	}
	jsonbody.Keep(fault, api.RefuseParam("invalid_value", "keep_alive", `keep_alive is %s; it must be a number of seconds or a duration such as "5m"; 0 unloads the model, -1 keeps it`,
		jsonbody.Quote(raw)))
	return nil
}

// mostSeconds of a keep_alive; more is no longer than for ever.
const mostSeconds = 100 * 365 * 24 * 3600
