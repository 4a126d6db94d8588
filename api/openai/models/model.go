// Package models is the table of the models that a server has: the names that requests use, what answers for each, and its versions.
package models

import (
	"cmp"
	"errors"
	"fmt"

	"weir/api/moderation"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// Model is an entry of the model table: the names that requests may use, the
// version that they stand for, and the lane that computes for it. A lane is
// an engine here that generates text or pools it, with the tokenizer that feeds
// it, or an upstream that has its own. An entry is immutable once given to SetModels; a name moves to
// another version by another SetModels.
type Model struct {
	ID      string
	Aliases []string // further names
	Created int64    // Unix seconds; shown by /v1/models
	Adapter *Adapter // the entry is an adapter of another model, and has its Versions; nil: it is none
	Version string   // names what answers, as the digest of its weights; "" is not known

	Price quota.Price // of its tokens, for budgets in money

	Versions Versions // what answers each request, in place of what follows; nil: this entry does

	Calibration Calibration // of its decisions

	Policy *moderation.Policy // what texts it may be asked and may say; nil: any

	Fallback []string // names of models that answer where the upstream cannot, in order

	Upstream router.Upstream // the servers that have it; nil: what follows is the engine here

	Tokenizer   *tokenizer.Tokenizer // of an upstream, where it is known here: prompts are counted and told apart by their tokens
	MaxModelLen int                  // prompt and output together, in tokens
	Decision    *Decision            // how a model that generates is asked for decisions, as its file says; nil: in a chat
	Pooler      *Pooler              // of a model that reads texts and writes none; nil: what follows generates text

	Fingerprint string         // system_fingerprint: changes when the same seed may give other text. "" sends null
	Template    *chat.Template // nil: chat is refused
	Variables   []byte         // of the template where requests do not say, a JSON object; nil: none
	Family      *family.Family // how the model marks calls and thoughts; nil: everything it writes is text, and tools are refused
	HideTools   bool           // prompts of requests with tool_choice none do not list the tools
	Vocabulary  *Vocabulary    // for constrained answers; nil: they are refused
	Defaults    []Default      // of requests that do not say
	MaxLogprobs int            // most alternatives per token; 0 means DefaultMaxLogprobs
	Backend     router.Backend
}

// DefaultMaxLogprobs is the OpenAI API's own limit.
const DefaultMaxLogprobs = 20

// LogprobsLimit is the most alternatives per token.
func (m *Model) LogprobsLimit() int { return cmp.Or(m.MaxLogprobs, DefaultMaxLogprobs) }

func checkModel(m *Model) error {
	switch {
	case m.ID == "":
		return errors.New("a model has no id")
	case m.Versions != nil && m.lanes() == 0:
		return nil
	case m.lanes() > 1:
		return fmt.Errorf("model %q has more than one of an upstream, a pooler and a backend", m.ID)
	case m.Upstream != nil:
		return nil
	case m.Tokenizer == nil || m.lanes() == 0:
		return fmt.Errorf("model %q lacks a tokenizer, or both a pooler and a backend", m.ID)
	case m.MaxModelLen < 2:
		return fmt.Errorf("model %q has a context of %d tokens; 2 is the least", m.ID, m.MaxModelLen)
	case m.Pooler != nil:
		return m.Pooler.check(m)
	}
	return nil
}

func (m *Model) lanes() (n int) {
	for _, has := range []bool{m.Upstream != nil, m.Pooler != nil, m.Backend != nil} {
		if has {
			n++
		}
	}
	return n
}

// Load is the state of a lane here.
func (m *Model) Load() router.Load {
	if m.Versions != nil {
		return m.Outline().Load
	}
	if m.Pooler != nil {
		return m.Pooler.Embedder.Load()
	}
	return m.Backend.Load()
}

// Names are all that requests may call the model.
func (m *Model) Names() []string { return append([]string{m.ID}, m.Aliases...) }

// NotReady is the status of an engine that takes no requests.
const NotReady = "engine not ready"

// Ready reports whether the model's own lane can answer, and why not.
func (m *Model) Ready() (ready bool, why string) {
	var load router.Load
	if m.Versions == nil && m.Upstream != nil {
		load = m.Upstream.Load()
	} else {
		load = m.Load()
	}
	return load.Ready, cmp.Or(load.Why, NotReady)
}

// CurrentPolicy is that of the version that answers for a name now.
func (m *Model) CurrentPolicy() *moderation.Policy {
	if m.Versions != nil {
		return m.Outline().Policy
	}
	return m.Policy
}

// Outline is what an entry's Versions say of it.
func (m *Model) Outline() Outline {
	if m.Versions == nil {
		return Outline{}
	}
	o := m.Versions.Outline(m.ID)
	o.State = cmp.Or(o.State, "loaded")
	return o
}

// CountedLimit is how far a prompt is counted that must fit the context. Twice
// the context, so that a client a little above it learns by how much.
func (m *Model) CountedLimit() int { return 2 * m.MaxModelLen }

// TakesSystem reports whether the model's template takes a system message; some refuse it.
func (m *Model) TakesSystem() bool {
	bos, eos := m.Tokenizer.BoundaryTexts()
	_, err := m.Template.Render(chat.Input{BOSToken: bos, EOSToken: eos, AddGenerationPrompt: true,
		Messages: chat.Messages(chat.Message{Role: "system", Content: "x"}, chat.Message{Role: "user", Content: "x"})})
	return err == nil
}

// Around are the tokens that the vocabulary puts around a text.
func (m *Model) Around() []inference.TokenID {
	return m.Tokenizer.AppendEncode(nil, "", tokenizer.EncodeOptions{AddSpecial: true})
}

// separators are how many tokens the vocabulary puts behind a text.
func (m *Model) separators() int {
	n := len(m.Around())
	if m.Tokenizer.AddsBOS() {
		n--
	}
	return n
}

// DoublesSeparator reports whether two separators stand between the texts of a pair, as in RoBERTa's vocabularies and
// those made after them.
func (m *Model) DoublesSeparator() bool {
	bos, eos := m.Tokenizer.BoundaryTexts()
	return bos == "<s>" && eos == "</s>"
}

// Kind says what a model is asked for.
type Kind string

// The kinds of models.
const (
	KindGenerate  Kind = "generate"
	KindEmbedding Kind = "embedding"
	KindRank      Kind = "rerank"
	KindClassify  Kind = "classify" // it has labels, of which it says how probable they are for a text
	KindDecide    Kind = "decide"   // it has a decision head
	KindUnknown   Kind = ""         // the upstream knows
)

// Kind is what the model, or its version that answers now, is asked for.
func (m *Model) Kind() Kind {
	switch {
	case m.Upstream != nil:
		return KindUnknown
	case m.Versions != nil:
		o := m.Outline()
		return o.kind()
	case m.Pooler == nil:
		return KindGenerate
	case m.Pooler.Ranks():
		return KindRank
	case m.Pooler.Classes != nil:
		return KindClassify
	case m.Pooler.Decision != nil:
		return KindDecide
	}
	return KindEmbedding
}
