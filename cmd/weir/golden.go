package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir/engine/classic"
	"weir/internal/console"
	"weir/internal/table"
	"weir/internal/tensor"
)

// recording is what weir golden was asked for.
type recording struct {
	rows      string // a file; "" makes rows up
	count     int
	seed      uint64
	tolerance float64
	errs      io.Writer
}

func newGolden() *cobra.Command {
	var r recording
	cmd := &cobra.Command{
		Use:   "golden MODEL",
		Short: "Write the golden rows of a classical model: rows and the outputs that must come out",
		Long: "Score rows with a classical model and print them with their outputs. In a file MODEL.golden.json\n" +
			"beside the model they guard it: weir serve publishes a version only if the rows give the same\n" +
			"outputs. The rows are those of a .csv or .parquet table, such as training data or a prediction log,\n" +
			"whose columns are found as weir score finds them, by the names of the model's features; or those of a\n" +
			".json file, a V2 request or other golden rows; or they are made up of the thresholds of the trees.",
		Example: "  weir golden churn.json --rows train.csv > churn.golden.json\n" +
			"  weir golden churn.json > churn.golden.json",
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.errs = cmd.ErrOrStderr()
			return r.run(args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.rows, "rows", "", "a .csv, .parquet or .json file with rows, or a folder of a prediction log (default: rows are made up)")
	f.IntVar(&r.count, "count", 100, "how many rows of a table to take, at equal distances, or to make up")
	f.Uint64Var(&r.seed, "seed", 1, "of the rows that are made up")
	f.Float64Var(&r.tolerance, "tolerance", classic.DefaultTolerance, "how far an output may be from the recorded one, as a share of it, or absolutely below 1")
	return cmd
}

func (r *recording) run(path string, out io.Writer) error {
	if r.count < 1 || r.count > maxGoldenRows {
		return &console.UsageError{Err: fmt.Errorf("--count is %d", r.count), Hint: fmt.Sprintf("it must be from 1 to %d", maxGoldenRows)}
	}
	if !isClassic(path) {
		return &console.UsageError{Err: fmt.Errorf("%s is a language model or no file", path), Hint: "weir golden is for classical models: XGBoost, LightGBM, CatBoost and ONNX"}
	}
	v, _, err := loadClassic(path)
	if err != nil {
		return fmt.Errorf("read %w", err)
	}
	rows, err := r.read(v)
	if err != nil {
		return err
	}
	file, err := v.Record(rows, r.tolerance)
	if err != nil {
		return err
	}
	_, err = out.Write(file)
	return err
}

// maxGoldenRows bounds what every load of the model scores again.
const maxGoldenRows = 10_000

// read returns the rows as the model takes them.
func (r *recording) read(v *classic.Version) ([]tensor.Tensor, error) {
	switch {
	case r.rows == "":
		return v.Sample(r.count, r.seed)
	case strings.HasSuffix(r.rows, ".json"):
		data, err := os.ReadFile(r.rows)
		if err != nil {
			return nil, err
		}
		rows, err := classic.ReadRows(data)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.rows, err)
		}
		return rows, nil
	}
	return r.readTable(v)
}

// readTable takes so many rows of a table at equal distances, with the columns and values that weir score would.
func (r *recording) readTable(v *classic.Version) (in []tensor.Tensor, err error) {
	total := 0
	count := func(c *table.Chunk) error { total += c.Rows; return nil }
	if err := r.eachChunk(func(s *table.Source) error { s.Select(make([]bool, len(s.Columns()))); return nil }, count); err != nil {
		return nil, err
	}
	if total == 0 {
		return nil, fmt.Errorf("%s has no rows", r.rows)
	}
	p := &pickedRows{of: total, count: min(r.count, total)}
	match := func(s *table.Source) error {
		p.columns = s.Columns()
		inputs, ordered, err := inputsOf(v, p.columns, nil)
		if err != nil {
			return err
		}
		if ordered {
			fmt.Fprintln(r.errs, orderedNote(p.columns))
		}
		p.inputs = inputs
		s.Select(inputs.selected())
		return nil
	}
	if err := r.eachChunk(match, p.pick); err != nil {
		return nil, err
	}
	return p.tensors()
}

// eachChunk reads the table, after begin has seen its columns.
func (r *recording) eachChunk(begin func(*table.Source) error, each func(*table.Chunk) error) (err error) {
	source, err := table.Open([]string{r.rows}, table.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := begin(source); err != nil {
		return err
	}
	for {
		chunk, err := source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(chunk)
		}
		if err != nil {
			return err
		}
	}
}

// pickedRows are rows of a table at equal distances.
type pickedRows struct {
	columns []table.Column
	inputs  scoreInputs
	of      int // rows of the table
	count   int // of the rows that are picked
	row     int // of the table, that comes next

	rows   table.Chunk
	places []string
}

// pick takes the rows of a chunk that are among them.
func (p *pickedRows) pick(c *table.Chunk) error {
	if p.rows.Columns == nil {
		p.rows.Columns = make([][]table.Value, len(c.Columns))
	}
	for row := range c.Rows {
		wanted := p.rows.Rows < p.count && p.row == p.rows.Rows*p.of/p.count
		p.row++
		if !wanted {
			continue
		}
		for _, b := range c.Broken {
			if b.Row == row {
				return fmt.Errorf("%s: %w", c.Place(row), b.Err)
			}
		}
		for i, values := range c.Columns {
			if values != nil {
				p.rows.Columns[i] = append(p.rows.Columns[i], values[row].Clone())
			}
		}
		p.rows.Rows++
		p.places = append(p.places, c.Place(row))
	}
	return nil
}

// tensors are the rows as the model takes them.
func (p *pickedRows) tensors() ([]tensor.Tensor, error) {
	all := make([]int, p.rows.Rows)
	for i := range all {
		all[i] = i
	}
	in, _, wrong := p.inputs.make(&p.rows, all)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s, column %q: %w", p.places[wrong[0].Row], wrong[0].Column, wrong[0].Err)
	}
	return in, nil
}

func named(columns []string) string {
	if columns == nil {
		return ""
	}
	return " (" + console.Printable(console.ShortList(columns)) + ")"
}
