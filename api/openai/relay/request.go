package relay

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/priority"
	"weir/router"
)

// Request is a request that servers behind a model answer.
type Request struct {
	Route  string // of the endpoint that the client asked, as hooks know it
	Prefix string // of the answer's id
	Writes bool   // its answers are tokens that the model generates
	Model  *models.Model
	Asked  *job.Body        // the client's request
	Sent   *jsonbody.Object // what the servers get of it
	Path   string           // below their base URL
	More   bool             // another model may answer in place of this one

	wantsUsage bool // the client asked for the usage of its stream

	Job *job.Job // writes the answer of a chat in the form that the client asked for; nil: bytes pass as they are
}

// InBackground reports whether the answer is computed without its client.
func (r *Request) InBackground() bool {
	return r.Job != nil && r.Job.Background
}

// promptFields are what a model reads, in its order, in the words of each API.
var promptFields = []string{"tools", "system", "instructions", "messages", "input", "prompt", "suffix"}

// WithoutModel is the object without its model, and without this server's own fields, and
// where in it what the model reads stands. The other values are byte for byte what they were.
func WithoutModel(o *jsonbody.Object) (dst []byte, prompt []router.Part) {
	type span struct{ from, to int }
	spans := make([]span, len(promptFields))
	dst = []byte{'{'}
	for _, f := range o.Fields {
		if f.Name == "model" || slices.Contains(priority.OwnFields, f.Name) {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(api.AppendString(dst, f.Name), ':')
		from := len(dst)
		dst = append(dst, f.Raw...)
		if i := slices.Index(promptFields, f.Name); i >= 0 {
			spans[i] = span{from, len(dst)}
		}
	}
	dst = append(dst, '}')
	for i, s := range spans {
		if s.to > 0 {
			prompt = append(prompt, router.Part{Kind: promptFields[i], Text: dst[s.from:s.to]})
		}
	}
	return dst, prompt
}

// LimitAnswer has the servers end each answer after so many tokens, which are paid for: they
// count them, and nothing here does.
func (r *Request) LimitAnswer(limit int64) {
	var p params.Params
	var ignored *api.Error
	if p.ReadMaxTokens(r.Sent, &ignored); p.MaxTokens > 0 && int64(p.MaxTokens) <= limit {
		return
	}
	name := cmp.Or(p.LengthName, "max_tokens")
	if FormOf(r.Path) == ResponseForm {
		name = "max_output_tokens"
	}
	r.Sent = r.Sent.Without(models.LengthNames...)
	r.Sent.Add(name, strconv.AppendInt(nil, limit, 10))
	r.Asked.Notes.Add("%s set to %d by the tenant's limits", name, limit)
}

// Prompts is how many prompts a relayed request has, each of which is answered.
func (r *Request) Prompts() int64 {
	for _, f := range r.Sent.Fields {
		if f.Name != "prompt" {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(f.Raw, &list) != nil || len(list) == 0 {
			continue
		}
		if c := list[0][0]; c == '"' || c == '[' { // else it is one of token ids
			return int64(len(list))
		}
	}
	return 1
}
