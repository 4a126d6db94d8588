package kernel

import (
	"encoding/binary"
	"math"

	"weir/engine/gguf"
)

// productFunc is a generated product; see asm/block_product.go.
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
	scales, factors := tile[f.tileBytes-320:], tile[f.tileBytes-64:]
	if t == gguf.TypeQ6K {
		scales, factors = tile[3072:], tile[3328:]
	}
	for r := range m {
		var isum, msum [tileLanes]int32
		if t == gguf.TypeQ6K {
			for j := range 16 {
				sum := filled(panelInt(panel[256*m:], j*m+r))
				dotQuads(&sum, codes[256*j:], panel[16*j*m+4*r:], m, 4)
				for l := range isum {
					isum[l] += int32(int8(scales[16*j+l])) * sum[l]
				}
			}
		} else {
			for j := range 8 {
				var sum [tileLanes]int32
				dotQuads(&sum, codes[512*j:], panel[32*j*m+4*r:], m, 8)
				act := int32(int16(binary.LittleEndian.Uint16(panel[320*m+4*(j/2*m+r)+j%2*2:])))
				for l := range isum {
					isum[l] += int32(scales[16*j+l]) * sum[l]
					msum[l] += int32(scales[128+32*(j/2)+2*l+j%2]) * act
				}
			}
		}
		scale := panelFloat(panel, 84*m+r)
		for l := range isum {
			v := scaleAt(factors, 2*l) * float32(isum[l])
			if t != gguf.TypeQ6K {
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
	factors := tile[f.tileBytes-2*tileLanes:]
	for r := range m {
		sum := filled(panelInt(panel, 8*m+r) >> offsetShift(t))
		dotQuads(&sum, codes[:], panel[4*r:], m, 8)
		scale := panelFloat(panel, 9*m+r)
		for l := range sum {
			total[r][l] += float32(sum[l]) * scaleAt(factors, 2*l) * scale
		}
	}
}

// offsetShift is by how much 128, the offset that panels are biased for,
// exceeds that of the type's codes.
func offsetShift(t gguf.Type) int {
	switch t {
	case gguf.TypeQ4_0:
		return 4
	case gguf.TypeQ5_0:
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
