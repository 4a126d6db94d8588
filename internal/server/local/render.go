package local

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// Message is one of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Render turns messages into token ids. Their text can never become a control
// token.
func (m *Model) Render(messages []Message) ([]inference.TokenID, error) {
	data, err := json.Marshal(messages)
	if err != nil {
		return nil, fmt.Errorf("encode messages: %w", err)
	}
	value, err := chat.FromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("encode messages: %w", err)
	}
	in := chat.Input{Messages: value, AddGenerationPrompt: true, Now: time.Now()}
	in.BOSToken, in.EOSToken = m.Tokenizer.BoundaryTexts()
	spans, err := m.Template.Render(in)
	if err != nil {
		return nil, fmt.Errorf("render chat template: %w", err)
	}
	return m.Tokenizer.AppendSpans(nil, spans, tokenizer.EncodeOptions{}), nil
}
