package openai

import (
	"weir/api"
	"weir/api/openai/prompt"
	"weir/router"
	"weir/tokenizer"
)

// mostCountedBytes is the longest prompt that is tokenised by a vocabulary of OpenAI's to be reserved; longer
// ones are estimated.
const mostCountedBytes = 64 << 10

// relayedTokens are the ids of a relayed prompt, as the servers behind the model make them of it, where it has its tokenizer
// here. A prompt that cannot be read has none: what is wrong with it is the upstream's to say.
func (c *call) relayedTokens(r *relayed) []int32 {
	m, o := r.model, r.sent
	if m.Tokenizer == nil {
		return nil
	}
	own := o.Unread()
	var fault *api.Error
	switch r.path {
	case chatEndpoint.upstream:
		if m.Template == nil {
			return nil
		}
		conversation := c.server.config.reader().ReadPrompt(own, m, &fault)
		options := tokenizer.EncodeOptions{AddSpecial: own.Flag("add_special_tokens", false, &fault)}
		if fault != nil {
			return nil
		}
		spans, fault := conversation.Render(m)
		if fault != nil {
			return nil
		}
		ids, _ := r.asked.Turn.Encode(m, "messages", spans, options)
		return ids
	case completionEndpoint.upstream:
		r := prompt.Reader{Field: "prompt", Most: 1, Model: m, Turn: r.asked.Turn, Notes: own.Notes}
		r.Options.AddSpecial = own.Flag("add_special_tokens", true, &fault)
		r.Options.ParseSpecial = own.Flag("parse_special", c.server.config.ParseSpecial, &fault)
		raw, ok := own.Take("prompt")
		if !ok || fault != nil {
			return nil
		}
		if prompts, fault := r.All(raw); fault == nil && len(prompts) == 1 {
			return prompts[0].IDs
		}
	}
	return nil
}

// relayedInput is how many tokens a relayed prompt is expected to have: counted where its tokenizer is here or the
// model's name says that it is one of OpenAI's, and otherwise guessed from its bytes.
func (c *call) relayedInput(r *relayed, tokens []int32) int64 {
	if tokens != nil {
		return int64(len(tokens))
	}
	return c.server.guessInput(r.model.ID, func() []router.Part {
		_, parts := withoutModel(r.sent)
		return parts
	}, len(c.ctx.PostBody()))
}

// guessInput is relayedInput of a prompt's parts, which are asked for where they count, of a request of so many bytes.
func (s *Server) guessInput(model string, parts func() []router.Part, size int) int64 {
	if s.config.Counter != nil && size <= mostCountedBytes {
		if encoding, ok := s.config.Counter.CountFor(model); ok {
			sum := 0
			for _, p := range parts() {
				n, err := encoding.Count(string(p.Text))
				if err != nil {
					return int64(size / relayBytesPerToken)
				}
				sum += n
			}
			return int64(sum)
		}
	}
	return int64(size / relayBytesPerToken)
}
