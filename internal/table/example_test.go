package table_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/internal/table"
	"weir/internal/tensor"
)

// Rows come in pieces, column by column. A missing number is NaN.
func Example() {
	in := strings.NewReader("name,income\nann,1000\nbob,\n")
	s, err := table.Open([]string{table.Stdin}, table.Options{Stdin: in})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	for {
		chunk, err := s.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		names, incomes := chunk.Columns[0], chunk.Columns[1]
		for row := range chunk.Rows {
			income, _ := s.Columns()[1].Float(incomes[row])
			fmt.Println(names[row], "earns", income)
		}
	}
	// Output:
	// ann earns 1000
	// bob earns NaN
}

// A column of scores is written beside one of names, from the rows that are kept.
func ExampleNewWriter() {
	scores := tensor.Of("score", tensor.Float32, []int64{3}, []float32{0.25, 0.5, 0.75})
	score, err := table.TensorColumn("score", scores.Type)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := table.NewWriter(os.Stdout, []table.Column{table.TextColumn("name"), score}, "csv", "", ',')
	if err != nil {
		fmt.Println(err)
		return
	}
	names := []table.Value{table.TextValue("ann"), table.TextValue("bob"), table.TextValue("cem")}
	piece, err := w.Prepare([][]table.Value{names, table.TensorValues(&scores)}, []bool{true, false, true})
	if err == nil {
		err = w.Write(piece)
	}
	fmt.Println(err, w.Close())
	// Output:
	// name,score
	// ann,0.25
	// cem,0.75
	// <nil> <nil>
}
