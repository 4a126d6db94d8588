package ollama

import (
	"slices"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/translation"
)

// prompt is what a request of POST /api/generate says of its prompt.
type prompt struct {
	text, system, suffix, template string
	raw                            bool
}

// isText reports whether the prompt is a text of its own, and no message of a chat.
func (p *prompt) isText() bool { return p.raw || p.suffix != "" || p.template != "" }

// ReadGenerate reads a request of POST /api/generate into a job: of a chat, or of a completion where the prompt is a text of its own.
func ReadGenerate(readChat, readCompletion translation.ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	var fault *api.Error
	w, r, p := readGenerate(o, &fault)
	if fault != nil {
		return nil, fault
	}
	own, fault := r.of(m, w)
	if fault != nil {
		return nil, fault
	}
	var j *job.Job
	switch {
	case p.isText():
		j, fault = p.read(readCompletion, w, own)
	case m.Template == nil:
		return nil, m.NoTemplate()
	default:
		p.converse(w)
		j, fault = w.Read(readChat, o, own)
	}
	if fault != nil {
		return nil, fault
	}
	if r.tells = !p.raw && !m.Policy.ChangesOutput(); r.tells {
		j.Params.ReturnTokenIDs = true
	}
	return j, r.goOn(j)
}

// TranslateGenerate writes a request of POST /api/generate as a chat, for the servers behind a model.
func TranslateGenerate(o *job.Body) (*translation.Translation, *api.Error) {
	var fault *api.Error
	w, r, p := readGenerate(o, &fault)
	for _, f := range []struct {
		name  string
		given bool
	}{{"raw", p.raw}, {"suffix", p.suffix != ""}, {"template", p.template != ""}, {"context", r.context != nil}} {
		if f.given {
			jsonbody.Keep(&fault, jsonbody.Unsupported(f.name, "leave it out: the model is computed by other servers, which are asked for a chat"))
		}
	}
	p.converse(w)
	return w, fault
}

// readGenerate reads all of a request but what its prompt becomes.
func readGenerate(o *job.Body, fault **api.Error) (*translation.Translation, *Request, *prompt) {
	w, r := begin(o, "prompt", fault)
	r.generates = true
	p := &prompt{raw: o.Flag("raw", false, fault)}
	for _, f := range []struct {
		name string
		text *string
	}{{"prompt", &p.text}, {"system", &p.system}, {"suffix", &p.suffix}, {"template", &p.template}} {
		*f.text, _ = o.Text(f.name, fault)
	}
	if raw, ok := o.Take("context"); ok && !jsonbody.IsEmptyArray(raw) {
		r.context = slices.Clone(raw)
	}
	if raw, ok := o.Take("images"); ok && !jsonbody.IsEmptyArray(raw) {
		jsonbody.Keep(fault, noImages("images"))
	}
	if p.raw && (p.system != "" || p.template != "" || r.context != nil) {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "raw", "raw mode does not support template, system, or context: send raw and the whole prompt, or leave raw out"))
	}
	if asked, top := readLogprobs(o.Object, fault); asked && p.isText() {
		w.Set("logprobs", top)
	} else if asked {
		w.Set("logprobs", []byte("true"))
		w.Set("top_logprobs", top)
	}
	o.Finish(fault)
	return w, r, p
}

// converse makes the prompt the messages of a chat.
func (p *prompt) converse(w *translation.Translation) {
	if p.system != "" {
		w.Messages.Instruct("system", p.system)
	}
	w.Messages.Say("prompt", "user", api.AppendString(nil, p.text))
}

// read reads a prompt that is a text of its own. Its control tokens count, as Ollama has it: the client has written all of it.
func (p *prompt) read(readCompletion translation.ReadChat, w *translation.Translation, m *models.Model) (*job.Job, *api.Error) {
	text := p.text
	if p.template != "" {
		var err error
		if text, err = p.render(); err != nil {
			return nil, api.RefuseParam("template_error", "template", "template: %v", err)
		}
	} else if p.suffix != "" {
		w.SetText("suffix", p.suffix)
	}
	w.SetText("prompt", text)
	w.Set("parse_special", []byte("true"))
	o := w.Chat.Without("enable_thinking", "reasoning_effort")
	if !o.Has("max_tokens") {
		o.Add("max_tokens", []byte("-1"))
	}
	if w.Truncates && p.suffix == "" {
		o.Add("truncate_prompt_tokens", []byte("-1"))
	}
	chat := w.Chat
	chat.Object = o
	j, fault := readCompletion(&chat, m)
	if fault != nil {
		return nil, w.Explain(fault)
	}
	j.ClientNames, j.Own = w, w.Own
	return j, nil
}

// goOn puts the tokens of the conversation so far before a job's prompt.
func (r *Request) goOn(j *job.Job) *api.Error {
	if r.context == nil {
		return nil
	}
	m := j.Model
	ids, fault := params.ParseTokens("context", r.context, m.Tokenizer.Size(), m.CountedLimit())
	if r.context = nil; fault != nil {
		return fault
	}
	own := j.Prompts[0].IDs
	if bos, ok := m.Tokenizer.BOS(); ok && len(ids) > 0 && len(own) > 0 && ids[0] == bos && own[0] == bos {
		own = own[1:]
	}
	j.Prompts[0].IDs = append(ids, own...)
	return j.LimitOutput("context", 1)
}
