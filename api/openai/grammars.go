package openai

import (
	"sync"
	"time"

	"weir/api"
	"weir/api/replay"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
)

// Vocabulary is a tokenizer's vocabulary as grammars see it. It is built for the first
// request that needs it, within a tenth of a second for 128k tokens.
type Vocabulary struct{ build func() *grammar.Vocabulary }

// NewVocabulary is that of a tokenizer; the vocabulary keeps the tokenizer's memory.
func NewVocabulary(t *tokenizer.Tokenizer) *Vocabulary {
	return &Vocabulary{sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(t.Pieces()) })}
}

// compiledFormat is a format's grammar.
type compiledFormat struct {
	grammar  *grammar.Grammar
	warnings []string
}

// grammars compiles formats, few at a time, and keeps what it has compiled for the tenant
// that asked for it.
type grammars struct {
	cache *replay.Cache[*compiledFormat]
	turns *turnstile
}

const (
	grammarCacheAge   = 24 * time.Hour
	grammarBytes      = 32 << 10 // of a grammar in use, beside
	grammarTextFactor = 64       // times its text
)

func newGrammars(c Config, aborted <-chan struct{}) *grammars {
	return &grammars{
		cache: replay.NewCache[*compiledFormat](replay.CacheConfig{Bytes: c.GrammarBytes, MaxAge: grammarCacheAge}),
		turns: newTurnstile("grammars wait to be compiled", aborted, func() bool { return false }),
	}
}

// constrain gives a job the constraint that its format asks for: what is wrong with the
// format is told before the request waits for anything.
func (c *call) constrain(j *job) *api.Error {
	f := j.params.format
	if f == nil || j.maxTokens == 0 {
		return nil
	}
	if j.model.Vocabulary == nil {
		return unsupported(f.field, "answers of the model "+j.model.ID+" cannot be constrained: ask for the format in a message")
	}
	if fault := f.suits(j.reading); fault != nil {
		return fault
	}
	thought := thoughtOf(j)
	key := f.hash(thought)
	j.constraintKey = string(key[:])
	compiled, fault := c.server.grammars.get(c.caller.Tenant.Name, key, f, thought, c.watch())
	if fault != nil {
		return fault
	}
	for _, w := range compiled.warnings {
		j.params.notes.add("%s", w)
	}
	m, err := compiled.grammar.Matcher(j.model.Vocabulary.build())
	if err != nil {
		return f.refuse(err)
	}
	j.constraint = matcher{m}
	return nil
}

// get compiles a format, or finds it compiled. gone is closed when the client hangs up.
func (g *grammars) get(tenant string, key replay.Hash, f *format, t thought, gone <-chan struct{}) (*compiledFormat, *api.Error) {
	if c, ok := g.cache.Get(tenant, key); ok {
		return c, nil
	}
	turn, fault := g.turns.take(gone)
	if fault != nil {
		return nil, fault
	}
	defer turn.end()
	if c, ok := g.cache.Get(tenant, key); ok { // compiled for another request meanwhile
		return c, nil
	}
	c, fault := f.compile(t)
	if fault == nil {
		g.cache.Put(tenant, key, c, int64(grammarBytes+grammarTextFactor*f.size()))
	}
	return c, fault
}

// suits refuses a format for answers that are not one text.
func (f *format) suits(r *reading) *api.Error {
	switch {
	case r == nil:
	case r.tools.has() && r.options.Choice.Mode != family.None:
		return unsupported(f.field, "send it without tools, or with tool_choice none: an answer is a call or has this format")
	case r.thinks && r.family.Name == "harmony":
		return unsupported(f.field, "answers of this model are messages of several channels: ask for the format in a message")
	}
	return nil
}

func (f *format) size() int {
	n := len(f.text) + len(f.options.Whitespace)
	for _, c := range f.choices {
		n += len(c)
	}
	return n
}

// matcher is a grammar's matcher as the engine takes it.
type matcher struct{ *grammar.Matcher }

// Forced is nothing yet.
func (m matcher) Forced(dst []inference.TokenID) []inference.TokenID { return dst }

func (m matcher) Fork() inference.Constraint { return matcher{m.Matcher.Fork()} }
