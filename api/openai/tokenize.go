package openai

import (
	"weir/api"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// tokenizeJSON has the fields that vLLM's /tokenize answers with.
type tokenizeJSON struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len,omitempty"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"` // null unless asked for
}

// tokenize gives the ids of a prompt, or of messages under the model's chat
// template. For a name of OpenAI's own models, of which only the vocabulary is
// known here, it gives that vocabulary's ids.
func (c *call) tokenize() *api.Error {
	if fault := c.checkTokenizeBytes(); fault != nil {
		return fault
	}
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	if e, ok := c.foreignEncoding(o.object); ok {
		if fault := c.countRequest(nil); fault != nil {
			return fault
		}
		defer c.works()()
		return c.tokenizeForeign(o.object, e)
	}
	m, fault := c.model(o)
	if fault == nil {
		fault = c.countRequest(m)
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	var ids []int32
	pieces := o.flag("return_token_strs", false, &fault)
	if _, isChat := o.take("messages"); isChat {
		_, ids, fault = c.renderChat(o, m, &fault)
	} else {
		ids = c.encodePrompt(o, m, &fault)
	}
	if fault != nil {
		return fault
	}
	answer := tokenizeJSON{Count: len(ids), MaxModelLen: m.MaxModelLen, Tokens: ids}
	if pieces {
		answer.TokenStrs = make([]string, len(ids))
		for i, id := range ids {
			answer.TokenStrs[i] = m.Tokenizer.TokenText(id)
		}
	}
	api.WriteJSON(c.ctx, statusOK, answer)
	return nil
}

// checkTokenizeBytes refuses bodies that are longer than counting tokens is
// worth: no context bounds that work.
func (c *call) checkTokenizeBytes() *api.Error {
	n, limit := len(c.ctx.PostBody()), c.server.config.MaxTokenizeBytes
	if n <= limit {
		return nil
	}
	return badRequest("request_too_large", "", "the body has %d bytes; %s takes %d. Send it in parts, or run the server with a larger "+
		"--max-tokenize-bytes", n, c.ctx.Path(), limit)
}

// noteControl warns of a control token whose text is in a prompt and is not
// parsed: the model then reads its characters.
func (m *Model) noteControl(path, text string, n *notes) {
	if id, ok := m.Tokenizer.FindControl(text); ok {
		n.add("%s holds %s as plain text; parse_special makes it a control token", anyIndex(path), headerQuote(m.Tokenizer.TokenText(id)))
	}
}

// encodePrompt reads and encodes the fields of a plain prompt.
func (c *call) encodePrompt(o *request, m *Model, fault **api.Error) []int32 {
	text, ok := o.text("prompt", fault)
	if !ok {
		keep(fault, missing("prompt", "a string; or send messages"))
	}
	e := tokenizer.EncodeOptions{
		AddSpecial:   o.flag("add_special_tokens", true, fault),
		ParseSpecial: o.flag("parse_special", c.server.config.ParseSpecial, fault),
	}
	if *fault == nil && !e.ParseSpecial {
		m.noteControl("prompt", text, o.notes)
	}
	c.finish(o.object, fault)
	if *fault != nil {
		return nil
	}
	ids, err := c.turn.encode(m, "prompt", []tokenizer.Span{{Text: text, Control: e.ParseSpecial}}, e)
	keep(fault, err)
	return ids
}

// finish takes the fields that nobody read and sends the warnings.
func (c *call) finish(o *object, fault **api.Error) {
	o.finish(fault)
	warn(c.ctx, o.notes)
}

// renderChat renders messages and tokenises the result. Either way *fault and
// the error returned are the same.
func (c *call) renderChat(o *request, m *Model, fault **api.Error) (text string, ids []int32, err *api.Error) {
	if m.Template == nil {
		return "", nil, noTemplate(m)
	}
	p := readChatPrompt(o.object, m, &c.server.config, fault)
	special := o.flag("add_special_tokens", false, fault)
	c.finish(o.object, fault)
	if *fault != nil {
		return "", nil, *fault
	}
	spans, err := p.render(m)
	if err != nil {
		return "", nil, err
	}
	if ids, *fault = c.turn.encode(m, "messages", spans, tokenizer.EncodeOptions{AddSpecial: special}); *fault != nil {
		return "", nil, *fault
	}
	return chat.Text(spans), ids, nil
}

// foreignEncoding finds the vocabulary of an OpenAI model that is not served
// here under the same name.
func (c *call) foreignEncoding(o *object) (*tokenizer.Encoding, bool) {
	if c.server.config.Counter == nil {
		return nil, false
	}
	var fault *api.Error
	name, ok := o.text("model", &fault)
	if !ok {
		return nil, false
	}
	if set := c.server.models.Load(); set != nil {
		if m, served := set.byName[name]; served && m.Upstream == nil {
			return nil, false
		}
	}
	return c.server.config.Counter.CountFor(name)
}

func (c *call) tokenizeForeign(o *object, e *tokenizer.Encoding) *api.Error {
	var fault *api.Error
	if _, isChat := o.take("messages"); isChat {
		return unsupported("messages", "for models that are not served here only text is counted: send prompt")
	}
	if o.flag("return_token_strs", false, &fault) {
		keep(&fault, unsupported("return_token_strs", "leave it out for models that are not served here"))
	}
	o.flag("add_special_tokens", false, &fault) // such vocabularies add none
	text, ok := o.text("prompt", &fault)
	if !ok {
		keep(&fault, missing("prompt", "a string"))
	}
	c.finish(o, &fault)
	if fault != nil {
		return fault
	}
	ids, err := e.AppendEncode([]int32{}, text, c.turn.options(tokenizer.EncodeOptions{}))
	if fault := c.turn.ended(); fault != nil {
		return fault
	}
	if err != nil {
		return badRequest("vocabulary_unavailable", "model", "%v", err)
	}
	api.WriteJSON(c.ctx, statusOK, tokenizeJSON{Count: len(ids), Tokens: ids})
	return nil
}

// detokenize gives the text of ids.
func (c *call) detokenize() *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	m, fault := c.model(o)
	if fault == nil {
		fault = c.countRequest(m)
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	special := !o.flag("skip_special_tokens", false, &fault)
	raw, ok := o.take("tokens")
	if !ok {
		keep(&fault, missing("tokens", "an array of token ids"))
	}
	c.finish(o.object, &fault)
	if fault != nil {
		return fault
	}
	ids, fault := parseTokens("tokens", raw, m.Tokenizer.Size(), maxInt32)
	if fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, statusOK, map[string]string{"prompt": m.Tokenizer.Decode(ids, special)})
	return nil
}

// applyTemplate shows what a chat's prompt looks like, as text and as ids.
func (c *call) applyTemplate() *api.Error {
	if fault := c.checkTokenizeBytes(); fault != nil {
		return fault
	}
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	m, fault := c.model(o)
	if fault == nil {
		fault = c.countRequest(m)
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	text, ids, fault := c.renderChat(o, m, &fault)
	if fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		Prompt string `json:"prompt"`
		tokenizeJSON
	}{text, tokenizeJSON{Count: len(ids), MaxModelLen: m.MaxModelLen, Tokens: ids}})
	return nil
}
