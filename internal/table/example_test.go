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

// Rows are read column by column, get a score, and are written with it.
func Example() {
	in := strings.NewReader("name,income\nann,1000\nbob,\n")
	s, err := table.Open([]string{table.Stdin}, table.Options{Stdin: in})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	score, err := table.TensorColumn("score", tensor.Float64)
	if err != nil {
		fmt.Println(err)
		return
	}
	columns := s.Columns()
	w, err := table.NewWriter(os.Stdout, append(columns, score), "csv", "", ',')
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		chunk, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		scores := make([]float64, chunk.Rows)
		for row, income := range chunk.Columns[1] {
			n, _ := columns[1].Float(income) // NaN where it is missing
			scores[row] = n / 100
		}
		t := tensor.Of("score", tensor.Float64, []int64{int64(chunk.Rows)}, scores)
		keep := []bool{true, true} // both rows
		piece, err := w.Prepare(append(chunk.Columns, table.TensorValues(&t)), keep)
		if err == nil {
			err = w.Write(piece)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(w.Close())
	// Output:
	// name,income,score
	// ann,1000,10
	// bob,,NaN
	// <nil>
}
