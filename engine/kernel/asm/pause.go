package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
)

// pauses writes the hint that a loop is waiting: the core's other thread and
// its power budget gain, and leaving the loop costs no mispredicted loads.
func pauses(ctx *build.Context) {
	ctx.Function("pause")
	ctx.Attributes(attr.NOSPLIT)
	ctx.SignatureExpr("func()")
	ctx.Doc("pause tells the core that this is a loop that waits.")
	ctx.PAUSE()
	ctx.RET()
}
