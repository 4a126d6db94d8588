package kernel

import "weir/kvcache"

// tileRows is how many query rows share one pass over the keys: enough to
// spread the cost of decoding a key, few enough that the scores of a long
// context stay in the second-level cache.
const tileRows = 8

// Span is a run of query rows of one sequence: rows [Row, Row+Count) of the
// batch stand at positions [Start, Start+Count), and Blocks covers positions
// [0, Start+Count). Keys and values of these rows are stored before attention
// runs.
type Span struct {
	Row    int
	Count  int
	Start  int
	Blocks []kvcache.BlockID
}

// Attention computes causal grouped-query attention over the paged store for
// every row of every span: out[r][h] = softmax(q[r][h].K * scale) V. q and out
// are [rows][heads*HeadDim]. The work of a span grows with its own length
// only. Each row's sums run over positions in ascending order.
func (c *CPU) Attention(out, q []float32, kv *KV, layer, heads int, spans []Span, scale float32) {
	j := &c.attend
	j.cpu, j.out, j.q, j.kv, j.layer, j.heads, j.scale = c, out, q, kv, layer, heads, scale
	j.tiles = j.tiles[:0]
	longest := 0
	for _, s := range spans {
		longest = max(longest, s.Start+s.Count)
		for lo := 0; lo < s.Count; lo += tileRows {
			n := min(tileRows, s.Count-lo)
			j.tiles = append(j.tiles, Span{Row: s.Row + lo, Count: n, Start: s.Start + lo, Blocks: s.Blocks})
		}
	}
	group := heads / kv.KVHeads
	c.reserve(kv.HeadDim + tileRows*group*longest)
	c.pool.Run(j, len(j.tiles)*kv.KVHeads, 1)
}

type attendJob struct {
	cpu    *CPU
	out, q []float32
	kv     *KV
	layer  int
	heads  int
	scale  float32
	tiles  []Span
}

// Do handles one tile of rows and one key/value head, with all query heads
// that share it.
func (j *attendJob) Do(worker, item int) {
	kv := j.kv
	t, head := j.tiles[item/kv.KVHeads], item%kv.KVHeads
	vec := j.cpu.scratch[worker][:kv.HeadDim]
	scores := j.cpu.scratch[worker][kv.HeadDim:]
	length := t.Start + t.Count
	j.score(t, head, vec, scores, length)
	j.mix(t, head, vec, scores, length)
}

// query returns the place of row r's query head h of the group of head, in q
// or out.
func (j *attendJob) query(x []float32, t Span, r, head, h int) []float32 {
	d, group := j.kv.HeadDim, j.heads/j.kv.KVHeads
	o := ((t.Row+r)*j.heads + head*group + h) * d
	return x[o : o+d]
}

// score fills scores, [row][group][length], with scaled products up to each
// row's own position.
func (j *attendJob) score(t Span, head int, vec, scores []float32, length int) {
	group := j.heads / j.kv.KVHeads
	for pos := range length {
		k := j.kv.head(j.kv.keys, j.layer, t.Blocks, pos, head, vec)
		for r := max(0, pos-t.Start); r < t.Count; r++ {
			for h := range group {
				scores[(r*group+h)*length+pos] = dot(k, j.query(j.q, t, r, head, h)) * j.scale
			}
		}
	}
}

// mix turns each row's scores into weights and adds up the values.
func (j *attendJob) mix(t Span, head int, vec, scores []float32, length int) {
	group := j.heads / j.kv.KVHeads
	for r := range t.Count {
		for h := range group {
			s := scores[(r*group+h)*length:][:t.Start+r+1]
			inv := 1 / softmax(s)
			for i := range s {
				s[i] *= inv
			}
			clear(j.query(j.out, t, r, head, h))
		}
	}
	for pos := range length {
		v := j.kv.head(j.kv.vals, j.layer, t.Blocks, pos, head, vec)
		for r := max(0, pos-t.Start); r < t.Count; r++ {
			for h := range group {
				axpy(j.query(j.out, t, r, head, h), scores[(r*group+h)*length+pos], v)
			}
		}
	}
}

// head returns one head's vector at a position, decoded into vec where it is
// not stored as floats.
func (kv *KV) head(data []byte, layer int, blocks []kvcache.BlockID, pos, head int, vec []float32) []float32 {
	o := kv.at(layer, blocks[pos/kv.BlockTokens], pos%kv.BlockTokens) + head*kv.headBytes
	raw := data[o : o+kv.headBytes]
	if kv.Type == KVF32 {
		return Floats(raw)
	}
	Decode(kv.Type.weightType(), vec, raw)
	return vec
}
