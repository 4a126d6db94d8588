package openai

import (
	"bytes"
	"context"
	"errors"
	"io"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
	"weir/internal/inference"
	"weir/router"
)

// rewordedStream is the stream of a chat, written anew in the form that the client asked for.
// It adds nothing to the chat's own waiting: each read gives what one read of the chat has brought.
type rewordedStream struct {
	chat    *relayStream
	reader  chatReader
	encoder answer.Encoder
	usage   answer.Usage // that the first event tells: the prompt's, where it is known

	line []byte // of the chat, not complete yet
	buf  []byte // written, not read yet: buf[read:]
	read int
	over bool

	failed *api.Error
}

// newRewordedStream begins to write a chat's stream anew. prompt is its tokens; 0: not known.
func newRewordedStream(p *passage, j *job.Job, prompt int) *rewordedStream {
	return &rewordedStream{chat: &relayStream{p: p, silent: true}, encoder: j.Encoder(), usage: answer.Usage{Prompt: prompt}}
}

// Read implements io.Reader.
func (r *rewordedStream) Read(p []byte) (int, error) {
	for r.read == len(r.buf) {
		if r.over {
			return 0, io.EOF
		}
		r.buf, r.read = r.buf[:0], 0
		n, err := r.chat.Read(p)
		if fault := r.lines(p[:n]); fault != nil {
			r.broken(fault)
			continue
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && r.chat.failed != nil:
			r.broken(r.chat.failed)
		case errors.Is(err, io.EOF):
			r.end()
		default:
			return 0, err
		}
	}
	n := copy(p, r.buf[r.read:])
	r.read += n
	return n, nil
}

// lines writes what the lines of a piece of the chat say.
func (r *rewordedStream) lines(piece []byte) *api.Error {
	for len(piece) > 0 && !r.over {
		line, rest, complete := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		if r.line = append(r.line, line...); !complete {
			if len(r.line) > maxLineBytes {
				return r.unread(errors.New("a line of a chat's stream is too long"))
			}
			return nil
		}
		line, r.line = r.line, r.line[:0]
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case len(line) > 0 && line[0] == ':':
			r.buf = r.encoder.AppendPulse(r.buf)
		case !ok || len(data) == 0:
		case bytes.Equal(data, []byte("[DONE]")):
			r.end()
		default:
			d, err := r.reader.read(data)
			if err != nil {
				return r.unread(err)
			}
			d.Usage = r.usage
			if !d.IsEmpty() || d.Finish != inference.FinishNone {
				r.buf = r.encoder.AppendDelta(r.buf, d)
			}
		}
	}
	return nil
}

// unread ends the request at a server that writes what is no chat.
func (r *rewordedStream) unread(err error) *api.Error {
	r.chat.over = true
	fault := r.chat.p.broken(err)
	r.chat.p.cancel(err)
	return fault
}

func (r *rewordedStream) broken(fault *api.Error) {
	r.over, r.failed = true, fault
	r.buf = r.encoder.AppendFault(r.buf, fault)
}

// end writes the end of the answer, once.
func (r *rewordedStream) end() {
	if r.over {
		return
	}
	r.over = true
	if !r.reader.over {
		r.buf = r.encoder.AppendDelta(r.buf, r.reader.close())
	}
	r.buf = r.encoder.AppendEnd(r.buf, r.chat.p.used())
}

func (r *rewordedStream) Failure() *api.Error { return r.failed }

func (r *rewordedStream) IsComplete() bool { return r.over && r.read == len(r.buf) }

// Close is called by the HTTP server after the last byte, or when the connection broke.
func (r *rewordedStream) Close() error { return r.chat.Close() }

// used is the usage that the servers told, or else what was counted here.
func (p *passage) used() answer.Usage {
	if !p.account.told {
		p.estimate()
	}
	f := &p.result
	return answer.Usage{Prompt: f.PromptTokens, Output: f.OutputTokens, Cached: f.CachedTokens, Reasoning: p.reasoned, Thinks: p.reasoned > 0}
}

// rewordedBytes is what an answer of any API has beside its texts.
const rewordedBytes = 1 << 10

// rewordWhole writes a whole chat anew.
func (p *passage) rewordWhole(j *job.Job) ([]byte, *api.Error) {
	size := rewordedBytes + 2*len(p.answer.Whole) // the texts that are read once more, and what is written
	dst, ok := p.answer.Memory.Buffer(size)
	switch {
	case !ok && p.answer.Memory.NeverFits(size):
		return nil, p.broken(router.ErrOversized)
	case !ok:
		return nil, p.broken(router.ErrNoMemory)
	}
	var reader chatReader
	d, err := reader.read(p.answer.Whole)
	if err != nil {
		return nil, p.broken(err)
	}
	if !reader.over {
		last := reader.close()
		d.Finish, d.Called = last.Finish, last.Called
	}
	return j.Encoder().AppendWhole(dst[:0], []answer.Delta{*d}, p.used()), nil
}

// relayInBackground answers with the response as it is now, and has its answer computed without
// the client.
func (c *call) relayInBackground(ctx context.Context, p *passage, r *relayed, sent *router.Call) *api.Error {
	s, j := c.server, r.job
	object, kept := responses.Begin(j)
	if !kept {
		s.responses.Runs.End(stored.KeyOf(j), p.run)
		p.end()
		return stored.Unavailable()
	}
	var body *rewordedStream
	if j.Params.Stream {
		body = newRewordedStream(p, j, len(sent.Tokens))
		c.stored().BeginEvents(p.run, body.encoder)
	} else {
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(object)
	}
	release := c.releaser()
	go func() {
		defer func() {
			release()
			s.responses.Runs.End(stored.KeyOf(j), p.run)
		}()
		defer p.end()
		over := make(chan struct{})
		defer close(over)
		go s.responses.LookForCancel(stored.KeyOf(j), p.run, over)
		if body != nil {
			p.askEvents(ctx, r, sent, body)
			return
		}
		if fault := p.askWhole(ctx, r, sent); fault != nil {
			responses.KeepFault(j, fault)
		}
	}()
	if body != nil {
		c.stream(c.stored().Follow(p.run.Events, 0))
	}
	return nil
}

// askEvents has an answer computed whose events go to the run's log.
func (p *passage) askEvents(ctx context.Context, r *relayed, sent *router.Call, body *rewordedStream) {
	fault := p.ask(ctx, r, sent)
	if fault == nil && p.answer.Status != statusOK {
		fault = p.refused(nil, r.job)
	}
	if fault == nil && p.answer.Events != nil {
		fault = p.run.Events.Copy(body)
	}
	if fault != nil {
		p.run.Events.Add(body.encoder.AppendFault(nil, fault))
	}
}

// askWhole has an answer computed that nobody waits for: the job's encoder keeps it.
func (p *passage) askWhole(ctx context.Context, r *relayed, sent *router.Call) *api.Error {
	fault := p.ask(ctx, r, sent)
	switch {
	case fault != nil:
		return fault
	case p.answer.Status != statusOK:
		return p.refused(nil, r.job)
	}
	_, fault = p.whole(r)
	return fault
}
