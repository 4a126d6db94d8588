// Command asm writes the amd64 kernels of weir. Each family is one file of Go
// assembly and one of stubs; `make generate` runs it and CI compares. It is a
// module of its own, so that weir does not depend on the generator.
//
//	cd engine/kernel/asm && go run . -only multiply
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// family is one generated pair of files, NAME_amd64.s and NAME_amd64.go, in
// package pkg at dir below the repository's root.
type family struct {
	dir, pkg, name string
	build          func(*build.Context)
	encode         func(*ir.File) // what Go's assembler does not know; nil: nothing
}

var families = []family{
	{"engine/kernel/weight", "weight", "super_product", superProducts, nil},
	{"engine/kernel/weight", "weight", "super_product_avx2", superProductsAVX2, nil},
	{"engine/kernel/weight", "weight", "block_product", blockProducts, nil},
	{"engine/kernel/weight", "weight", "block_product_avx2", blockProductsAVX2, nil},
	{"engine/kernel/weight", "weight", "float_product", floatProducts, nil},
	{"engine/kernel/weight", "weight", "float_product_avx2", floatProductsAVX2, nil},
	{"engine/kernel/weight", "weight", "pair_product", pairProducts, encodePairProducts},
	{"engine/kernel/weight", "weight", "quantize", quantizers, nil},
	{"engine/kernel/weight", "weight", "quantize_avx2", quantizersAVX2, nil},
	{"engine/kernel/vector", "vector", "vector", vectors, nil},
	{"engine/kernel/vector", "vector", "reduce", reductions, nil},
	{"engine/kernel/vector", "vector", "multiply", multiplications, nil},
	{"engine/kernel/attend", "attend", "attention", attentions, nil},
	{"engine/kernel/recurrence", "recurrence", "recurrence", recurrences, nil},
	{"engine/kernel/pool", "pool", "pause", pauses, nil},
	{"engine/gbdt", "gbdt", "trees", trees, nil},
	{"engine/gbdt", "gbdt", "trees_avx2", treesAVX2, nil},
	{"internal/roofline", "roofline", "limit", rooflines, nil},
}

func main() {
	root := flag.String("root", "../../..", "the repository's root")
	only := flag.String("only", "", "write this family alone")
	flag.Parse()
	if *only == "" {
		if err := writeTables(*root); err != nil {
			fmt.Fprintln(os.Stderr, "asm: tables:", err)
			os.Exit(1)
		}
	}
	for _, f := range families {
		if *only != "" && *only != f.name {
			continue
		}
		if err := f.write(*root); err != nil {
			fmt.Fprintln(os.Stderr, "asm:", f.name+":", err)
			os.Exit(1)
		}
	}
}

func (f family) write(root string) error {
	ctx := build.NewContext()
	ctx.ConstraintExpr("!purego")
	ctx.ConstraintExpr("!noasm")
	f.build(ctx)
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	if f.encode != nil {
		f.encode(file)
	}
	cfg := printer.Config{Argv: []string{"make", "generate"}, Pkg: f.pkg}
	out := filepath.Join(root, f.dir, f.name+"_amd64")
	if err := print(out+".s", printer.NewGoAsm(cfg), file); err != nil {
		return err
	}
	return print(out+".go", printer.NewStubs(cfg), file)
}

func print(path string, p printer.Printer, file *ir.File) error {
	text, err := p.Print(file)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
