package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

// productFunc is a generated product; see asm/product.go.
type productFunc func(dst *float32, stride int, tile *byte, panel *byte, large *uint32, masks *uint16,
	panels int, blocks int, bias *float32, add int)

// productFuncs are the products of one type and level by the panel's rows: of
// one tile, and of two or four that are neighbours in memory, nil where there is none.
type productFuncs struct {
	one, two, four [panelRows + 1]productFunc
}

// funcs are the products with a matrix at a level, nil where they are plain Go.
func (m *Matrix) funcs(level isa.Level) *productFuncs {
	if m.format.kind == kindPair {
		return pairProducts
	}
	return productsFor(level, m.Type)
}

// span is full tiles of a matrix that are multiplied by one or several panels.
type span struct {
	w       *Matrix
	funcs   *productFuncs // of the matrix' type; nil at the portable level
	lo, hi  int           // tiles lo to hi-1
	panel   panelView     // the first panel; the others follow it
	panels  int           // 1 at the portable level
	rows    int           // of each panel
	several bool          // the step has further panels than one
	dst     []float32     // output o of tile t for row r is at r*stride + (t-lo)*tileLanes + o
	stride  int           // floats
	bias    []float32     // of tile 0 on, or nil
	add     bool          // to what dst holds
}

// multiply does the span's tiles, where it can several at a time. Several are faster
// from cache, one from memory: the only panel of a step reads weights once, in one
// stream.
func (s *span) multiply() {
	if s.funcs == nil {
		for t := s.lo; t < s.hi; t++ {
			s.portable(t)
		}
		return
	}
	for t := s.lo; t < s.hi; {
		n, run := 1, s.funcs.one[s.rows]
		if f := s.funcs.two[s.rows]; s.several && f != nil && s.hi-t >= 2 {
			n, run = 2, f
		}
		if f := s.funcs.four[s.rows]; s.several && f != nil && s.hi-t >= 4 {
			n, run = 4, f
		}
		s.assembly(t, n, run)
		t += n
	}
}

// outputs is where the outputs of tile t begin, and its biases, nil of none.
func (s *span) outputs(t int) (dst, bias []float32) {
	if s.bias != nil {
		bias = s.bias[t*tileLanes:]
	}
	return s.dst[(t-s.lo)*tileLanes:], bias
}

// blocks is how many blocks a row has.
func (s *span) blocks() int { return s.w.Cols / s.w.format.values }

// assembly multiplies n tiles from tile t on with run, which is for so many.
func (s *span) assembly(t, n int, run productFunc) {
	dst, bias := s.outputs(t)
	_ = dst[(s.panels*s.rows-1)*s.stride+n*tileLanes-1]
	_ = s.w.data[(t+n)*s.w.tileBytes()-1]
	_ = s.panel.codes[s.panels*s.rows*s.w.format.kind.rowBytes(s.w.Cols)-1]
	var b *float32
	if bias != nil {
		_ = bias[n*tileLanes-1]
		b = &bias[0]
	}
	add := 0
	if s.add {
		add = 1
	}
	var large *uint32
	var masks *uint16
	if len(s.panel.masks) > 0 {
		blocks := s.panels * (s.w.Cols / blockValues)
		_, _ = s.panel.large[16*s.rows*blocks-1], s.panel.masks[blocks-1]
		large, masks = &s.panel.large[0], &s.panel.masks[0]
	}
	run(&dst[0], 4*s.stride, &s.w.tile(t)[0], &s.panel.codes[0], large, masks, s.panels, s.blocks(), b, add)
}

// portable multiplies tile t in plain Go.
func (s *span) portable(t int) {
	var total [panelRows][tileLanes]float32
	f, typ, m, tile, panel := s.w.format, s.w.Type, s.rows, s.w.tile(t), s.panel
	switch f.kind {
	case kindSuper:
		for b := range s.blocks() {
			superProduct(typ, f, &total, tile[b*f.tileBytes:], panel.block(f, b, m), m)
		}
	case kindBlock:
		for b := range s.blocks() {
			blockProduct(typ, f, &total, tile[b*f.tileBytes:], panel.block(f, b, m), m)
		}
	default:
		floatProduct(typ, f, &total, tile, panel.codes, m)
	}
	dst, bias := s.outputs(t)
	for r := range m {
		out := dst[r*s.stride:][:tileLanes]
		for l := range out {
			v := total[r][l]
			if bias != nil {
				v += bias[l]
			}
			if s.add {
				v += out[l]
			}
			out[l] = v
		}
	}
}

// panelView is a panel, or what follows a block of one.
type panelView struct {
	codes []byte
	large []uint32
	masks []uint16
}

// block is what begins with block b of a panel of m rows.
func (p panelView) block(f *format, b, m int) panelView {
	first := b * f.values / blockValues
	return panelView{codes: p.codes[b*f.kind.rowBytes(f.values)*m:], large: p.large[16*first*m:], masks: p.masks[first:]}
}

// panelRow is row r of m of one block of a panel.
type panelRow struct {
	panel panelView
	m, r  int
}

// dot adds the products of n k-quads of the row, from quad first on, with codes,
// [n][lane][4] unsigned, to sum.
func (p panelRow) dot(sum *[tileLanes]int32, codes []byte, first, n int) {
	p.dotCodes(sum, codes, first, n)
	for q := first; q < first+n; q++ {
		for odd := range 2 {
			if p.panel.masks[q/8]>>(q%8+8*odd)&1 != 0 {
				p.dotLarge(sum, codes[4*tileLanes*(q-first)+odd:], 16*(q/8)+q%8+8*odd)
			}
		}
	}
}

// dotLarge adds the products of a pair of the row's large values with codes, the first of which is the first lane's.
func (p panelRow) dotLarge(sum *[tileLanes]int32, codes []byte, pair int) {
	both := p.panel.large[pair*p.m+p.r]
	first, second := int32(int16(both)), int32(int16(both>>16))
	for l := range sum {
		sum[l] += int32(codes[4*l])*first + int32(codes[4*l+2])*second
	}
}

// dotCodes does so of the int8.
func (p panelRow) dotCodes(sum *[tileLanes]int32, codes []byte, first, n int) {
	acts := p.panel.codes[4*(first*p.m+p.r):]
	for q := range n {
		a := acts[4*q*p.m:][:4]
		a0, a1, a2, a3 := int32(int8(a[0])), int32(int8(a[1])), int32(int8(a[2])), int32(int8(a[3]))
		c := (*[4 * tileLanes]byte)(codes[4*tileLanes*q:])
		for l := range sum {
			sum[l] += int32(c[4*l])*a0 + int32(c[4*l+1])*a1 + int32(c[4*l+2])*a2 + int32(c[4*l+3])*a3
		}
	}
}

// at is the dword of the row among the m dwords that begin at byte offset*m.
func (p panelRow) at(offset int) uint32 {
	return binary.LittleEndian.Uint32(p.panel.codes[offset*p.m+4*p.r:])
}

func (p panelRow) float(offset int) float32 { return math.Float32frombits(p.at(offset)) }

// bias is -32 times the sum of values 16*i to 16*i+15 of a superblock.
func (p panelRow) bias(i int) int32 { return int32(p.at(superBiases + 4*i)) }

// sum is the sum of values 32*i to 32*i+31 of a superblock.
func (p panelRow) sum(i int) int32 { return int32(int16(p.at(superSums+i/2*4) >> (i % 2 * 16))) }

// totals are the integer sums of a superblock of one row by lane.
type totals struct {
	scaled [tileLanes]int32 // products times scales
	minima [tileLanes]int32 // activations times minima
}

// superProduct adds one superblock of the formats with two levels of scales.
func superProduct(t gguf.Type, f *format, total *[panelRows][tileLanes]float32, tile []byte, panel panelView, m int) {
	var codes [superBlockValues * tileLanes]byte
	expandBlock(t, codes[:], tile)
	for r := range m {
		row := panelRow{panel, m, r}
		var to totals
		addSums(t, &to, codes[:], tile, row)
		scale := row.float(superScale)
		for l := range to.scaled {
			v := scaleAt(tile, f.factor+2*l) * float32(to.scaled[l])
			if f.least > 0 {
				v -= scaleAt(tile, f.least+2*l) * float32(to.minima[l])
			}
			total[r][l] += v * scale
		}
	}
}

// blockProduct adds one block of the formats with one scale for 32 values.
func blockProduct(t gguf.Type, f *format, total *[panelRows][tileLanes]float32, tile []byte, panel panelView, m int) {
	var codes [blockValues * tileLanes]byte
	expandBlock(t, codes[:], tile)
	var scales [tileLanes]float32
	blockScales(f, &scales, tile)
	for r := range m {
		row := panelRow{panel, m, r}
		scale := row.float(blockScale)
		if f.least > 0 {
			var sum [tileLanes]int32
			row.dot(&sum, codes[:], 0, 8)
			acts := float32(int32(row.at(blockBiases)) / -128)
			for l := range sum {
				v := float32(scales[l] * float32(sum[l]))
				v += float32(scaleAt(tile, f.least+2*l) * acts)
				total[r][l] += float32(v * scale)
			}
			continue
		}
		sum := filled(int32(row.at(blockBiases)) >> f.shift)
		row.dot(&sum, codes[:], 0, 8)
		for l := range sum {
			total[r][l] += float32(sum[l]) * scales[l] * scale
		}
	}
}

// blockScales reads the scales of a tile's block: exponents where it has no
// factors.
func blockScales(f *format, scales *[tileLanes]float32, tile []byte) {
	for l := range scales {
		if f.factor > 0 {
			scales[l] = scaleAt(tile, f.factor+2*l)
		} else {
			scales[l] = halfE8M0(tile[f.scales+l])
		}
	}
}

// floatProduct multiplies all columns of a tile of floats. It adds up in doubles, which plain Go does as fast as in floats.
func floatProduct(t gguf.Type, f *format, total *[panelRows][tileLanes]float32, tile, panel []byte, m int) {
	var w [tileLanes]float32
	var wide [tileLanes]float64
	var sums [panelRows][tileLanes]float64
	for c := range len(tile) / f.tileBytes {
		Decode(t, w[:], tile[c*f.tileBytes:][:f.tileBytes])
		for l, v := range w {
			wide[l] = float64(v)
		}
		for r := range m {
			x := float64(panelRow{panelView{codes: panel[c*m*floatPanelBytes:]}, m, r}.float(0))
			for l, v := range wide {
				sums[r][l] += v * x
			}
		}
	}
	for r := range m {
		for l, v := range sums[r] {
			total[r][l] = float32(v)
		}
	}
}

func filled(v int32) (all [tileLanes]int32) {
	for l := range all {
		all[l] = v
	}
	return all
}
