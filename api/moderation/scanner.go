package moderation

// scanner follows the matches of one automaton through a text: a thread for each place at which
// a match may have begun. The one that begins first counts, and of several that begin
// together the longest. A scanner without an automaton finds nothing.
type scanner struct {
	*automaton
	threads []thread // by start
	stretch int      // bytes of the text for a byte of a match, at most
}

// thread is a place where a match may have begun. Places are bytes from the text's begin.
type thread struct {
	start int
	state *state   // nil: the match cannot grow any more
	end   int      // of the longest match so far; start: there is none
	found *pattern // that matches up to end
	told  bool     // the match's replacement was written
}

// rune takes in the rune at a place, -1 for the end of the text. covered gives the text between
// two places. It reports whether a match was found or has grown.
func (s *scanner) rune(at int, r rune, width int, prev2, prev rune, covered func(from, to int) string) (news bool) {
	class := s.class(r)
	kept := s.threads[:0]
	for _, t := range s.threads {
		if t.state != nil {
			step := s.step(t.state, class)
			t.state = step.state
			if len(step.hits) > 0 && s.take(&t, step.hits, at, r, covered) {
				news = true
			}
			if t.state != nil && at+width-t.start > s.stretch*t.state.longest {
				t.state = nil
			}
		}
		if t.state != nil || t.found != nil {
			kept = append(kept, t)
		}
	}
	s.threads = kept
	if r < 0 {
		return news
	}
	if first := s.step(s.start(prev2, prev), class); first.state != nil {
		s.threads = append(s.threads, thread{start: at, end: at, state: first.state})
	}
	return news
}

// take looks for a match of a thread that ends at a place, before r.
func (s *scanner) take(t *thread, hits []int32, at int, r rune, covered func(from, to int) string) bool {
	for _, i := range hits {
		p := s.patterns[i]
		if at == t.start || at-t.start > s.stretch*p.maxBytes || !p.end.ends(r) || p.valid != nil && !p.valid(covered(t.start, at)) {
			continue
		}
		t.end, t.found = at, p
		return true
	}
	return false
}

// first is the match that begins first, of a scanner whose matches are acted on at once; nil is none.
func (s *scanner) first() *thread {
	for i := range s.threads {
		if t := &s.threads[i]; t.found != nil {
			return t
		}
	}
	return nil
}

// settled gives the next match that nothing can change any more, in the order of the text.
// Matches that begin in it are dropped.
func (s *scanner) settled() (done thread, ok bool) {
	for len(s.threads) > 0 && s.threads[0].state == nil {
		done = s.threads[0]
		n := 1
		for n < len(s.threads) && s.threads[n].start < done.end {
			n++
		}
		s.threads = s.threads[:copy(s.threads, s.threads[n:])]
		if done.found != nil {
			return done, true
		}
	}
	return thread{}, false
}

// undecided is where the text begins that a match may still change; at is where the text ends.
func (s *scanner) undecided(at int) int {
	if len(s.threads) > 0 {
		return s.threads[0].start
	}
	return at
}
