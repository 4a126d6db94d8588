package openai

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/api"
	"weir/api/replay"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/grammar"
)

// Vocabulary is a tokenizer's vocabulary as grammars see it. It is built for the first
// request that needs it, within a tenth of a second for 128k tokens.
type Vocabulary struct{ build func() *grammar.Vocabulary }

// NewVocabulary is that of a tokenizer; the vocabulary keeps the tokenizer's memory.
func NewVocabulary(t *tokenizer.Tokenizer) *Vocabulary {
	return &Vocabulary{sync.OnceValue(func() *grammar.Vocabulary {
		v := grammar.NewVocabulary(t.Pieces())
		v.SetEncoder(func(dst []int32, text string) []int32 { return t.AppendEncode(dst, text, tokenizer.EncodeOptions{}) })
		return v
	})}
}

// grammars compiles what binds answers, few at a time, and keeps what it has compiled for
// the tenant that asked for it.
type grammars struct {
	cache *replay.Cache[*compiledRules]
	turns *turnstile
}

const grammarCacheAge = 24 * time.Hour

func newGrammars(c Config, aborted <-chan struct{}) *grammars {
	return &grammars{
		cache: replay.NewCache[*compiledRules](replay.CacheConfig{Bytes: c.GrammarBytes, MaxAge: grammarCacheAge}),
		turns: newTurnstile("grammars wait to be compiled", aborted, func() bool { return false }),
	}
}

// constrain gives a job the constraint of its format and its tools: what is wrong with
// them is told before the request waits for anything.
func (c *call) constrain(j *job) *api.Error {
	rules, bound := rulesOf(j)
	if !bound || j.maxTokens == 0 {
		return nil
	}
	if j.model.Vocabulary == nil {
		if rules.lazy() {
			return nil
		}
		return unsupported(rules.field(), "answers of the model "+j.model.ID+" cannot be constrained: ask for the format in a message")
	}
	key := rules.hash()
	compiled, fault := c.server.grammars.get(c.caller.Tenant.Name, key, &rules, c.watch())
	if fault != nil {
		return fault
	}
	for _, w := range compiled.warnings {
		j.params.notes.add("%s", w)
	}
	if compiled.grammar == nil {
		return nil
	}
	m, err := compiled.grammar.Matcher(j.model.Vocabulary.build())
	switch {
	case err != nil && rules.lazy(): // a token that the model's template speaks of and its vocabulary lacks
		j.params.notes.add("tools are not enforced: %s", headerQuote(err.Error()))
		return nil
	case err != nil:
		return rules.refuse(err)
	}
	j.constraint, j.constraintKey = matcher{m}, string(key[:])
	return nil
}

// get compiles rules, or finds them compiled. gone is closed when the client hangs up.
func (g *grammars) get(tenant string, key replay.Hash, r *answerRules, gone <-chan struct{}) (*compiledRules, *api.Error) {
	if c, ok := g.cache.Get(tenant, key); ok {
		g.cache.Weigh(tenant, key, c.bytes(r)) // answers have made it larger
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
	c, fault := r.compile()
	if fault == nil {
		g.cache.Put(tenant, key, c, c.bytes(r))
	}
	return c, fault
}

// bytes is what rules take, compiled and with their text.
func (c *compiledRules) bytes(r *answerRules) int64 {
	n := int64(r.size())
	if c.grammar != nil {
		n += c.grammar.Bytes()
	}
	return n
}

// matcher is a grammar's matcher as the engine takes it. A limit that an answer exceeds is its request's fault: its grammar takes too much.
type matcher struct{ *grammar.Matcher }

func (m matcher) Mask(dst []uint64) (end bool, err error) {
	end, err = m.Matcher.Mask(dst)
	return end, blame(err)
}

func (m matcher) Accept(id inference.TokenID) error { return blame(m.Matcher.Accept(id)) }

func blame(err error) error {
	if errors.Is(err, grammar.ErrLimit) {
		return fmt.Errorf("%w: %w", inference.ErrFormatTooComplex, err)
	}
	return err
}

func (m matcher) Fork() inference.Constraint { return matcher{m.Matcher.Fork()} }
