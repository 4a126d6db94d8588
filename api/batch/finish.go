package batch

import (
	"errors"
	"io"
	"time"
)

// finalize decides on the batch's files, before one is written: a process that goes on after a crash writes the
// same ones.
func (r *run) finalize(outcome Status) error {
	r.set(func(b *Batch) {
		b.Status, b.Finalizing, b.Outcome = StatusFinalizing, time.Now(), outcome
		if b.Completed > 0 {
			b.Output = newID("file-")
		}
		if b.Completed < b.Total {
			b.Faults = newID("file-")
		}
	})
	return r.save()
}

// finish writes the files of a batch that is finalizing, and ends it.
func (r *run) finish() error {
	b := r.now()
	var files []File
	for _, f := range []struct {
		id, name string
		write    func(io.Writer) error
	}{{b.Output, b.ID + "_output.jsonl", r.writeOutput}, {b.Faults, b.ID + "_error.jsonl", r.writeFaults}} {
		if f.id == "" {
			continue
		}
		made, err := r.publish(f.id, f.write)
		if err != nil {
			return err
		}
		life := r.w.config.Limits.FileTTL
		if b.OutputSeconds > 0 {
			life = time.Duration(b.OutputSeconds) * time.Second
		}
		now := time.Now()
		files = append(files, File{ID: f.id, Tenant: b.Tenant, Place: b.Place, Purpose: PurposeOutput, Name: f.name, Bytes: made.bytes,
			DataKey: made.key, Created: now, Expires: now.Add(life)})
	}
	unrun := uint64(b.Total - b.Completed - b.Failed)
	if err := r.over(b.Outcome, files); err != nil {
		if errors.Is(err, ErrLost) {
			err = errors.Join(err, r.w.folder.removeAll(files))
		}
		return err
	}
	switch b.Outcome {
	case StatusExpired:
		r.w.counts.expired.Add(unrun)
	case StatusCancelled:
		r.w.counts.cancelled.Add(unrun)
	default:
	}
	return removeIfThere(r.w.folder.journal(b.ID))
}

// over ends the batch in the store.
func (r *run) over(status Status, files []File) error {
	r.set(func(b *Batch) { b.Status, b.Ended = status, time.Now() })
	ctx, cancel := storeContext()
	defer cancel()
	b := r.now()
	return r.w.store.FinishBatch(ctx, &b, files)
}

func (r *run) publish(id string, write func(io.Writer) error) (*draft, error) {
	d, err := r.w.folder.create()
	if err != nil {
		return nil, err
	}
	defer d.discard()
	if err := d.encrypt(r.batch.Tenant, id, ""); err != nil {
		return nil, err
	}
	if err := write(d); err != nil {
		return nil, err
	}
	return d, d.publish(id)
}

func (r *run) writeOutput(out io.Writer) error {
	return r.journal.each(func(rec record) error {
		if !rec.succeeded {
			return nil
		}
		_, err := out.Write(rec.text)
		return err
	})
}

// writeFaults writes the lines that failed, and those that were not run.
func (r *run) writeFaults(out io.Writer) error {
	err := r.journal.each(func(rec record) error {
		if rec.succeeded {
			return nil
		}
		_, err := out.Write(rec.text)
		return err
	})
	if err != nil || r.batch.Outcome == StatusCompleted {
		return err
	}
	code, message := codeExpired, "the batch's time was over before this line was run"
	if r.batch.Outcome == StatusCancelled {
		code, message = codeCancelled, "the batch was cancelled before this line was run"
	}
	return r.eachUnrun(func(customID string) error {
		_, err := out.Write(notRun(customID, code, message))
		return err
	})
}

// eachUnrun calls f for the lines that have no record.
func (r *run) eachUnrun(f func(customID string) error) error {
	file, err := r.w.folder.open(r.batch.Tenant, r.batch.Input)
	if err != nil {
		return err
	}
	defer file.Close()
	in := newLineReader(file, r.w.config.Limits.LineBytes)
	for index := 0; ; index++ {
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.journal.isDone(index) {
			continue
		}
		l, wrong := parseLine(text, r.batch.Endpoint)
		if wrong != nil && wrong.Code == lineInvalidJSON {
			l.customID = nameOf(text)
		} else if wrong != nil {
			return wrong
		}
		if err := f(l.customID); err != nil {
			return err
		}
	}
}
