package batch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"weir/internal/semaphore"
)

// maxLineErrors is how many errors of a file are listed; the rest is not looked for.
const maxLineErrors = 100

// restShare is how many times as long as it has worked validation rests while others run.
const restShare = 3

// validation is what a whole input file says.
type validation struct {
	lines  int
	model  string
	errors []LineError // for which the batch is not run
	broken []LineError // of lines that are no JSON, the first of them: they fail alone beside lines that are
}

// validate reads all lines of a batch's file. The error is that the file could not be read, or that ctx has ended.
func (w *worker) validate(ctx context.Context, b *Batch) (v validation, err error) {
	file, err := w.folder.open(b.Tenant, b.Input)
	if err != nil {
		return v, err
	}
	defer file.Close()
	permit, err := w.permits.Acquire(ctx.Done(), b.Tenant)
	if err != nil {
		return v, ended(ctx, err)
	}
	defer permit.Release()
	in := newLineReader(file, w.config.Limits.LineBytes)
	seen := make(map[[16]byte]int) // line numbers by a digest of the custom_id
	for ; len(v.errors) < maxLineErrors; v.lines++ {
		if err := permit.Yield(); err != nil {
			return v, ended(ctx, err)
		}
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if tooLong := (*LineError)(nil); errors.As(err, &tooLong) {
			v.errors = append(v.errors, *tooLong) // where the next line begins is not known
			return v, nil
		}
		if err != nil {
			return v, err
		}
		if v.lines == maxLines {
			v.errors = append(v.errors, LineError{Code: linesTooMany, Line: in.number, Message: fmt.Sprintf("the file has more than %d requests; split it", maxLines)})
			return v, nil
		}
		switch wrong := v.check(text, b.Endpoint, in.number, seen); {
		case wrong == nil:
		case wrong.Code == lineInvalidJSON:
			if wrong.Line = in.number; len(v.broken) < maxLineErrors {
				v.broken = append(v.broken, *wrong)
			}
		default:
			wrong.Line = in.number
			v.errors = append(v.errors, *wrong)
		}
	}
	if len(v.errors) > 0 || len(seen) == 0 { // the batch is not run, and all that is wrong is told at once
		v.errors = append(v.errors, v.broken...)
		slices.SortFunc(v.errors, func(a, b LineError) int { return cmp.Compare(a.Line, b.Line) })
		v.errors = v.errors[:min(len(v.errors), maxLineErrors)]
	}
	if v.lines == 0 && len(v.errors) == 0 {
		v.errors = []LineError{{Code: linesNone, Message: "the file has no requests"}}
	}
	if model, predicts := predictedModel(b.Endpoint); predicts {
		v.model = model
	}
	return v, nil
}

// ended is why validation has no permit any more.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, semaphore.ErrClosed) { // ctx hears of it a moment later
		return errStopping
	}
	return err
}

func (v *validation) check(text []byte, endpoint string, number int, seen map[[16]byte]int) *LineError {
	l, wrong := parseLine(text, endpoint)
	if wrong != nil {
		return wrong
	}
	sum := sha256.Sum256([]byte(l.customID))
	key := [16]byte(sum[:16])
	if first, twice := seen[key]; twice {
		return &LineError{Code: lineTwice, Param: "custom_id", Message: fmt.Sprintf("the custom_id %.80q is that of line %d already", l.customID, first)}
	}
	if seen[key] = number; len(seen) == 1 {
		v.model = l.model
	}
	if l.model != v.model && endpoint != pathMessages {
		return &LineError{Code: lineOtherModel, Param: "body.model", Message: fmt.Sprintf("the model is %.80q, and %.80q before; a batch is for one model", l.model, v.model)}
	}
	return nil
}
