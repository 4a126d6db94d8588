package ollama

import (
	"math"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/translation"
)

// plain are the options that a chat has under the same name, with the same meaning.
var plain = []string{"temperature", "min_p", "typical_p", "presence_penalty", "frequency_penalty"}

// ofRunner are the options that say how a model is run, which the server's own configuration does, and those of samplers that are not here.
var ofRunner = []string{
	"num_keep", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "draft_num_predict", "numa", "low_vram", "f16_kv", "logits_all", "vocab_only",
	"penalize_newline", "tfs_z", "mirostat", "mirostat_tau", "mirostat_eta",
}

// defaults are Ollama's own, where they are not a chat's.
var defaults = []models.Default{{Field: "temperature", Value: []byte("0.8")}, {Field: "top_k", Value: []byte("40")}, {Field: "top_p", Value: []byte("0.9")}}

// fill gives a chat Ollama's defaults where neither the request nor the model's record says otherwise.
func (r *Request) fill(m *models.Model, w *translation.Translation) {
	for _, d := range defaults {
		own := slices.ContainsFunc(m.Defaults, func(o models.Default) bool { return o.Field == d.Field })
		if !own && !r.said[d.Field] {
			w.Set(d.Field, d.Value)
		}
	}
}

// set gives the chat the value of an option.
func (r *Request) set(w *translation.Translation, name string, raw []byte) {
	r.said[name] = true
	w.Set(name, raw)
}

// readOptions reads options into a chat's parameters.
func (r *Request) readOptions(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	in, ok := o.Inner("options", fault)
	if !ok {
		return
	}
	for _, name := range plain {
		if raw, ok := in.Take(name); ok {
			r.set(w, name, raw)
		}
	}
	if n, ok := in.Integer("num_predict", math.MinInt32, math.MaxInt32, fault); ok && n > 0 { // below it is no limit
		r.set(w, "max_tokens", strconv.AppendInt(nil, n, 10))
	}
	if n, ok := in.Integer("top_k", math.MinInt32, math.MaxInt32, fault); ok {
		r.set(w, "top_k", strconv.AppendInt(nil, max(n, 0), 10))
	}
	if n, ok := in.Integer("seed", math.MinInt64, math.MaxInt64, fault); ok && n >= 0 { // below it is random
		r.set(w, "seed", strconv.AppendInt(nil, n, 10))
	}
	r.numCtx = in.Count("num_ctx", 0, math.MaxInt32, 0, fault)
	if raw, ok := in.Take("top_p"); ok {
		if p, err := strconv.ParseFloat(string(raw), 64); err == nil && p == 0 {
			raw = []byte("1e-6") // of the likeliest token alone
		}
		r.set(w, "top_p", raw)
	}
	if raw, ok := in.Take("stop"); ok && !jsonbody.IsEmptyArray(raw) {
		r.set(w, "stop", raw)
	}
	r.readRepeat(in, w, fault)
	for _, name := range ofRunner {
		if _, ok := in.Take(name); ok {
			in.Ignored(name, jsonbody.Unsupported(jsonbody.Join(in.Path, name), "leave it out: the server's own configuration says how models run"), fault)
		}
	}
	in.Finish(fault)
}

// readRepeat reads the penalties of what was said before, which look at all of the prompt and the answer, however many tokens repeat_last_n says.
func (r *Request) readRepeat(in *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	lastN, bounded := in.Integer("repeat_last_n", -1, math.MaxInt32, fault)
	raw, ok := in.Take("repeat_penalty")
	if p, err := strconv.ParseFloat(string(raw), 64); !ok || bounded && lastN == 0 || err == nil && p <= 0 {
		return
	}
	r.set(w, "repeat_penalty", raw)
	if bounded && lastN > 0 {
		in.Ignored("repeat_last_n", jsonbody.Unsupported("options.repeat_last_n", "send -1 or 0: repeat_penalty looks at all tokens or is off"), fault)
	}
}
