package openai

import (
	"weir/api"
	"weir/api/openai/prompt"
	"weir/api/openai/relay"
	"weir/tokenizer"
)

// tokensHere are the ids of a relayed prompt, as the servers behind the model make them of it, where it has its tokenizer
// here. A prompt that cannot be read has none: what is wrong with it is the upstream's to say.
func (r *relaying) tokensHere() []int32 {
	m, o := r.Model, r.Sent
	if m.Tokenizer == nil {
		return nil
	}
	own := o.Unread()
	var fault *api.Error
	switch r.Path {
	case relay.PathChat:
		if m.Template == nil {
			return nil
		}
		conversation := r.server.config.reader().ReadPrompt(own, m, &fault)
		options := tokenizer.EncodeOptions{AddSpecial: own.Flag("add_special_tokens", false, &fault)}
		if fault != nil {
			return nil
		}
		spans, fault := conversation.Render(m)
		if fault != nil {
			return nil
		}
		ids, _ := r.Asked.Permit.Encode(m, "messages", spans, options)
		return ids
	case relay.PathCompletions:
		p := prompt.Reader{Field: "prompt", Most: 1, Model: m, Permit: r.Asked.Permit, Notes: own.Notes}
		p.ReadSuffix(own, &fault)
		p.Options.AddSpecial = own.Flag("add_special_tokens", true, &fault)
		p.Options.ParseSpecial = own.Flag("parse_special", r.server.config.ParseSpecial, &fault)
		raw, ok := own.Take("prompt")
		if !ok || fault != nil {
			return nil
		}
		if prompts, fault := p.All(raw); fault == nil && len(prompts) == 1 {
			return prompts[0].IDs
		}
	}
	return nil
}

// expectedInput is how many tokens a relayed prompt is expected to have: counted where its tokenizer is here or the
// model's name says that it is one of OpenAI's, and otherwise by what the model's servers have told of other prompts.
func (r *relaying) expectedInput() int64 {
	if r.tokens != nil {
		return int64(len(r.tokens))
	}
	_, parts := relay.WithoutModel(r.Sent)
	return r.server.relay.ExpectedInput(r.Model, parts)
}
