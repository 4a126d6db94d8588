package grammar

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"weir/internal/work"
)

// TestGrammarsAtTheirLimitsGiveBack: what answers have worked out until their grammar's limit is given back with the answers, whatever keeps
// the grammars, and an account holds what live grammars do.
func TestGrammarsAtTheirLimitsGiveBack(t *testing.T) {
	const limit, grammars = 1 << 20, 8
	tenant := work.NewAccount(4*limit, nil)
	v := bytesVocabulary(nil)
	compile := func(limits Limits, build func(b *Builder) Symbol) *Grammar {
		limits.Account = tenant
		b := NewBuilder(limits)
		g, err := b.Compile(build(b))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	answer := func(g *Grammar, text string) error {
		m, err := g.Matcher(v)
		if err != nil {
			return err
		}
		_, err = follow(t, m, text)
		return err
	}
	balance := func(what string, kept []*Grammar) {
		t.Helper()
		tenant.Reclaim()
		var sum int64
		for _, g := range kept {
			sum += g.Bytes()
		}
		if got := tenant.Bytes(); got != sum || got > 2*limit {
			t.Errorf("%s: %d bytes are in the account, %d in its grammars, the limit of each is %d", what, got, sum, limit)
		}
	}
	var kept []*Grammar
	for i := range grammars {
		g := compile(Limits{Bytes: limit}, doubled)
		for range 2 { // the second answer starts from nothing
			if err := answer(g, strings.Repeat("a", 100)); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "bytes") {
				t.Fatalf("grammar %d: %v, want an ErrLimit of bytes", i, err)
			}
			if g.Begun(v) {
				t.Errorf("grammar %d: new answers begin with an engine that has no room", i)
			}
			tenant.Reclaim()
		}
		kept = append(kept, g)
		balance("hostile", kept)
	}
	ordinary := compile(Limits{}, arithmetic)
	if err := answer(ordinary, "1+2*(3+4)"); err != nil {
		t.Error(err)
	}
	kept = append(kept, ordinary)
	balance("with an ordinary one", kept)
	runtime.KeepAlive(kept)
	balance("without them", nil)
}

// TestAnswersOfOneGrammarDoNotWaitForTheCollector: each answer fits its grammar's limit, and what earlier ones have worked out may be garbage
// that has not been collected yet.
func TestAnswersOfOneGrammarDoNotWaitForTheCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const limit = 1 << 20
	b := NewBuilder(Limits{Bytes: limit})
	g, err := b.Compile(b.Regex(mustParse(t, `a{1000000}`)))
	if err != nil {
		t.Fatal(err)
	}
	v := bytesVocabulary(nil)
	for i := range 40 {
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatalf("answer %d cannot begin: %v", i, err)
		}
		for engine := m.e; engine.table.memory.kept() < limit/3; { // beyond a quarter of the limit
			if _, err := follow(t, m, "a"); err != nil {
				t.Fatalf("answer %d: %v with %d bytes", i, err, engine.table.memory.kept())
			}
		}
	}
	if g.Bytes() < 2*limit {
		t.Errorf("the answers took %d bytes: too few to show anything", g.Bytes())
	}
}

// TestTheFirstEngineHasTheAutomatonOfCompiling: it is built once, counted once, and no two engines share it.
func TestTheFirstEngineHasTheAutomatonOfCompiling(t *testing.T) {
	b := NewBuilder(Limits{})
	g, err := b.Compile(arithmetic(b))
	if err != nil {
		t.Fatal(err)
	}
	compiled, automaton := g.own.Bytes(), g.first.Automaton
	for i, v := range []*Vocabulary{bytesVocabulary(nil), bytesVocabulary([]string{"12"})} {
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		if has := m.e.table.lexer.auto == automaton; has != (i == 0) {
			t.Errorf("engine %d has the automaton of compiling: %v", i, has)
		}
		if _, err := follow(t, m, "1+2*(3+4)"); err != nil {
			t.Error(err)
		}
	}
	if got := compiled - g.own.Bytes(); got < 1000 || g.first != nil {
		t.Errorf("the first engine counts the automaton, and %d bytes of it less count for the grammar", got)
	}
}
