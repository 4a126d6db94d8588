package gbdt

import (
	"cmp"
	"math"
	"slices"
)

// A ranker turns a row into bytes. Trees compare a feature with a limited number of thresholds, and where a value
// stands among them decides every test: the rank of a value in a column is how many of the column's thresholds it
// reaches, and a node sends a row right where the rank is at least the node's own. Ranks are exact whatever the type of
// a value is, they make a comparison a byte wide, and they hold everything that is special about a value:
//
//   - a missing value ranks 0 in the columns of nodes that send it left and 255 in the others';
//   - a category or an equality has a column of its own, in which a value that goes left ranks 0 and any other 1;
//   - a feature with more than maxThresholds of them has several columns, one for each stretch of its thresholds.
type ranker[X float] struct {
	plain      []uint64 // by column: the feature, and above 32 bits the rank of a missing value
	thresholds []X      // by column 17 blocks of 16: the last threshold of each of the other blocks, then those; NaN where none is
	special    []specialColumn[X]
	rankPlain  rankFunc[X]
}

// rankFunc writes the ranks of plain columns, stride bytes apart.
type rankFunc[X float] func(dst []byte, stride int, row []X, plain []uint64, thresholds []X)

const (
	maxThresholds = 254 // of a column: one rank more, and 255 for a missing value
	missingRight  = 255
	blockSize     = 16
	columnSize    = (1 + blockSize) * blockSize
	maxColumns    = 4096
)

// specialColumn is a column that is more than comparisons with thresholds.
type specialColumn[X float] struct {
	feature    int32
	rule       Rule
	missing    byte
	equal      X
	set        []uint32
	rounding   Rounding
	thresholds []X // columnSize; nil with the rules Equal and Member
}

// nodeTest is a node's test on ranks: a row goes right where its rank in the column is at least rank.
type nodeTest struct {
	column uint16
	rank   uint8
}

// columnKey tells the columns of a feature apart.
type columnKey struct {
	feature int32
	rule    Rule
	operand float64 // the threshold of Equal, the set of Member
}

// columnList collects the thresholds of columns, key by key.
type columnList[X float] struct {
	ids   map[columnKey]int
	keys  []columnKey
	lists [][]X // by key: the least values that go right
	first []int // by key: its first column
}

// newRanker gives an ensemble's columns and the tests of its nodes; false if it would have too many columns.
func newRanker[X float](e *Ensemble, rank rankFunc[X]) (*ranker[X], []nodeTest, bool) {
	c := &columnList[X]{ids: map[columnKey]int{}}
	ids := make([]int32, len(e.Feature))
	for n := range ids {
		id := c.id(e.columnKey(n))
		ids[n] = int32(id)
		if limit, ok := leastRight[X](e, n); ok && !c.keys[id].isFlag() {
			c.lists[id] = append(c.lists[id], limit)
		}
	}
	r := &ranker[X]{rankPlain: rank}
	if !r.addColumns(e, c) {
		return nil, nil, false
	}
	tests := make([]nodeTest, len(ids))
	for n, id := range ids {
		limit, ok := leastRight[X](e, n)
		column := c.first[id]
		switch {
		case c.keys[id].isFlag():
			tests[n] = nodeTest{column: uint16(column), rank: 1}
		case !ok:
			tests[n] = nodeTest{column: uint16(column), rank: missingRight}
		default:
			at, _ := slices.BinarySearch(c.lists[id], limit)
			tests[n] = nodeTest{column: uint16(column + at/maxThresholds), rank: uint8(at%maxThresholds + 1)}
		}
	}
	return r, tests, true
}

func (c *columnList[X]) id(key columnKey) int {
	id, ok := c.ids[key]
	if !ok {
		id = len(c.keys)
		c.ids[key] = id
		c.keys, c.lists = append(c.keys, key), append(c.lists, nil)
	}
	return id
}

// leastRight is the least number that goes right at node n; false if there is none.
func leastRight[X float](e *Ensemble, n int) (X, bool) {
	x := X(e.Threshold[n])
	if e.Less {
		return x, true
	}
	if math.IsInf(float64(x), 1) {
		return x, false
	}
	if single[X]() {
		return X(math.Nextafter32(float32(x), float32(math.Inf(1)))), true
	}
	return X(math.Nextafter(float64(x), math.Inf(1))), true
}

func (e *Ensemble) columnKey(n int) columnKey {
	key := columnKey{feature: e.Feature[n], rule: e.Rules[n]}
	if key.isFlag() {
		key.operand = e.Threshold[n]
	}
	return key
}

// addColumns makes the columns, plain ones first; false if there are too many.
func (r *ranker[X]) addColumns(e *Ensemble, c *columnList[X]) bool {
	order := make([]int, len(c.keys))
	for id := range order {
		order[id] = id
		slices.Sort(c.lists[id])
		c.lists[id] = slices.Compact(c.lists[id])
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := c.keys[i], c.keys[j]
		return cmp.Or(cmp.Compare(b2i(a.isSpecial()), b2i(b.isSpecial())), cmp.Compare(a.feature, b.feature),
			cmp.Compare(a.rule, b.rule), cmp.Compare(a.operand, b.operand))
	})
	c.first = make([]int, len(order))
	for _, id := range order {
		c.first[id] = r.columns()
		list := c.lists[id]
		for more := true; more; more = len(list) > 0 {
			part := list[:min(len(list), maxThresholds)]
			list = list[len(part):]
			r.addColumn(e, c.keys[id], part)
		}
		if r.columns() > maxColumns {
			return false
		}
	}
	return true
}

// isFlag says whether the column's ranks are 0 and 1 only.
func (k columnKey) isFlag() bool { return k.rule&(Equal|Member) != 0 }

func (k columnKey) isSpecial() bool { return k.rule&(Equal|Member|ZeroMissing) != 0 }

func (r *ranker[X]) addColumn(e *Ensemble, key columnKey, list []X) {
	missing := byte(missingRight)
	if key.rule&MissingLeft != 0 {
		missing = 0
	}
	if !key.isSpecial() {
		r.plain = append(r.plain, uint64(missing)<<32|uint64(key.feature))
		r.thresholds = appendBlocks(r.thresholds, list)
		return
	}
	s := specialColumn[X]{feature: key.feature, rule: key.rule, missing: missing, rounding: e.Rounding}
	switch {
	case key.rule&Member != 0:
		s.set = e.Sets[int(key.operand)]
	case key.rule&Equal != 0:
		s.equal = X(key.operand)
	default:
		s.thresholds = appendBlocks(nil, list)
	}
	r.special = append(r.special, s)
}

// appendBlocks appends a column's thresholds, sorted, as rankPlain reads them.
func appendBlocks[X float](dst, list []X) []X {
	none := X(math.NaN())
	at := len(dst)
	for range columnSize {
		dst = append(dst, none)
	}
	column := dst[at:]
	copy(column[blockSize:], list)
	for i := range blockSize {
		column[i] = column[blockSize+i*blockSize+blockSize-1]
	}
	return dst
}

func (r *ranker[X]) columns() int { return len(r.plain) + len(r.special) }

func (r *ranker[X]) bytes() int {
	size := 8
	if single[X]() {
		size = 4
	}
	n := len(r.plain)*8 + len(r.thresholds)*size
	for i := range r.special {
		n += 64 + len(r.special[i].thresholds)*size
	}
	return n
}

// rank writes a row's ranks, stride bytes apart.
func (r *ranker[X]) rank(dst []byte, stride int, row []X) {
	if len(r.plain) > 0 {
		r.rankPlain(dst, stride, row, r.plain, r.thresholds)
	}
	if len(r.special) == 0 {
		return
	}
	dst = dst[len(r.plain)*stride:]
	for i := range r.special {
		dst[i*stride] = r.special[i].rank(row)
	}
}

func (s *specialColumn[X]) rank(row []X) byte {
	x := row[s.feature]
	switch {
	case x != x, s.rule&ZeroMissing != 0 && math.Abs(float64(x)) <= zeroThreshold:
		if s.thresholds == nil {
			return min(s.missing, 1)
		}
		return s.missing
	case s.rule&Member != 0:
		return byte(b2i(!s.rounding.member(s.set, float64(x))))
	case s.rule&Equal != 0:
		return byte(b2i(x != s.equal))
	}
	return rankOf(s.thresholds, x)
}

func rankPortable[X float](dst []byte, stride int, row []X, plain []uint64, thresholds []X) {
	for c, packed := range plain {
		x := row[uint32(packed)]
		rank := byte(packed >> 32)
		if x == x {
			rank = rankOf(thresholds[c*columnSize:(c+1)*columnSize], x)
		}
		dst[c*stride] = rank
	}
}

// rankOf counts the thresholds of a column that x, a number, reaches.
func rankOf[X float](column []X, x X) byte {
	block := reached(column[:blockSize], x) // at most 15: a column has fewer than 256 thresholds
	return byte(block*blockSize + reached(column[(1+block)*blockSize:][:blockSize], x))
}

// reached counts the leading ones of 16 sorted thresholds that x reaches. They are at most 15: the last one of a block
// is also looked at to choose the block.
func reached[X float](t []X, x X) int {
	_ = t[blockSize-1]
	n := 0
	if x >= t[7] {
		n = 8
	}
	if x >= t[n+3] {
		n += 4
	}
	if x >= t[n+1] {
		n += 2
	}
	if x >= t[n] {
		n++
	}
	return n
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
