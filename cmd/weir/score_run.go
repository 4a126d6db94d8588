package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"weir/engine/classic"
	"weir/internal/table"
)

// What happens to rows that the model does not take.
const (
	onErrorFail = "fail" // the command
	onErrorSkip = "skip" // they are left out
	onErrorNull = "null" // their predictions are missing
)

// scorer reads rows, computes them on several goroutines, and writes them in their order.
type scorer struct {
	source    *table.Source
	inputs    scoreInputs
	predicted []predictedColumns
	kept      []int        // columns of the source
	numbers   map[int]bool // columns of CSV texts that the model reads as numbers, to be written as such; nil: all stay texts
	version   []table.Value
	onError   string
	threads   int
	progress  func(done, total int64)

	rows, failed int64
	first        error // of the rows that failed
}

// scoredPiece is a chunk on its way.
type scoredPiece struct {
	chunk *table.Chunk
	done  chan struct{} // closed when the rest is set
	ready table.Piece
	rows  int
	wrong []table.RowError // in the order of rows
	err   error
}

// columns are those of the output.
func (s *scorer) columns(versionColumn string) (list []table.Column) {
	for _, at := range s.kept {
		c := s.source.Columns()[at]
		if s.numbers[at] {
			c = table.NumberColumn(c.Name)
		}
		list = append(list, c)
	}
	for i := range s.predicted {
		list = append(list, s.predicted[i].columns...)
	}
	if versionColumn != "" {
		list = append(list, table.TextColumn(versionColumn))
	}
	return list
}

// run scores all rows.
func (s *scorer) run(ctx context.Context, to table.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work, order := make(chan *scoredPiece, s.threads), make(chan *scoredPiece, 2*s.threads)
	var running sync.WaitGroup
	read := make(chan error, 1)
	go func() {
		defer close(work)
		defer close(order)
		read <- s.read(ctx, work, order)
	}()
	for range s.threads {
		running.Go(func() {
			for p := range work {
				if ctx.Err() == nil {
					s.score(p, to)
				}
				close(p.done)
			}
		})
	}
	err := s.write(ctx, order, to)
	cancel()
	if err != nil && slices.Contains(s.source.Paths(), table.Stdin) {
		return err // the reader may wait for the standard input without end; it ends with the process
	}
	running.Wait()
	return errors.Join(err, <-read)
}

// read hands chunks out, to be computed and to be written.
func (s *scorer) read(ctx context.Context, work, order chan<- *scoredPiece) error {
	for {
		chunk, err := s.source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := &scoredPiece{chunk: chunk, done: make(chan struct{})}
		for _, to := range []chan<- *scoredPiece{order, work} {
			select {
			case to <- p:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// write writes what is computed, in the order of the rows.
func (s *scorer) write(ctx context.Context, order <-chan *scoredPiece, to table.Writer) error {
	for {
		var p *scoredPiece
		select {
		case p = <-order:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if p == nil {
			return nil
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.settle(p); err != nil {
			return err
		}
		if err := to.Write(p.ready); err != nil {
			return writeFault(err)
		}
		if s.progress != nil {
			s.progress(s.source.Progress())
		}
	}
}

// writeFault says that the output cannot be written, and what to do about it.
func writeFault(err error) error {
	why := err
	if at, is := errors.AsType[*fs.PathError](err); is {
		why = at.Err // a name that the user did not give
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("write the output: %w; make room, or name another place with --output", why)
	}
	return fmt.Errorf("write the output: %w", why)
}

// settle counts a piece, and says whether its failed rows end the command.
func (s *scorer) settle(p *scoredPiece) error {
	if p.err != nil {
		return p.err
	}
	s.rows += int64(p.rows)
	s.failed += int64(len(p.wrong))
	if len(p.wrong) > 0 && s.first == nil {
		w := p.wrong[0]
		text := p.chunk.Place(w.Row)
		if w.Column != "" {
			text += fmt.Sprintf(", column %q", w.Column)
		}
		s.first = fmt.Errorf("%s: %w", text, w.Err)
		if s.onError == onErrorFail {
			return s.first
		}
	}
	return nil
}

// score computes a piece.
func (s *scorer) score(p *scoredPiece, to table.Writer) {
	c := p.chunk
	out := make([][]table.Value, 0, len(s.kept)+len(s.predicted)+1)
	for _, at := range s.kept {
		values := c.Columns[at]
		if s.numbers[at] {
			values = s.source.Columns()[at].Numbers(values)
		}
		out = append(out, values)
	}
	first := len(out)
	for i := range s.predicted {
		for range s.predicted[i].columns {
			out = append(out, make([]table.Value, c.Rows))
		}
	}
	if s.version != nil {
		out = append(out, slices.Repeat(s.version, c.Rows))
	}
	broken := make(map[int]bool, len(c.Broken))
	for _, w := range c.Broken {
		broken[w.Row] = true
	}
	rows := make([]int, 0, c.Rows)
	for row := range c.Rows {
		if !broken[row] {
			rows = append(rows, row)
		}
	}
	p.wrong = slices.Clone(c.Broken)
	if s.onError == onErrorNull && len(c.Broken) > 0 {
		p.err = fmt.Errorf("%s: %w; --on-error %s leaves such lines out", c.Place(c.Broken[0].Row), c.Broken[0].Err, onErrorSkip)
		return
	}
	wrong, err := s.predict(c, rows, out[first:])
	if err != nil {
		p.err = err
		return
	}
	p.wrong = append(p.wrong, wrong...)
	slices.SortStableFunc(p.wrong, func(a, b table.RowError) int { return a.Row - b.Row })
	if len(p.wrong) > 0 && s.onError == onErrorFail {
		return
	}
	keep := make([]bool, c.Rows)
	for row := range keep {
		keep[row] = true
	}
	if s.onError == onErrorSkip {
		for _, w := range p.wrong {
			keep[w.Row] = false
		}
	}
	p.rows = c.Rows
	p.ready, p.err = to.Prepare(out, keep)
}

// predict computes some rows of a chunk, and writes what comes out of them. The error is one of the model's, not of a row.
func (s *scorer) predict(c *table.Chunk, rows []int, into [][]table.Value) (wrong []table.RowError, err error) {
	in, taken, wrong := s.inputs.make(c, rows)
	most := len(taken)
	if n := s.inputs.v.RowsAtOnce(); n > 0 {
		most = n
	}
	if len(taken) > most {
		for part := range slices.Chunk(taken, most) {
			more, err := s.predict(c, part, into)
			if err != nil {
				return nil, err
			}
			wrong = append(wrong, more...)
		}
		return wrong, nil
	}
	if len(taken) == 0 {
		return wrong, nil
	}
	out, err := s.inputs.v.Score(in)
	if err != nil {
		more, err := s.without(c, taken, into, err)
		return append(wrong, more...), err
	}
	for i := range s.predicted {
		p := &s.predicted[i]
		if err := p.spread(out, taken, into[:len(p.columns)]); err != nil {
			return nil, err
		}
		into = into[len(p.columns):]
	}
	return wrong, nil
}

// without computes rows among which the model refuses at least one, each half by itself.
func (s *scorer) without(c *table.Chunk, rows []int, into [][]table.Value, why error) (wrong []table.RowError, err error) {
	if fault, is := errors.AsType[*classic.Fault](why); is {
		return nil, fault
	}
	if len(rows) == 1 {
		if one, is := errors.AsType[*classic.RowError](why); is {
			why = one.Err
		}
		return []table.RowError{{Row: rows[0], Err: why}}, nil
	}
	for _, half := range [][]int{rows[:len(rows)/2], rows[len(rows)/2:]} {
		more, err := s.predict(c, half, into)
		if err != nil {
			return nil, err
		}
		if wrong = append(wrong, more...); len(wrong) > 0 && s.onError == onErrorFail {
			return wrong, nil // the rest is not written
		}
	}
	return wrong, nil
}

// summary says what was done.
func (s *scorer) summary(began time.Time) string {
	took := time.Since(began)
	text := fmt.Sprintf("scored %d rows in %v (%.0f rows per second)", s.rows-s.failed, took.Round(10*time.Millisecond), float64(s.rows)/max(took.Seconds(), 1e-9))
	if s.failed > 0 {
		what := "have no prediction"
		if s.onError == onErrorSkip {
			what = "are left out"
		}
		text += fmt.Sprintf("; %d rows %s, the first: %v", s.failed, what, s.first)
	}
	return text
}
