package tokenizer

// floor bounds the number of ids of a text from below without encoding it.
// Every id stands for at most maxUnits units of the text. Units are bytes, or for
// WordPiece, which turns a word of any length into one id, words.
type floor struct {
	maxUnits int // 0: texts of any length may have no ids at all
	words    bool
	vanish   [256]bool // bytes that may leave no id
	exact    bool      // no byte vanishes
}

// MinTokens is a lower bound of the number of ids of spans, found without
// encoding them: a prompt whose lower bound is above a limit cannot fit. It is 0
// where no bound is known.
func (t *Tokenizer) MinTokens(spans []Span) int {
	f := &t.floor
	if f.maxUnits == 0 {
		return 0
	}
	units, inWord := 0, false
	for _, s := range spans {
		switch {
		case f.words:
			var n int
			n, inWord = countWords(s.Text, inWord)
			units += n
		case f.exact:
			units += len(s.Text)
		default:
			for i := range len(s.Text) {
				if !f.vanish[s.Text[i]] {
					units++
				}
			}
		}
	}
	return (units + f.maxUnits - 1) / f.maxUnits
}

// newFloor finds the bounds of a complete tokenizer.
func newFloor(t *Tokenizer) floor {
	f := floor{exact: true}
	v := t.vocabulary
	if v.kind == kindUnigram {
		return f // its normaliser drops what it likes, and characters that are no entries share an id
	}
	if w, ok := t.model.(*wordPiece); ok {
		f.words = true
		if w.unknown == none {
			return f // a word that cannot be spelt leaves nothing
		}
		f.maxUnits = 1
	}
	var buffer []byte
	for i, text := range v.texts {
		special := v.types[i] == typeControl || v.types[i] == typeUnknown || v.types[i] == typeUserDefined
		switch {
		case f.words && special:
			n, _ := countWords(text, false)
			f.maxUnits = max(f.maxUnits, n)
		case f.words:
		case special || v.kind != kindBytePair:
			f.maxUnits = max(f.maxUnits, len(text))
		default:
			buffer = appendBytesOf(buffer[:0], text)
			f.maxUnits = max(f.maxUnits, len(buffer))
		}
	}
	f.findVanishing(t)
	return f
}

// findVanishing marks the bytes that may leave no id: white space that a
// special token swallows, and bytes for which the vocabulary has no entry.
func (f *floor) findVanishing(t *Tokenizer) {
	for b := range f.vanish {
		f.vanish[b] = len(t.specials.strips) > 0 && isASCIISpace(byte(b))
	}
	if p, ok := t.model.(*bytePair); ok && p.unknown == none {
		for b, symbol := range p.bytes {
			switch {
			case symbol < p.size:
			case b >= 0x80: // an invalid byte is spelt by other bytes: U+FFFD
				for high := 0x80; high <= 0xFF; high++ {
					f.vanish[high] = true
				}
			default:
				f.vanish[b] = true
			}
		}
	}
	for _, gone := range f.vanish {
		f.exact = f.exact && !gone
	}
}

// countWords counts words that have an id of their own whatever the
// vocabulary: stretches of ASCII letters and digits between ASCII white space
// and punctuation, and the punctuation. Other text may join or vanish, and
// counts for nothing. inWord says that the text begins inside such a
// stretch.
func countWords(text string, inWord bool) (int, bool) {
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z':
			if !inWord {
				n++
			}
			inWord = true
		case isASCIISpace(c):
			inWord = false
		case c > ' ' && c < 0x7F:
			n++
			inWord = false
		}
	}
	return n, inWord
}
