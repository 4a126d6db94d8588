package decision

import (
	"errors"
	"slices"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// The user's message is the input between two lines, and a question. seam is the text that ends what all prompts of a call have in common.
const (
	opening = "Read the input, then answer the question about it.\n\n<input>\n"
	seam    = "\n</input>\n\n"
)

// frame is what a model's chat template writes around a message of the user, up to where the answer begins.
type frame struct {
	before, behind []tokenizer.Span
	end            []inference.TokenID // the token that ends an answer; empty where the model has none
}

// mark and reply stand for a message and an answer while a template is rendered.
const (
	mark  = "weir-5e2b71-message"
	reply = "weir-5e2b71-answer"
)

// errNoMark: a template left out, or changed, the message that it was given.
var errNoMark = errors.New("the template does not write the user's message as it is")

// newFrame renders the template, with thoughts off where it has a switch for them, and closed where it has none.
func newFrame(m *models.Model) (f frame, err error) {
	thinking, err := render(m, true, chat.Message{Role: "user", Content: mark})
	if err != nil {
		return f, err
	}
	spans, err := render(m, false, chat.Message{Role: "user", Content: mark})
	if err != nil {
		return f, err
	}
	var ok bool
	if f.before, f.behind, ok = cut(spans, mark); !ok {
		return f, errNoMark
	}
	if m.Family != nil {
		if text := m.Family.Answering(spans, chat.Text(thinking) != chat.Text(spans)); text != "" {
			f.behind = append(f.behind, tokenizer.Span{Text: text, Control: true})
		}
	}
	f.end = ending(m)
	return f, nil
}

func render(m *models.Model, thinks bool, messages ...chat.Message) ([]tokenizer.Span, error) {
	variables := `{"enable_thinking":false,"thinking":false}`
	if thinks {
		variables = `{"enable_thinking":true,"thinking":true}`
	}
	extra, err := chat.FromJSON([]byte(variables))
	if err != nil {
		return nil, err
	}
	in := chat.Input{Messages: chat.Messages(messages...), AddGenerationPrompt: len(messages) == 1, Extra: extra}
	in.BOSToken, in.EOSToken = m.Tokenizer.BoundaryTexts()
	return m.Template.Render(in)
}

// cut gives the spans before and behind the last occurrence of a text of the client.
func cut(spans []tokenizer.Span, text string) (before, behind []tokenizer.Span, ok bool) {
	for i, s := range slices.Backward(spans) {
		at := strings.LastIndex(s.Text, text)
		if s.Control || at < 0 {
			continue
		}
		before, behind = slices.Clone(spans[:i]), slices.Clone(spans[i+1:])
		if at > 0 {
			before = append(before, tokenizer.Span{Text: s.Text[:at]})
		}
		if rest := s.Text[at+len(text):]; rest != "" {
			behind = slices.Insert(behind, 0, tokenizer.Span{Text: rest})
		}
		return before, behind, true
	}
	return nil, nil, false
}

// ending is the token that ends an answer: the first that the template writes behind one and that ends generation, or else the vocabulary's.
func ending(m *models.Model) []inference.TokenID {
	spans, err := render(m, false, chat.Message{Role: "user", Content: mark}, chat.Message{Role: "assistant", Content: reply})
	if err == nil {
		if _, behind, ok := cut(spans, reply); ok {
			for _, id := range m.Tokenizer.AppendSpans(nil, behind, tokenizer.EncodeOptions{}) {
				if m.Tokenizer.IsEOG(id) {
					return []inference.TokenID{id}
				}
			}
		}
	}
	if id, ok := m.Tokenizer.EOS(); ok {
		return []inference.TokenID{id}
	}
	return nil
}

// continued gives the ids of text behind other spans, which it follows in a prompt: what the two together have behind the ids of the first.
// Where they merge at the joint, it is tokenised by itself.
func continued(permit *limiter.Permit, m *models.Model, first, text []tokenizer.Span) ([]inference.TokenID, *api.Error) {
	head, fault := permit.Tokenise(m, first, tokenizer.EncodeOptions{})
	if fault != nil {
		return nil, fault
	}
	both, fault := permit.Tokenise(m, slices.Concat(first, text), tokenizer.EncodeOptions{Limit: m.CountedLimit() + len(head)})
	if fault != nil {
		return nil, fault
	}
	if len(both) > len(head) && slices.Equal(both[:len(head)], head) {
		return both[len(head):], nil
	}
	return permit.Tokenise(m, text, tokenizer.EncodeOptions{Limit: m.CountedLimit()})
}

// tokenise makes the prompts and the options' tokens.
func (p *Request) tokenise(o *job.Body, m *models.Model) *api.Error {
	p.Model = m
	if m.Pooler != nil {
		return p.forHead(o, m)
	}
	if m.Decision != nil {
		return p.forDecoder(o, m)
	}
	if m.Template == nil {
		return api.RefuseParam("no_chat_template", "model", "the model %s has no chat template that this server can render, and decisions are asked in a chat; "+
			"run the server with --chat-template", m.ID)
	}
	f, err := newFrame(m)
	if err != nil {
		return api.RefuseParam("template_error", "model", "the chat template of the model %s takes no question: %v", m.ID, err)
	}
	spans := append(slices.Clone(f.before), tokenizer.Span{Text: opening + p.input + seam})
	var fault *api.Error
	if p.shared, fault = o.Permit.Encode(m, p.form.inputName(), spans, tokenizer.EncodeOptions{Limit: m.CountedLimit()}); fault != nil {
		return fault
	}
	p.forks = make([]fork, len(p.questions))
	for i := range p.questions {
		if fault = p.fork(&p.forks[i], &p.questions[i], &f, o.Permit); fault != nil {
			return fault
		}
	}
	if n := p.Tokens(); n > MaxTokens {
		return tooManyTokens(n)
	}
	return nil
}

func tooManyTokens(n int) *api.Error {
	return api.RefuseParam("invalid_value", "questions", "the questions have %d tokens with their options, of %d that a request may have; ask them in several requests", n, MaxTokens)
}

// fork makes the tokens of a question and of its options.
func (p *Request) fork(k *fork, q *question, f *frame, permit *limiter.Permit) (fault *api.Error) {
	text := append([]tokenizer.Span{{Text: q.text()}}, f.behind...)
	if k.tail, fault = continued(permit, p.Model, []tokenizer.Span{{Text: seam}}, text); fault != nil {
		return fault
	}
	first, longest := make(map[string]int, len(q.options)), 0
	k.given = make([][]inference.TokenID, len(q.options))
	for i := range q.options {
		label := &q.options[i]
		ids, fault := continued(permit, p.Model, f.behind, []tokenizer.Span{{Text: label.label}})
		if fault != nil {
			return fault
		}
		if len(ids) == 0 {
			return api.RefuseParam("invalid_value", label.path, "%s has no tokens in the vocabulary of the model %s", label.path, p.Model.ID)
		}
		key := keyOf(ids)
		if other, again := first[key]; again {
			return api.RefuseParam("invalid_value", label.path, "%s has the same tokens as %s in the vocabulary of the model %s, which cannot tell them apart",
				label.path, q.options[other].path, p.Model.ID)
		}
		first[key] = i
		k.given[i] = slices.Concat(ids, f.end)
		longest = max(longest, len(k.given[i]))
	}
	if n := len(p.shared) + len(k.tail) + longest; n > p.Model.MaxModelLen {
		return api.RefuseParam("context_length_exceeded", q.path,
			"This model's maximum context length is %d tokens. However, %s and the input have %d tokens with the longest option. Please reduce the length of the %s or of the question.",
			p.Model.MaxModelLen, q.path, n, p.form.inputName())
	}
	return nil
}

// keyOf is the same for the same ids.
func keyOf(ids []inference.TokenID) string {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = append(key, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	return string(key)
}
