package openai

import "weir/api"

// tokenizerJSON has the fields of vLLM's /tokenizer_info, which are those of a
// Hugging Face tokenizer_config.json. Tokens that a vocabulary lacks are null.
type tokenizerJSON struct {
	Class          string  `json:"tokenizer_class"`
	ChatTemplate   *string `json:"chat_template"`
	BOS            *string `json:"bos_token"`
	EOS            *string `json:"eos_token"`
	Unknown        *string `json:"unk_token"`
	Padding        *string `json:"pad_token"`
	AddBOS         bool    `json:"add_bos_token"`
	AddEOS         bool    `json:"add_eos_token"`
	ModelMaxLength int     `json:"model_max_length"`
	VocabSize      int     `json:"vocab_size"`
}

// tokenizerClasses names the kinds as Hugging Face does.
var tokenizerClasses = map[string]string{"gpt2": "GPT2Tokenizer", "llama": "LlamaTokenizer", "bert": "BertTokenizer", "t5": "T5Tokenizer", "gemma4": "GemmaTokenizer"}

// serveTokenizerInfo describes the tokenizer of the model in the query (?model=), or
// of the only one.
func serveTokenizerInfo(c *call) *api.Error {
	m, fault := c.named(string(c.ctx.QueryArgs().Peek("model")))
	if fault == nil {
		fault = tokenizesHere(m)
	}
	if fault == nil {
		m, fault = c.lease.take(m, nil, nil, "")
	}
	if fault != nil {
		return fault
	}
	t := m.Tokenizer
	text := func(id int32, ok bool) *string {
		if !ok {
			return nil
		}
		s := t.TokenText(id)
		return &s
	}
	info := tokenizerJSON{
		Class: tokenizerClasses[t.Kind()], BOS: text(t.BOS()), EOS: text(t.EOS()), Unknown: text(t.Unknown()), Padding: text(t.Padding()),
		AddBOS: t.AddsBOS(), AddEOS: t.AddsEOS(), ModelMaxLength: m.MaxModelLen, VocabSize: t.Size(),
	}
	if m.Template != nil {
		source := m.Template.Source()
		info.ChatTemplate = &source
	}
	api.WriteJSON(c.ctx, statusOK, info)
	return nil
}
