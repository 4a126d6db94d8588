package grammar

const (
	// forcedBytes is the most text that Forced looks ahead.
	forcedBytes = 256
	// forcedContext is how many tokens before the forced text are encoded with it.
	forcedContext = 3
)

// SetEncoder gives the vocabulary the tokenizer's own way from text to ids, without special tokens; a blank that it puts before a text does
// no harm. Without an encoder Forced gives nothing. It is called before any Matcher is made.
func (v *Vocabulary) SetEncoder(encode func(dst []int32, text string) []int32) { v.encode = encode }

// Forced appends the tokens that come next whatever the model says: the text is the only one that the grammar allows, and its tokens are
// those of the tokenizer for this text after the tokens so far, however the answer goes on. What the grammar forces beyond that is left out.
func (m *Matcher) Forced(dst []int32) []int32 {
	v := m.e.v
	if v.encode == nil || m.err != nil {
		return dst
	}
	p, text, meter := m.place(), m.forced[:0], m.begin()
	for len(text) < forcedBytes {
		b, ok := m.e.onlyByte(p, &m.walk)
		if !ok {
			break
		}
		next, err := m.e.step(p, b, meter)
		if err != nil {
			break
		}
		p, text = next, append(text, b)
	}
	m.forced = text
	defer m.count()
	if meter.Err() != nil || len(text) == 0 {
		return dst
	}
	start := 0
	for _, id := range m.encodeForced(text) {
		if m.e.goesPast(p, text[start:], &m.walk) {
			break // the answer may go on so that the tokenizer cuts it otherwise from here
		}
		dst = append(dst, id)
		start += len(v.pieces[id])
	}
	return dst
}

// encodeForced gives the ids of a text after the tokens accepted so far, none where the tokenizer would join it with them.
func (m *Matcher) encodeForced(text []byte) []int32 {
	v := m.e.v
	from := len(m.ids)
	for from > 0 && len(m.ids)-from < forcedContext && len(v.pieces[m.ids[from-1]]) > 0 {
		from--
	}
	whole := m.whole[:0]
	for _, id := range m.ids[from:] {
		whole = append(whole, v.pieces[id]...)
	}
	before := len(whole)
	whole = append(whole, text...)
	m.whole = whole
	ids := v.encode(m.encoded[:0], string(whole))
	m.encoded = ids
	total := 0
	for _, id := range ids {
		if id < 0 || int(id) >= v.size {
			return nil
		}
		total += len(v.pieces[id])
	}
	before += total - len(whole) // a blank in front
	at := 0
	for i, id := range ids {
		if at == before {
			return ids[i:]
		}
		at += len(v.pieces[id])
	}
	return nil
}

const (
	onlyUnknown = 0
	onlyNone    = 1
	onlyFirst   = 2 // plus the byte
)

// onlyByte gives the byte that must come at a place where nothing else may.
func (e *engine) onlyByte(p *place, walk *scratch) (byte, bool) {
	if known := p.only.Load(); known != onlyUnknown {
		return byte(known - onlyFirst), known != onlyNone
	}
	only := int32(onlyNone)
	if !p.end {
		var err error
		if only, err = e.findOnly(p, walk); err != nil {
			return 0, false
		}
	}
	p.only.Store(only)
	return byte(only - onlyFirst), only != onlyNone
}

func (e *engine) findOnly(p *place, walk *scratch) (int32, error) {
	only := int32(onlyNone)
	for _, x := range p.parts {
		if len(x.lex.tokens) > 0 {
			return onlyNone, nil
		}
		if err := walk.meter.Spend(256 / nodesPerUnit); err != nil {
			return onlyNone, err
		}
		if !x.lex.bytes {
			continue
		}
		for b := range 256 {
			q, err := e.lexStep(x.lex, byte(b), walk)
			if err != nil {
				return onlyNone, err
			}
			if q == e.table.lexer.dead || only == int32(b)+onlyFirst {
				continue
			}
			if only != onlyNone {
				return onlyNone, nil
			}
			only = int32(b) + onlyFirst
		}
	}
	return only, nil
}

// goesPast reports whether a token that begins with a text, is longer and may come: p is the place after the text.
func (e *engine) goesPast(p *place, text []byte, walk *scratch) bool {
	trie := e.v.trie
	for _, b := range text {
		i := 0
		for i < len(trie) && trie[i].byte != b {
			i += int(trie[i].size)
		}
		if i >= len(trie) {
			return false
		}
		trie = trie[i+1 : i+int(trie[i].size)]
	}
	walk.grow(e.v)
	at := walk.places
	at[len(text)] = p
	for i := 0; i < len(trie); {
		n := &trie[i]
		q, err := e.step(at[n.depth-1], n.byte, &walk.meter)
		if err != nil {
			return true
		}
		if q == e.dead {
			i += int(n.size)
			continue
		}
		if n.token != none {
			return true
		}
		at[n.depth] = q
		i++
	}
	return false
}
