package constraint

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weir/api"
	"weir/api/openai/format"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/replay"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/semaphore"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// Few grammars are compiled at once; a client that hangs up or waits too long gives up its own place alone.
func TestJ16CompilingIsBounded(t *testing.T) {
	g := NewCompiler(64<<20, nil, func() bool { return false })
	v := grammar.NewVocabulary([][]byte{[]byte("a"), []byte("b")}, nil)
	get := func(tenant string, r *AnswerRules, gone <-chan struct{}) (*compiledRules, error) {
		p := g.compiling(tenant, gone)
		defer p.end()
		c, _, err := p.begin(r.hash(), r, v)
		return c, err
	}
	var taken []*semaphore.Permit
	for range max(1, runtime.NumCPU()/4) {
		permit, err := g.permits.Acquire(nil, "tenant")
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, permit)
	}
	gone := make(chan struct{})
	close(gone)
	r := &AnswerRules{Format: &format.Format{Kind: format.Regex, Field: "regex", Text: []byte("a+")}}
	if _, err := get("tenant", r, gone); err == nil || err.(*api.Error).Code != "client_closed_request" { //nolint:errorlint // it is one
		t.Errorf("without a permit: %v", err)
	}
	for _, permit := range taken {
		permit.Release()
	}
	c, err := get("tenant", r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := get("tenant", r, gone); again != c {
		t.Error("compiled twice for one tenant")
	}
	if other, _ := get("other", r, nil); other == c {
		t.Error("one tenant got another one's grammar")
	}
}

// Rules that differ in any part are another grammar.
func TestRulesDifferByAllTheyHave(t *testing.T) {
	seen := map[replay.Hash]string{}
	see := func(what string, r *AnswerRules) {
		if other, found := seen[r.hash()]; found {
			t.Errorf("%s equals %s", what, other)
		}
		seen[r.hash()] = what
	}
	for i, f := range []format.Format{
		{}, {Kind: format.Schema}, {Text: []byte("a")}, {Choices: []string{"a"}}, {Choices: []string{"", "a"}}, {Choices: []string{"a", ""}},
	} {
		for k, edit := range []func(*format.Format){
			func(*format.Format) {}, func(f *format.Format) { f.Options.Strict = true }, func(f *format.Format) { f.Options.Closed = true },
			func(f *format.Format) { f.Options.Compact = true }, func(f *format.Format) { f.Options.Documents = []byte("{}") }, func(f *format.Format) { f.Options.Whitespace = "a" },
		} {
			g := f
			edit(&g)
			see(fmt.Sprintf("format %d.%d", i, k), &AnswerRules{Format: &g})
		}
	}
	tool := family.Tool{Name: "f", Parameters: []byte("{}")}
	for i, edit := range []func(*models.Model, *job.Reading){
		func(*models.Model, *job.Reading) {},
		func(m *models.Model, _ *job.Reading) { m.ID = "m" },
		func(m *models.Model, _ *job.Reading) { m.Version = "v" },
		func(_ *models.Model, q *job.Reading) { q.Thinks = true },
		func(_ *models.Model, q *job.Reading) { q.Options.Opening.Thinking = true },
		func(_ *models.Model, q *job.Reading) { q.Options.Opening.Thought = true },
		func(_ *models.Model, q *job.Reading) { q.Options.Opening.Markup = "<" },
		func(_ *models.Model, q *job.Reading) { q.Options.Choice.Mode = family.Required },
		func(_ *models.Model, q *job.Reading) { q.Options.Choice.Parallel = true },
		func(_ *models.Model, q *job.Reading) { q.Options.Choice.Names = []string{"f"} },
		func(_ *models.Model, q *job.Reading) { q.Options.Tools = append(q.Options.Tools, tool) },
		func(_ *models.Model, q *job.Reading) { q.Options.Tools[0].Name = "g" },
		func(_ *models.Model, q *job.Reading) { q.Options.Tools[0].Parameters = nil },
		func(_ *models.Model, q *job.Reading) { q.Options.Tools[0].Strict = true },
	} {
		m, q := &models.Model{}, &job.Reading{Options: family.Options{Tools: []family.Tool{tool}}}
		edit(m, q)
		see(fmt.Sprintf("reading %d", i), &AnswerRules{Model: m, Reading: q})
	}
}

// TestACompileEndsWithItsClient: a hang-up ends the work in its middle.
func TestACompileEndsWithItsClient(t *testing.T) {
	g := NewCompiler(64<<20, nil, func() bool { return false })
	gone, once := make(chan struct{}), sync.Once{}
	p := g.compiling("tenant", gone)
	if fault := p.take(); fault != nil {
		t.Fatal(fault)
	}
	defer p.end()
	ask := p.meter.Ask
	p.meter.Ask = func() error {
		if p.meter.Spent() > 100_000 { // in the middle
			once.Do(func() { close(gone) })
			<-p.done
		}
		return ask()
	}
	r := &AnswerRules{Format: &format.Format{Kind: format.Schema, Field: "json", Text: wideSchema(150, 60)}}
	_, fault := r.Compile(grammar.Limits{Meter: p.meter, Account: g.account("tenant")})
	if fault == nil || p.blame(fault).Code != "client_closed_request" {
		t.Errorf("%v after %d units", fault, p.meter.Spent())
	}
	if p.meter.Spent() > 1_000_000 {
		t.Errorf("%d units after the client had gone", p.meter.Spent())
	}
}

// TestATenantsGrammarsShareAnAccount: what one tenant's grammars take is bounded in all, whatever answers still use of it, and
// another tenant's room is its own.
func TestATenantsGrammarsShareAnAccount(t *testing.T) {
	g := NewCompiler(64<<20, nil, func() bool { return false })
	g.bytes = 12 << 20
	tok := byteTokenizer(t)
	v := models.NewVocabulary(tok).Build()
	var held []*grammar.Matcher
	full := 0
	for i := range 4 {
		limits := grammar.Limits{Account: g.account("a"), Bytes: 8 << 20}
		f := &format.Format{Kind: format.Regex, Field: "regex", Text: []byte(fmt.Sprint(i) + hostilePattern)}
		c, fault := (&AnswerRules{Format: f}).Compile(limits)
		if fault != nil {
			full++
			continue
		}
		m, err := c.Grammar.Matcher(v)
		if err != nil {
			full++
			continue
		}
		held = append(held, m)
		if err := hostileAnswer(matcher{m}, v); errors.Is(err, inference.ErrFormatTooComplex) {
			full++
		}
	}
	if got := g.account("a").Bytes(); full == 0 || got > 16<<20 {
		t.Errorf("a tenant's grammars take %d bytes, %d were refused", got, full)
	}
	if room := g.account("b").Room(); room != 12<<20 {
		t.Errorf("another tenant has room for %d bytes", room)
	}
	runtime.KeepAlive(held)
}

// TestHostileFormatsLeaveRoomForOthersOfTheirTenant: formats whose answers have ended at a limit, all of them cached or just over, give way
// to what their tenant asks for next.
func TestHostileFormatsLeaveRoomForOthersOfTheirTenant(t *testing.T) {
	reference.Slow(t)
	g := NewCompiler(64<<20, nil, func() bool { return false })
	g.bytes = 16 << 20
	tok := byteTokenizer(t)
	v := models.NewVocabulary(tok).Build()
	answer := func(f *format.Format) error {
		r := &AnswerRules{Format: f, Model: &models.Model{Tokenizer: tok}}
		p := g.compiling("tenant", nil)
		defer p.end()
		_, m, err := p.begin(r.hash(), r, v)
		if err != nil {
			return err
		}
		return hostileAnswer(matcher{m}, v)
	}
	ordinary := &format.Format{Kind: format.Schema, Field: "json", Text: wideSchema(1000, 0), Options: schema.Options{Closed: true}}
	if err := answer(ordinary); err != nil {
		t.Fatalf("alone: %v", err)
	}
	ended := 0
	for round := range 3 {
		for i := range 3 {
			f := &format.Format{Kind: format.Regex, Field: "regex", Text: fmt.Appendf(nil, "%d,%d%s", round, i, hostilePattern)}
			if answer(f) != nil {
				ended++
			}
		}
		again := *ordinary
		again.Text = append([]byte(strings.Repeat(" ", round)), ordinary.Text...)
		for _, f := range []*format.Format{ordinary, &again} { // compiled before, and new
			if err := answer(f); err != nil {
				t.Errorf("after %d hostile formats: %v", 3*(round+1), err)
			}
		}
	}
	if ended == 0 {
		t.Error("no hostile format came to a limit")
	}
}
