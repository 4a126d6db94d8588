package main

import "github.com/mmcloughlin/avo/operand"

// unpack asks for the tile that is unpacked next while it works on one.
func (a *attention) unpack() {
	a.function("unpack", "(dst, src, next *byte, lines int, offset uint32)",
		"%s writes the nibbles of each 64 bytes of src as 128 bytes, the low ones first, plus the four bytes of offset; next is prefetched.")
	dst, src, next, left := a.param("dst"), a.param("src"), a.param("next"), a.param("lines")
	offset, word, bits := a.vec(), a.XMM(), a.GP32()
	a.Load(a.Param("offset"), bits)
	a.VMOVD(bits, word)
	a.VPBROADCASTD(word, offset)
	low := a.words(0x0f0f0f0f)
	size := 4 * a.floats()
	a.times("lines", left, 1, func() {
		a.PREFETCHT0(at(next, 0))
		for i := 0; i < 64; i += size {
			x, high := a.vec(), a.vec()
			a.VMOVUPS(at(src, i), x)
			a.VPSRLW(operand.U8(4), x, high)
			if a.wide {
				a.VPANDD(low, x, x)
				a.VPANDD(low, high, high)
			} else {
				a.VPAND(low, x, x)
				a.VPAND(low, high, high)
			}
			a.VPADDB(offset, x, x)
			a.VPADDB(offset, high, high)
			a.VMOVUPS(x, at(dst, i))
			a.VMOVUPS(high, at(dst, 64+i))
		}
		a.ADDQ(operand.U8(64), src)
		a.ADDQ(operand.U8(64), next)
		a.ADDQ(operand.I32(128), dst)
	})
	a.end()
}
