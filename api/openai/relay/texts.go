package relay

import (
	"cmp"
	"encoding/json"
	"strings"

	"weir/api/edge"
)

// What a relayed request asked and was answered is read out of its bytes, for tenants
// with LogPrompts only. What is not understood is left out: the bytes pass all the same.

const (
	// maxKeptBytes of an answer are kept: a byte above what transcripts keep of a text,
	// so that they say where one was cut.
	maxKeptBytes = 256<<10 + 1
	// maxKeptAnswers of one request are kept.
	maxKeptAnswers = 128
)

// Texts are those of an exchange whose tenant agreed that they are kept.
type Texts struct {
	Sent    []byte   // the request's body; never changed
	answers [][]byte // by choice
}

// sentFields are the fields in which a request has texts, in the order in which they are kept.
type sentFields struct {
	Messages []relayedMessage
	System   any
	Prompt   any

	Instructions any
	Input        any
	Query        any
	Queries      any
	Text1        any `json:"text_1"`
	Text2        any `json:"text_2"`

	Documents any
	Texts     any
}

// relayedMessage is a chat message, asked or answered, or the part of one that a chunk brings.
type relayedMessage struct {
	Role      string
	Content   any
	Reasoning string `json:"reasoning_content"`
	Refusal   string
	ToolCalls []struct {
		Function struct{ Name, Arguments string }
		Custom   struct{ Name, Input string }
	} `json:"tool_calls"`
}

// prompts are the texts of the request: of a chat one, with a line for each message.
func (r *Texts) prompts() (list []string) {
	var sent sentFields
	_ = json.Unmarshal(r.Sent, &sent) // a field of another kind than expected stays empty, and the others are there
	if len(sent.Messages) > 0 {
		var chat strings.Builder
		for i := range sent.Messages {
			m := &sent.Messages[i]
			chat.WriteString(m.Role)
			chat.WriteString(": ")
			chat.Write(m.appendText(nil))
			chat.WriteByte('\n')
		}
		list = append(list, chat.String())
	}
	for _, field := range []any{sent.System, sent.Instructions, sent.Prompt, sent.Input, sent.Query, sent.Queries, sent.Text1, sent.Text2, sent.Documents, sent.Texts} {
		list = append(list, textsIn(field)...)
	}
	return list
}

// textsIn are the texts of a field: one, or several, or several with each in the field
// text of an object. Token ids have none.
func textsIn(value any) (list []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			list = append(list, textsIn(e)...)
		}
	case map[string]any:
		if text, ok := v["text"].(string); ok {
			return []string{text}
		}
		if content, ok := v["content"]; ok { // an item of Responses
			return textsIn(content)
		}
		if kind, ok := v["type"].(string); ok { // a picture or a sound
			return []string{"[" + kind + "]"}
		}
	}
	return list
}

// appendText appends all that a message says.
func (m *relayedMessage) appendText(dst []byte) []byte {
	dst = append(append(dst, m.Reasoning...), m.Refusal...)
	for _, text := range textsIn(m.Content) {
		dst = append(dst, text...)
	}
	for i := range m.ToolCalls {
		f := &m.ToolCalls[i].Function
		custom := &m.ToolCalls[i].Custom
		if name := f.Name + custom.Name; name != "" {
			dst = append(append(dst, name...), ' ')
		}
		dst = append(append(dst, f.Arguments...), custom.Input...)
	}
	return dst
}

// Read takes the texts of an answer or of a chunk. On nil it does nothing.
func (r *Texts) Read(f Form, data []byte) {
	switch {
	case r == nil:
		return
	case f != ChatForm:
		r.readTyped(data)
		return
	}
	var said struct {
		Choices []struct {
			Index          int
			Text           string
			Message, Delta *relayedMessage
		}
	}
	_ = json.Unmarshal(data, &said) // what is not understood is left out
	for _, c := range said.Choices {
		if c.Index < 0 || c.Index >= maxKeptAnswers {
			continue
		}
		for len(r.answers) <= c.Index {
			r.answers = append(r.answers, nil)
		}
		answer := append(r.answers[c.Index], c.Text...)
		if m := cmp.Or(c.Message, c.Delta); m != nil {
			answer = m.appendText(answer)
		}
		r.answers[c.Index] = answer[:min(len(answer), maxKeptBytes)]
	}
}

// typedText is what an answer of Responses or Messages, an item or a block of one, or an event says. The last
// event of Responses repeats what the others have said, and is not read.
type typedText struct {
	Type, Text, Thinking, Name, Arguments string

	Delta, Input, Summary json.RawMessage
	Output, Content       []typedText
	Item                  *typedText
	Block                 *typedText `json:"content_block"`
}

// readTyped takes the texts of one choice.
func (r *Texts) readTyped(data []byte) {
	var said typedText
	_ = json.Unmarshal(data, &said) // what is not understood is left out
	if len(r.answers) == 0 {
		r.answers = [][]byte{nil}
	}
	answer := said.appendText(r.answers[0])
	r.answers[0] = answer[:min(len(answer), maxKeptBytes)]
}

func (t *typedText) appendText(dst []byte) []byte {
	switch {
	case t.Type == "response.output_item.added" && t.Item != nil:
		return appendCallName(dst, t.Item.Name)
	case t.Type == "content_block_start" && t.Block != nil:
		return appendCallName(dst, t.Block.Name)
	case t.Type == "content_block_delta" || strings.HasPrefix(t.Type, "response.") && strings.HasSuffix(t.Type, ".delta"):
		return appendDeltaText(dst, t.Delta)
	case strings.HasPrefix(t.Type, "response.") || strings.HasPrefix(t.Type, "content_block"):
		return dst
	}
	dst = appendCallName(append(append(dst, t.Thinking...), t.Text...), t.Name)
	dst = append(dst, t.Arguments...)
	if t.Name != "" {
		dst = append(dst, t.Input...)
	}
	for _, list := range [][]typedText{t.Output, t.Content} {
		for i := range list {
			dst = list[i].appendText(dst)
		}
	}
	return dst
}

func appendCallName(dst []byte, name string) []byte {
	if name == "" {
		return dst
	}
	return append(append(dst, name...), ' ')
}

// appendDeltaText appends a piece: Responses has it as a text, Messages in an object that names its kind.
func appendDeltaText(dst []byte, raw []byte) []byte {
	var text string
	var piece struct {
		Text, Thinking string
		JSON           string `json:"partial_json"`
	}
	if json.Unmarshal(raw, &text) != nil {
		_ = json.Unmarshal(raw, &piece) // what is not understood is left out
	}
	return append(append(append(append(dst, text...), piece.Thinking...), piece.Text...), piece.JSON...)
}

// Said are the answers' texts, by choice. r may be nil.
func (r *Texts) Said() []string {
	if r == nil {
		return nil
	}
	list := make([]string, len(r.answers))
	for i, a := range r.answers {
		list[i] = string(a)
	}
	return list
}

// texts are what is kept. r may be nil.
func (r *Texts) texts() *edge.Texts {
	if r == nil {
		return nil
	}
	return &edge.Texts{Prompts: r.prompts, PromptBytes: len(r.Sent), Answers: r.Said()}
}
