package constraint

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/replay"
	"weir/internal/inference"
	"weir/internal/semaphore"
	"weir/tokenizer/grammar"
)

// Compiler compiles what binds answers, fairly between tenants, and keeps
// what it has compiled for the tenant that asked for it.
type Compiler struct {
	cache   *replay.Cache[*compiledRules]
	permits *semaphore.Semaphore
	aborted <-chan struct{}

	mu        sync.Mutex
	accounts  map[string]*allowance // of tenants
	bytes     int64                 // that a tenant's grammars may take
	collected time.Time
}

const (
	grammarCacheAge = 24 * time.Hour
	grammarTimeout  = 30 * time.Second // for compiling, the wait for a permit included
	maxGrammars     = 128              // that a tenant may have compiled at one time
	// compileUnits is what a grammar may take to compile: within a second of processor time.
	compileUnits = 40_000_000
	// leastAccount is what grammars of a tenant may take, however small the cache is.
	leastAccount = 128 << 20
)

// NewCompiler keeps compiled grammars of so many bytes, of all tenants together. aborted is closed when the server stops; busy says whether sequences run.
func NewCompiler(bytes int64, aborted <-chan struct{}, busy func() bool) *Compiler {
	return &Compiler{
		cache:    replay.NewCache[*compiledRules](replay.CacheConfig{Bytes: bytes, MaxAge: grammarCacheAge}),
		permits:  semaphore.New(semaphore.Config{Permits: max(1, runtime.NumCPU()/4), PerTenant: maxGrammars, Busy: busy, Rest: 1}),
		aborted:  aborted,
		accounts: map[string]*allowance{},
		bytes:    max(leastAccount, bytes),
	}
}

// Constrain gives a job the constraint of its format and its tools: what is wrong with
// them is told before the request waits for anything. gone gives the channel that ends the compiling; took is the processor time that it needed.
func (g *Compiler) Constrain(j *job.Job, gone func() <-chan struct{}) (took time.Duration, fault *api.Error) {
	rules, bound := rulesOf(j)
	if !bound || j.MaxTokens == 0 {
		return 0, nil
	}
	if j.Model.Vocabulary == nil {
		if rules.lazy() {
			return 0, nil
		}
		return 0, jsonbody.Unsupported(rules.field(), "answers of the model "+j.Model.ID+" cannot be constrained: ask for the format in a message")
	}
	key := rules.hash()
	p := g.compiling(j.Tenant.Name, gone())
	defer func() { took = p.end() }()
	compiled, m, err := p.begin(key, &rules, j.Model.Vocabulary.Build())
	if errors.As(err, &fault) {
		return 0, fault
	}
	for _, w := range compiled.Warnings {
		j.Params.Notes.Add("%s", w)
	}
	switch {
	case compiled.Grammar == nil:
		return 0, nil
	case err != nil && rules.lazy(): // a token that the model's template speaks of and its vocabulary lacks
		j.Params.Notes.Add("tools are not enforced: %s", jsonbody.HeaderQuote(err.Error()))
		return 0, nil
	case err != nil:
		return 0, rules.refuse(err)
	}
	j.Constraint, j.ConstraintKey = matcher{m}, string(key[:])
	return 0, nil
}

// bytes is what rules take, compiled and with their text.
func (c *compiledRules) bytes(r *AnswerRules) int64 {
	n := int64(r.size())
	if c.Grammar != nil {
		n += c.Grammar.Bytes()
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
