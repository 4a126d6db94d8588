package grammar

import (
	"errors"
	"testing"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// FuzzHostilePatterns compiles any pattern and follows an answer of it: compiling and each mask stay within their units of work, the grammar within
// its bytes, and what exceeds a limit is an ErrLimit.
func FuzzHostilePatterns(f *testing.F) {
	for _, p := range hostilePatterns {
		f.Add(p, uint8(0))
	}
	f.Add(`((a{1,100000}){1,100000}){1,100000}|(x+x+)+y`, uint8(3))
	f.Add(`[^\x00-\x7f]{3,90}(\d|\W){1,300}.*\pN`, uint8(200))
	v := manyLetters()
	const (
		compiling = 5_000_000
		single    = 500_000 // of one call to Spend
	)
	limits := Limits{Work: 500_000, Answer: 3_000_000, Bytes: 4 << 20}
	f.Fuzz(func(t *testing.T, pattern string, from uint8) {
		r, err := regex.Parse(pattern, regex.RE2)
		if err != nil {
			return
		}
		l := limits
		l.Meter, l.Account = &work.Meter{Limit: compiling}, work.NewAccount(0, nil)
		b := NewBuilder(l)
		g, err := b.Compile(b.Regex(r))
		if spent := l.Meter.Spent(); spent > compiling+single {
			t.Fatalf("%q took %d units to compile", pattern, spent)
		}
		if err != nil {
			return
		}
		m, err := g.MatcherUnder(v, l.Meter)
		if err != nil {
			if !errors.Is(err, ErrLimit) {
				t.Fatalf("%q: %v", pattern, err)
			}
			return
		}
		last := int64(0)
		err = answerUntil(m, 12+int(from)%20, func([]uint64) {
			if took := m.Taken() - last; took > 2*int64(l.Work)+single {
				t.Fatalf("%q: a token took %d units", pattern, took)
			}
			last = m.Taken()
		})
		if err != nil && !errors.Is(err, ErrLimit) {
			t.Fatalf("%q: %v", pattern, err)
		}
		if kept := l.Account.Bytes(); kept > 2*int64(l.Bytes) {
			t.Fatalf("%q: %d bytes are kept", pattern, kept)
		}
	})
}
