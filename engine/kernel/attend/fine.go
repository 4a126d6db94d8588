package attend

// Sequences whose attention must lose nothing keep float16 in the pages of a store that rounds, as many tokens of them as a page has room
// for: half a block of q8_0, a quarter of one of q4_0. Such a block may be smaller than a tile. Then it has a part of one, laid out alike with
// fewer tokens, keys [HeadDim][part] and values [part][HeadDim], and attention joins the parts of a segment in the worker's memory, as
// tiles of f16.

// leastPart is the fewest tokens of a part of a tile.
const leastPart = 4

// Finely are the shapes of the tables where a sequence's keys and values are float16, in pages of the same size: blocks have fewer tokens.
// Those of a store that does not round are the same.
func (t Tables) Finely() Tables {
	fine := append(Tables(nil), t...)
	for i := range fine {
		s := &fine[i]
		switch s.Type {
		case KVQ8:
			s.Type, s.BlockTokens = KVF16, s.BlockTokens/2
		case KVQ4:
			s.Type, s.BlockTokens = KVF16, s.BlockTokens/4
		default: // they do not round more than that
		}
	}
	return fine
}

// Finely is a view of the pages for sequences with other blocks than all others, whose shapes are those of [Tables.Finely]. Its memory
// is that of the pages.
func (p *Pages) Finely() *Pages {
	fine := &Pages{size: p.size, data: p.data}
	var shapes Tables
	for _, kv := range p.tables {
		shapes = append(shapes, kv.KVShape)
	}
	for i, s := range shapes.Finely() {
		kv := *p.tables[i]
		if kv.KVShape != s {
			kv.KVShape, kv.forms = s, nil
			kv.part = min(tileTokens, s.BlockTokens&-s.BlockTokens)
			kv.tileSize = s.tileBytes() / tileTokens * kv.part
			kv.blockSize = s.KVHeads * s.BlockTokens / kv.part * kv.tileSize
		}
		fine.tables = append(fine.tables, &kv)
	}
	return fine
}

// openedTile is the size of a tile that attention has to make of what is stored, in bytes; 0 where kernels read the store.
func (kv *KV) openedTile() int {
	switch {
	case kv.Type == KVQ4:
		return openedBytes(kv.HeadDim)
	case kv.part < tileTokens:
		return kv.tileBytes()
	}
	return 0
}

// Sequences with a common beginning, of which a step has many where one input is asked about often, have the same tiles there: a worker keeps
// what it has joined, and joins it again only where other parts come.
const (
	keptSegments = 4       // of each key head
	mostKept     = 2 << 20 // bytes of them
)

// joined is a segment whose tiles a worker has made of parts.
type joined struct {
	kv     *KV
	reads  uint64 // of the query, see [Query]
	places []int  // of the parts
	whole  int    // leading parts in which no token is missing
}

// keeps is how many segments a worker keeps, of tiles of so many bytes.
func (kv *KV) keeps(tile int) int {
	if kv.part == tileTokens {
		return 1
	}
	return min(max(1, mostKept/(segmentTokens/tileTokens*tile)), keptSegments*kv.KVHeads)
}

// known are the leading parts of segment s that the worker has joined already, in whole tiles, and where the segment's tiles are in w.opened.
// It notes that it will have joined those at places, from position first on.
func (w *attendWork) known(s, first int, places []int) (parts, at int) {
	kv := w.KV
	n := (s*kv.KVHeads + w.head) % kv.keeps(kv.tileBytes())
	for len(w.kept) <= n {
		w.kept = append(w.kept, joined{})
	}
	k := &w.kept[n]
	if k.kv == kv && k.reads == w.Reads && w.Reads != 0 {
		for parts < min(k.whole, len(places)) && k.places[parts] == places[parts] {
			parts++
		}
		parts -= parts % (tileTokens / kv.part)
	}
	k.kv, k.reads, k.places = kv, w.Reads, append(k.places[:0], places...)
	k.whole = min(len(places), (w.tile.end()-first)/kv.part)
	return parts, n * segmentTokens / tileTokens * kv.tileBytes()
}

// joinParts makes tiles of the parts of segment s at places, which begin with position first, and gives where in w.opened they are.
func (w *attendWork) joinParts(s, first int, places []int) []int {
	kv, size := w.KV, w.KV.tileBytes()
	part := kv.part
	known, at := w.known(s, first, places)
	whole := known * part / tileTokens
	for i := known; i < len(places); i++ {
		from := kv.data[places[i]:][:kv.tileSize]
		first := i % (tileTokens / part) * part
		to := w.opened[at+whole*size:][:size]
		keys, values := 2*part*kv.HeadDim, to[kv.valuesAt():]
		joinKeys(to[2*first:], from[:keys], kv.HeadDim, part)
		copy(values[2*first*kv.HeadDim:], from[keys:])
		if first+part == tileTokens || i == len(places)-1 {
			whole++
		}
	}
	for i := range whole {
		places[i] = at + i*size
	}
	return places[:whole]
}

// joinKeys writes the keys of a part, [dim][part] of two bytes each, to their place among the columns of a tile, [dim][tileTokens]. The
// parts of q8_0, of eight tokens, and of q4_0, of four, go in one move a row.
func joinKeys(to, from []byte, dim, part int) {
	switch part {
	case 8:
		for d := range dim {
			*(*[16]byte)(to[2*tileTokens*d:]) = [16]byte(from[16*d:])
		}
	case leastPart:
		for d := range dim {
			*(*[8]byte)(to[2*tileTokens*d:]) = [8]byte(from[8*d:])
		}
	default:
		for d := range dim {
			copy(to[2*tileTokens*d:], from[2*part*d:][:2*part])
		}
	}
}
