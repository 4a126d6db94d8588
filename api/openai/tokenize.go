package openai

import (
	"math"
	"unicode/utf8"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/prompt"
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

// tokenizing is a call that is about the tokens of a text, and generates none.
type tokenizing struct {
	*call
	o *job.Body
	m *models.Model // whose tokenizer is asked
}

// open reads the body, which may be as long as counting its tokens is worth.
func (c *tokenizing) open() (fault *api.Error) {
	if fault = c.checkBytes(); fault == nil {
		c.o, fault = c.body()
	}
	return fault
}

// find finds the model, and counts the request.
func (c *tokenizing) find() (fault *api.Error) {
	if c.m, fault = c.model(c.o); fault != nil {
		return fault
	}
	return c.countRequest(c.m)
}

func serveTokenize(c *call) *api.Error { return (&tokenizing{call: c}).tokenize() }

func serveDetokenize(c *call) *api.Error { return (&tokenizing{call: c}).detokenize() }

func serveTemplate(c *call) *api.Error { return (&tokenizing{call: c}).applyTemplate() }

// tokenize gives the ids of a prompt, or of messages under the model's chat
// template. For a name of OpenAI's own models, of which only the vocabulary is
// known here, it gives that vocabulary's ids.
func (c *tokenizing) tokenize() *api.Error {
	fault := c.open()
	if fault != nil {
		return fault
	}
	if e, ok := c.foreignEncoding(); ok {
		if fault := c.countRequest(nil); fault != nil {
			return fault
		}
		defer c.works()()
		return c.tokenizeForeign(e)
	}
	if fault = c.find(); fault != nil {
		return fault
	}
	defer c.works()()
	if c.o.Has("content") {
		return c.tokenizeContent()
	}
	o, m := c.o, c.m
	var ids []int32
	pieces := o.Flag("return_token_strs", false, &fault)
	if _, isChat := o.Take("messages"); isChat {
		_, ids, fault = c.renderChat(o, &fault)
	} else {
		ids = c.encodePrompt(&fault)
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

// pieceJSON is a token with its text, as llama.cpp's server has it: bytes where it is no UTF-8 by itself.
type pieceJSON struct {
	ID    int32 `json:"id"`
	Piece any   `json:"piece"`
}

// tokenizeContent answers as llama.cpp's /tokenize.
func (c *tokenizing) tokenizeContent() (fault *api.Error) {
	text, _ := c.o.Text("content", &fault)
	e := tokenizer.EncodeOptions{AddSpecial: c.o.Flag("add_special", false, &fault), ParseSpecial: c.o.Flag("parse_special", true, &fault)}
	pieces := c.o.Flag("with_pieces", false, &fault)
	c.finish(c.o.Object, &fault)
	if fault != nil {
		return fault
	}
	ids, fault := c.permit.Encode(c.m, "content", []tokenizer.Span{{Text: text, Control: e.ParseSpecial}}, e)
	if fault != nil {
		return fault
	}
	var tokens any = append([]int32{}, ids...)
	if pieces {
		list := make([]pieceJSON, len(ids))
		for i, id := range ids {
			piece := c.m.Tokenizer.AppendPiece(nil, id, true)
			if list[i] = (pieceJSON{id, string(piece)}); !utf8.Valid(piece) {
				list[i].Piece = bytesOf(piece)
			}
		}
		tokens = list
	}
	api.WriteJSON(c.ctx, statusOK, map[string]any{"tokens": tokens})
	return nil
}

// bytesOf are bytes as JSON has numbers.
func bytesOf(piece []byte) (list []int) {
	for _, b := range piece {
		list = append(list, int(b))
	}
	return list
}

// checkBytes refuses bodies that are longer than counting tokens is
// worth: no context bounds that work.
func (c *tokenizing) checkBytes() *api.Error {
	n, limit := len(c.ctx.PostBody()), c.server.config.MaxTokenizeBytes
	if n <= limit {
		return nil
	}
	return api.RefuseParam("request_too_large", "", "the body has %d bytes; %s takes %d. Send it in parts, or run the server with a larger "+
		"--max-tokenize-bytes", n, c.ctx.Path(), limit)
}

// encodePrompt reads and encodes the fields of a plain prompt.
func (c *tokenizing) encodePrompt(fault **api.Error) []int32 {
	o, m := c.o, c.m
	text, ok := o.Text("prompt", fault)
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing("prompt", "a string; or send messages"))
	}
	e := tokenizer.EncodeOptions{
		AddSpecial:   o.Flag("add_special_tokens", true, fault),
		ParseSpecial: o.Flag("parse_special", c.server.config.ParseSpecial, fault),
	}
	if *fault == nil && !e.ParseSpecial {
		prompt.NoteControl(m, "prompt", text, o.Notes)
	}
	c.finish(o.Object, fault)
	if *fault != nil {
		return nil
	}
	ids, err := c.permit.Encode(m, "prompt", []tokenizer.Span{{Text: text, Control: e.ParseSpecial}}, e)
	jsonbody.Keep(fault, err)
	return ids
}

// finish takes the fields that were not read and sends the warnings.
func (c *tokenizing) finish(o *jsonbody.Object, fault **api.Error) {
	o.FinishBut(params.Unsupported, fault)
	warn(c.ctx, o.Notes)
}

// renderChat renders the messages of a chat and tokenises the result. Either way *fault and
// the error returned are the same.
func (c *tokenizing) renderChat(o *job.Body, fault **api.Error) (text string, ids []int32, err *api.Error) {
	m := c.m
	if m.Template == nil {
		return "", nil, m.NoTemplate()
	}
	p := c.server.config.reader().ReadPrompt(o.Object, m, fault)
	special := o.Flag("add_special_tokens", false, fault)
	c.finish(o.Object, fault)
	if *fault != nil {
		return "", nil, *fault
	}
	spans, err := p.Render(m)
	if err != nil {
		return "", nil, err
	}
	if ids, *fault = c.permit.Encode(m, "messages", spans, tokenizer.EncodeOptions{AddSpecial: special}); *fault != nil {
		return "", nil, *fault
	}
	return chat.Text(spans), ids, nil
}

// foreignEncoding finds the vocabulary of an OpenAI model that is not served
// here under the same name.
func (c *tokenizing) foreignEncoding() (*tokenizer.Encoding, bool) {
	if c.server.config.Counter == nil {
		return nil, false
	}
	var fault *api.Error
	name, ok := c.o.Text("model", &fault)
	if !ok {
		return nil, false
	}
	if set := c.server.models.Load(); set != nil {
		if m, served := set.ByName[name]; served && m.Upstream == nil {
			return nil, false
		}
	}
	return c.server.config.Counter.CountFor(name)
}

func (c *tokenizing) tokenizeForeign(e *tokenizer.Encoding) (fault *api.Error) {
	o := c.o.Object
	if _, isChat := o.Take("messages"); isChat {
		return jsonbody.Unsupported("messages", "for models that are not served here only text is counted: send prompt")
	}
	if o.Flag("return_token_strs", false, &fault) {
		jsonbody.Keep(&fault, jsonbody.Unsupported("return_token_strs", "leave it out for models that are not served here"))
	}
	o.Flag("add_special_tokens", false, &fault) // such vocabularies add none
	text, ok := o.Text("prompt", &fault)
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("prompt", "a string"))
	}
	c.finish(o, &fault)
	if fault != nil {
		return fault
	}
	ids, err := e.AppendEncode([]int32{}, text, c.permit.Options(tokenizer.EncodeOptions{}))
	if fault := c.permit.Fault(); fault != nil {
		return fault
	}
	if err != nil {
		return api.RefuseParam("vocabulary_unavailable", "model", "%v", err)
	}
	api.WriteJSON(c.ctx, statusOK, tokenizeJSON{Count: len(ids), Tokens: ids})
	return nil
}

// detokenize gives the text of ids.
func (c *tokenizing) detokenize() *api.Error {
	var fault *api.Error
	if c.o, fault = c.body(); fault == nil {
		fault = c.find()
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	o, m := c.o, c.m
	special := !o.Flag("skip_special_tokens", false, &fault)
	raw, ok := o.Take("tokens")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("tokens", "an array of token ids"))
	}
	c.finish(o.Object, &fault)
	if fault != nil {
		return fault
	}
	ids, fault := params.ParseTokens("tokens", raw, m.Tokenizer.Size(), math.MaxInt32)
	if fault != nil {
		return fault
	}
	text := m.Tokenizer.Decode(ids, special)
	api.WriteJSON(c.ctx, statusOK, map[string]string{"prompt": text, "content": text}) // vLLM's name, and llama.cpp's
	return nil
}

// applyTemplate shows what a chat's prompt looks like, as text and as ids.
func (c *tokenizing) applyTemplate() *api.Error {
	fault := c.open()
	if fault == nil {
		fault = c.find()
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	text, ids, fault := c.renderChat(c.o, &fault)
	if fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		Prompt string `json:"prompt"`
		tokenizeJSON
	}{text, tokenizeJSON{Count: len(ids), MaxModelLen: c.m.MaxModelLen, Tokens: ids}})
	return nil
}
