package pooling

import (
	"time"

	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// Rules are those of a server for these requests.
type Rules struct {
	ParseSpecial bool // default of parse_special: control tokens in texts are parsed
}

// Request is a parsed request to a pooling model: the texts that it reads, and how
// the answer is made of what it gives.
type Request struct {
	ID        string // ours, unique
	Name      string // what the answer is called; the client's own, where it has one
	RequestID string // the body's name for it; "" is none
	Model     *models.Model
	Price     quota.Price // of its tokens, by the request's class
	Texts     [][]inference.TokenID
	Types     [][]uint8 // nil: all 0
	Answer    Answer
	Arrived   time.Time
	Parsed    time.Time // before the texts were tokenised
}

// Answer writes the answer to a request.
type Answer interface {
	// AppendAnswer may change the vectors, of which there is one for each text, all of
	// the model's dimensions and finite.
	AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte
}

// Tokens counts those of all texts.
func (p *Request) Tokens() int {
	n := 0
	for _, ids := range p.Texts {
		n += len(ids)
	}
	return n
}

// Longest is how many tokens the longest text has.
func (p *Request) Longest() int {
	n := 0
	for _, ids := range p.Texts {
		n = max(n, len(ids))
	}
	return n
}

// PromptTexts are the texts as the model reads them.
func (p *Request) PromptTexts() []string { return p.Model.Texts(p.Texts) }
