package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/gguf"
)

// productFunc is a generated product; see asm/product.go.
type productFunc func(dst *float32, stride int, tile *byte, panel *byte, blocks int, bias *float32, add int)

// productFuncs are the products of one type and level by the panel's rows: of
// one tile, and of two that are neighbours in memory, nil where there is none.
type productFuncs struct {
	one, two [panelRows + 1]productFunc
}

// tiles is how many tiles a call takes at a time with m rows. Two are faster
// from cache, one from memory: the only panel of a step reads weights once, in
// one stream.
func (f *productFuncs) tiles(m int, more bool) int {
	if f == nil || f.two[m] == nil || !more {
		return 1
	}
	return 2
}

// call multiplies tiles, one or two, with a panel of m rows.
func (f *productFuncs) call(tiles int, dst []float32, stride int, tile, panel []byte, m, blocks int, bias []float32, add bool) {
	var b *float32
	if bias != nil {
		b = &bias[:tiles*tileLanes][0]
	}
	flag := 0
	if add {
		flag = 1
	}
	_ = dst[(m-1)*stride+tiles*tileLanes-1]
	run := f.one[m]
	if tiles == 2 {
		run = f.two[m]
	}
	run(&dst[0], 4*stride, &tile[0], &panel[0], blocks, b, flag)
}

// tileProduct multiplies tiles, one or two, of tileLanes weight rows by the m rows
// of a panel: dst[r*stride+lane] (stride in floats) takes the sums, plus bias[lane]
// if bias is not nil, plus what dst held if add. fast is nil at the portable
// level.
func tileProduct(fast *productFuncs, tiles int, t gguf.Type, f *format, dst []float32, stride int, tile, panel []byte, m, blocks int, bias []float32, add bool) {
	if fast != nil {
		fast.call(tiles, dst, stride, tile, panel, m, blocks, bias, add)
		return
	}
	var total [panelRows][tileLanes]float32
	switch f.kind {
	case kindSuper:
		for b := range blocks {
			superProduct(t, f, &total, tile[b*f.tileBytes:], panel[b*m*superPanelBytes:], m)
		}
	case kindBlock:
		for b := range blocks {
			blockProduct(t, f, &total, tile[b*f.tileBytes:], panel[b*m*blockPanelBytes:], m)
		}
	default:
		floatProduct(t, &total, tile, panel, m, blocks)
	}
	for r := range m {
		out := dst[r*stride:][:tileLanes]
		for l := range out {
			v := total[r][l]
			if bias != nil {
				v += bias[l]
			}
			if add {
				v += out[l]
			}
			out[l] = v
		}
	}
}

// dotQuads adds the products of n k-quads of codes, [n][lane][4] unsigned, and a
// row's activations to sum.
func dotQuads(sum *[tileLanes]int32, codes, acts []byte, m, n int) {
	for q := range n {
		a := acts[4*q*m:][:4]
		a0, a1, a2, a3 := int32(int8(a[0])), int32(int8(a[1])), int32(int8(a[2])), int32(int8(a[3]))
		c := (*[4 * tileLanes]byte)(codes[4*tileLanes*q:])
		for l := range sum {
			sum[l] += int32(c[4*l])*a0 + int32(c[4*l+1])*a1 + int32(c[4*l+2])*a2 + int32(c[4*l+3])*a3
		}
	}
}

// superProduct adds one superblock of the formats with two levels of scales.
func superProduct(t gguf.Type, f *format, total *[panelRows][tileLanes]float32, tile, panel []byte, m int) {
	var codes [superBlockValues * tileLanes]byte
	expandBlock(t, codes[:], tile)
	minima := false
	for r := range m {
		var isum, msum [tileLanes]int32
		switch t {
		case gguf.TypeQ6K:
			sums16(&isum, codes[:], tile[3072:], panel, m, r, 0)
		case gguf.TypeQ3K:
			sums16(&isum, codes[:], tile[1536:], panel, m, r, 3)
		case gguf.TypeIQ4XS:
			sumsIQ4XS(&isum, codes[:], tile[2048:], panel, m, r)
		case gguf.TypeQ2K:
			minima = true
			sumsQ2K(&isum, &msum, codes[:], tile[1024:], panel, m, r)
		default: // Q4_K and Q5_K
			minima = true
			sums32(&isum, &msum, codes[:], tile[f.tileBytes-320:], panel, m, r)
		}
		factors := tile[f.tileBytes-2*tileLanes:]
		if minima {
			factors = tile[f.tileBytes-4*tileLanes:]
		}
		scale := panelFloat(panel, 84*m+r)
		for l := range isum {
			v := scaleAt(factors, 2*l) * float32(isum[l])
			if minima {
				v -= scaleAt(factors, 32+2*l) * float32(msum[l])
			}
			total[r][l] += v * scale
		}
	}
}

// blockProduct adds one block of the formats with one scale for 32 values.
func blockProduct(t gguf.Type, f *format, total *[panelRows][tileLanes]float32, tile, panel []byte, m int) {
	var codes [blockValues * tileLanes]byte
	expandBlock(t, codes[:], tile)
	if t == gguf.TypeQ4_1 || t == gguf.TypeQ5_1 {
		minimumProduct(total, codes[:], tile[f.tileBytes-4*tileLanes:], panel, m)
		return
	}
	var scales [tileLanes]float32
	blockScales(t, &scales, tile[:f.tileBytes])
	for r := range m {
		sum := filled(panelInt(panel, 8*m+r) >> offsetShift(t))
		dotQuads(&sum, codes[:], panel[4*r:], m, 8)
		scale := panelFloat(panel, 9*m+r)
		for l := range sum {
			total[r][l] += float32(sum[l]) * scales[l] * scale
		}
	}
}

// blockScales reads the scales at the end of a tile's block.
func blockScales(t gguf.Type, scales *[tileLanes]float32, tile []byte) {
	for l := range scales {
		if t == gguf.TypeMXFP4 {
			scales[l] = halfE8M0(tile[len(tile)-tileLanes+l])
		} else {
			scales[l] = scaleAt(tile, len(tile)-2*tileLanes+2*l)
		}
	}
}

// offsetShift is by how much 128, the offset that panels are biased for,
// exceeds that of the type's codes.
func offsetShift(t gguf.Type) int {
	switch t {
	case gguf.TypeQ4_0:
		return 4
	case gguf.TypeQ5_0, gguf.TypeMXFP4:
		return 3
	default:
		return 0
	}
}

func floatProduct(t gguf.Type, total *[panelRows][tileLanes]float32, tile, panel []byte, m, cols int) {
	width := 4
	if t != gguf.TypeF32 {
		width = 2
	}
	var w [tileLanes]float32
	for c := range cols {
		Decode(t, w[:], tile[c*width*tileLanes:][:width*tileLanes])
		for r := range m {
			x := panelFloat(panel, c*m+r)
			for l := range w {
				total[r][l] += w[l] * x
			}
		}
	}
}

func filled(v int32) (all [tileLanes]int32) {
	for l := range all {
		all[l] = v
	}
	return all
}

func panelInt(panel []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(panel[4*i:])) }

func panelFloat(panel []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(panel[4*i:]))
}
