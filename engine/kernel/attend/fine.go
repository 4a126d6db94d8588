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

// joinParts makes tiles of the parts at places, and gives where in w.opened they are.
func (w *attendWork) joinParts(places []int) []int {
	kv, size := w.KV, w.KV.tileBytes()
	part, whole := kv.part, 0
	for i, at := range places {
		from := kv.data[at:][:kv.tileSize]
		first := i % (tileTokens / part) * part
		to := w.opened[whole*size:][:size]
		keys, values := 2*part*kv.HeadDim, to[kv.valuesAt():]
		joinKeys(to[2*first:], from[:keys], kv.HeadDim, part)
		copy(values[2*first*kv.HeadDim:], from[keys:])
		if first+part == tileTokens || i == len(places)-1 {
			places[whole] = whole * size
			whole++
		}
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
