package regex

// Spelling says how the bytes of a text are written inside another notation, as JSON writes a string between its quotes.
type Spelling struct {
	of  [256]string
	own ByteSet // bytes that are their own spelling
	all *Regex  // the spellings of all texts
}

// NewSpelling takes the spelling of each byte. Spellings must tell texts apart (none is the beginning of another's), and bytes from 0x80 on
// must be their own.
func NewSpelling(of func(b byte) string) *Spelling {
	s := &Spelling{}
	for b := range 256 {
		s.of[b] = of(byte(b))
		if s.of[b] == string([]byte{byte(b)}) {
			s.own.Add(byte(b))
		}
	}
	var every ByteSet
	every.AddRange(0, 255)
	s.all = Repeat(s.bytes(every), 0, Unbounded)
	return s
}

// Regex matches the spellings of the texts that r matches.
func (s *Spelling) Regex(r *Regex) *Regex {
	return (&speller{Spelling: s, seen: map[*Regex]*Regex{}}).spell(r)
}

// speller spells one expression.
type speller struct {
	*Spelling
	seen map[*Regex]*Regex
}

func (s *speller) spell(r *Regex) *Regex {
	if known, ok := s.seen[r]; ok {
		return known
	}
	spelled := s.make(r)
	s.seen[r] = spelled
	return spelled
}

func (s *speller) make(r *Regex) *Regex {
	switch r.op {
	case opBytes:
		return s.bytes(r.set)
	case opRunes:
		return s.runes(r.runes)
	case opWords:
		words := make([]string, len(r.words))
		for i, w := range r.words {
			words[i] = s.text(w)
		}
		return Words(words...)
	case opConcat, opOr, opAnd:
		kids := make([]*Regex, len(r.kids))
		for i, k := range r.kids {
			kids[i] = s.spell(k)
		}
		switch r.op {
		case opConcat:
			return Concat(kids...)
		case opOr:
			return Or(kids...)
		default:
			return And(kids...)
		}
	case opNot:
		return And(s.all, Not(s.spell(r.kids[0])))
	case opRepeat:
		return Repeat(s.spell(r.kids[0]), int(r.least), int(r.most))
	default:
		return r
	}
}

func (s *Spelling) text(w string) string {
	var b []byte
	for i := range len(w) {
		b = append(b, s.of[w[i]]...)
	}
	return string(b)
}

func (s *Spelling) bytes(set ByteSet) *Regex {
	var words []string
	for b := range 256 {
		if set.Has(byte(b)) && !s.own.Has(byte(b)) {
			words = append(words, s.of[b])
		}
	}
	return Or(Bytes(set.both(s.own)), Words(words...))
}

func (s *Spelling) runes(ranges []RuneRange) *Regex {
	var words []string
	var rest []RuneRange
	for _, r := range ranges {
		from := r.First
		for ; from <= min(r.Last, 0x7F); from++ {
			if !s.own.Has(byte(from)) {
				words = append(words, s.of[from])
			} else {
				rest = append(rest, RuneRange{from, from})
			}
		}
		if from <= r.Last {
			rest = append(rest, RuneRange{from, r.Last})
		}
	}
	return Or(Runes(rest...), Words(words...))
}
