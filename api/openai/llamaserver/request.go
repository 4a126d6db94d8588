// Package llamaserver is the native API of llama.cpp's server: completions and fill-in-the-middle, read as completions, and their answers.
//
//	j, fault := llamaserver.Read(readCompletion, o, model)
package llamaserver

import (
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/prompt"
)

// ReadCompletion reads a request of completions.
type ReadCompletion func(o *job.Body, m *models.Model) (*job.Job, *api.Error)

// Request is what a request says beside its completion.
type Request struct {
	Tokens  bool     // the answer has the ids of its tokens
	Fields  []string // that the answer has, as paths; nil: all
	Predict int64    // n_predict; -1: as many as fit
	Probs   bool     // the tokens have log-probabilities
}

// RequestOf is that of a job.
func RequestOf(j *job.Job) *Request {
	if r, ok := j.Own.(*Request); ok {
		return r
	}
	return &Request{}
}

// idle are fields that change no answer here: where a prompt is computed, what is reported meanwhile.
var idle = []string{"cache_prompt", "id_slot", "slot_id", "n_keep", "n_discard", "n_indent", "timings_per_token", "return_progress", "samplers", "t_max_prompt_ms", "penalize_nl",
	"repeat_last_n", "min_keep"}

// mostFields of one answer may be named by response_fields.
const mostFields = 64

// Read reads a request of POST /completion.
func Read(read ReadCompletion, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	p := prompt.Mixed{Body: o, Model: m, Field: "prompt", Special: true}
	return readAs(read, o, m, func(from, to *jsonbody.Object, fault **api.Error) {
		if raw, ok := from.Take("prompt"); ok {
			written, err := p.Read(raw)
			if jsonbody.Keep(fault, err); err == nil {
				to.Add("prompt", written)
			}
		}
	})
}

// readAs reads a request whose prompt write has written.
func readAs(read ReadCompletion, o *job.Body, m *models.Model, write func(from, to *jsonbody.Object, fault **api.Error)) (*job.Job, *api.Error) {
	var fault *api.Error
	to := &job.Body{Object: &jsonbody.Object{Notes: o.Notes}, Permit: o.Permit}
	write(o.Object, to.Object, &fault)
	r := readOwn(o.Object, to.Object, &fault)
	if raw, ok := o.Take("logit_bias"); ok {
		bias, err := (&biases{o.Permit, m}).read(raw)
		if jsonbody.Keep(&fault, err); err == nil {
			to.Add("logit_bias", bias)
		}
	}
	for f, left := o.Rest(); left; f, left = o.Rest() {
		to.Add(f.Name, f.Raw)
	}
	to.Add("parse_special", []byte("true")) // clients render templates themselves
	to.Add("return_token_ids", []byte("true"))
	if fault != nil {
		return nil, fault
	}
	j, fault := read(to, m)
	if fault != nil {
		return nil, fault
	}
	j.Own, j.Params.ContinuousUsage = r, true
	return j, nil
}

// readOwn reads the fields that a completion has not, or has otherwise.
func readOwn(o, to *jsonbody.Object, fault **api.Error) *Request {
	r := &Request{Predict: -1, Tokens: o.Flag("return_tokens", false, fault)}
	for _, name := range idle {
		o.Take(name)
	}
	if raw, ok := o.Take("response_fields"); ok {
		list, err := jsonbody.Array("response_fields", raw, mostFields)
		jsonbody.Keep(fault, err)
		for i, item := range list {
			name, err := jsonbody.String(jsonbody.At("response_fields", i), item)
			jsonbody.Keep(fault, err)
			r.Fields = append(r.Fields, name)
		}
	}
	if n, ok := o.Integer("n_predict", -1, 1<<30, fault); ok {
		r.Predict = n
	}
	if !o.Has("max_tokens") {
		to.Add("n_predict", strconv.AppendInt(nil, r.Predict, 10))
	}
	if n, ok := o.Integer("n_probs", 0, 1<<20, fault); ok && n > 0 {
		r.Probs = true
		to.Add("logprobs", strconv.AppendInt(nil, n, 10))
	}
	if raw, ok := o.Take("seed"); ok && raw[0] != '-' { // below 0: any
		to.Add("seed", raw)
	}
	if raw, ok := o.Take("n_cmpl"); ok {
		to.Add("n", raw)
	}
	if raw, ok := o.Take("temperature"); ok {
		if raw[0] == '-' {
			raw = []byte("0")
		}
		to.Add("temperature", raw)
	}
	return r
}

// ReadInfill reads a request of POST /infill: what stands before the gap and behind it. Snippets of other files go before both.
func ReadInfill(read ReadCompletion, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	return readAs(read, o, m, func(from, to *jsonbody.Object, fault **api.Error) {
		before, behind := from.Need("input_prefix", fault), from.Need("input_suffix", fault)
		middle, _ := from.Text("prompt", fault)
		to.Add("prompt", api.AppendString(nil, readSnippets(from, fault)+before+middle))
		to.Add("suffix", api.AppendString(nil, behind))
	})
}

// readSnippets is the text of input_extra.
func readSnippets(o *jsonbody.Object, fault **api.Error) string {
	raw, ok := o.Take("input_extra")
	if !ok {
		return ""
	}
	list, err := jsonbody.Array("input_extra", raw, 1<<10)
	jsonbody.Keep(fault, err)
	var text strings.Builder
	for i, item := range list {
		part, err := o.Parse(jsonbody.At("input_extra", i), item, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return ""
		}
		name, says := part.Need("filename", fault), part.Need("text", fault)
		part.Finish(fault)
		text.WriteString("\n\n--- " + name + " ---\n\n" + says)
	}
	return text.String()
}
