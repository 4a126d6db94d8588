package decision

import (
	"encoding/json"
	"slices"
	"time"

	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// Request is a parsed request: the prompts of its questions, the tokens of their options, and how the answer is written.
type Request struct {
	ID        string // ours, unique
	RequestID string // the body's name for it; "" is none
	Model     *models.Model
	Price     quota.Price // of its tokens, by the request's class
	Parsed    time.Time   // before the prompts were tokenised

	raw       bool // answers are not calibrated
	input     string
	state     json.RawMessage // JSON that the input is written of; nil: it is text
	questions []question
	form      form
	shared    []inference.TokenID // begins all prompts
	forks     []fork
	decoder   *decoder // of a language model whose file says how it is asked; nil: it is asked in a chat
	head      *head    // nil: a language model answers
}

// fork is what the prompt of a question has behind the shared tokens, and its options.
type fork struct {
	tail  []inference.TokenID
	given [][]inference.TokenID // each with the token that ends an answer
	marks []int
}

// Len is the number of prompts: one of each question, or two where a model is shown the options in both orders.
func (p *Request) Len() int {
	if p.head != nil {
		return len(p.questions)
	}
	return len(p.forks)
}

// Prompt is the prompt of a question, made for the call.
func (p *Request) Prompt(i int) []inference.TokenID { return slices.Concat(p.shared, p.forks[i].tail) }

// Given are the tokens of a question's options.
func (p *Request) Given(i int) [][]inference.TokenID { return p.forks[i].given }

// Marks are the places in a prompt where a decision head reads the options; nil: their tokens are read.
func (p *Request) Marks(i int) []int { return p.forks[i].marks }

// What is asked at one time, at most: so many ids of prompts, whose beginning each has for itself, and so many options, each of which waits
// for a slot. One question may have more.
const (
	waveTokens  = 1 << 20
	waveOptions = 256
)

// Wave is behind the last question that is asked together with question from.
func (p *Request) Wave(from int) (to int) {
	tokens, options := 0, 0
	for to = from; to < len(p.forks); to++ {
		tokens += len(p.shared) + len(p.forks[to].tail)
		options += len(p.forks[to].given)
		if to > from && (tokens > waveTokens || options > waveOptions) {
			break
		}
	}
	return to
}

// Tokens counts what is computed: the shared tokens once, and those of the questions and of their options. The token that ends an answer
// is not computed.
func (p *Request) Tokens() int {
	n := len(p.shared)
	if p.head != nil {
		for _, ids := range p.head.texts {
			n += len(ids)
		}
	}
	for i := range p.forks {
		n += len(p.forks[i].tail)
		if p.decoder != nil { // labels are not computed
			continue
		}
		for _, ids := range p.forks[i].given {
			n += max(len(ids)-1, 1)
		}
	}
	return n
}

// Longest is how many tokens the longest prompt has, with the longest option of its question.
func (p *Request) Longest() int {
	longest := 0
	if p.head != nil {
		for _, ids := range p.head.texts {
			longest = max(longest, len(ids))
		}
	}
	for i := range p.forks {
		n := len(p.shared) + len(p.forks[i].tail)
		for _, ids := range p.forks[i].given {
			longest = max(longest, n+len(ids))
		}
	}
	return longest
}

// Cached counts the tokens of a call that were not computed, by how many each question found cached of its prompt. What a question found of
// the shared tokens another one of the call may have computed, so that the least of them counts.
func (p *Request) Cached(found []int) int {
	own, shared := 0, len(p.shared)
	for _, n := range found {
		own += max(0, n-len(p.shared))
		shared = min(shared, n)
	}
	return own + shared
}

// Texts are the input and the questions, as they are shown to tenants that agreed to it.
func (p *Request) Texts() []string {
	texts := []string{p.input}
	for i := range p.questions {
		texts = append(texts, p.questions[i].text())
	}
	return texts
}
