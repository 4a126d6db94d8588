package relay

import (
	"bytes"
	"errors"
	"io"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
	"weir/router"
)

// TranslatedStream is the stream of a chat, written in the form that the client asked for.
// It adds nothing to the chat's own waiting: each read gives what one read of the chat has brought.
type TranslatedStream struct {
	chat    *Stream
	reader  ChatReader
	Encoder answer.Encoder
	usage   answer.Usage // that the first event tells: the prompt's, where it is known

	line []byte // of the chat, not complete yet
	buf  []byte // written, not read yet: buf[read:]
	read int
	over bool

	failed *api.Error
}

// NewTranslatedStream begins to write a chat's stream in another form. prompt is its tokens; 0: not known.
func NewTranslatedStream(p *Exchange, j *job.Job, prompt int) *TranslatedStream {
	return &TranslatedStream{chat: &Stream{exchange: p, silent: true}, Encoder: j.Encoder(), usage: answer.Usage{Prompt: prompt}}
}

// Read implements io.Reader.
func (r *TranslatedStream) Read(p []byte) (int, error) {
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
func (r *TranslatedStream) lines(piece []byte) *api.Error {
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
			r.buf = r.Encoder.AppendPulse(r.buf)
		case !ok || len(data) == 0:
		case bytes.Equal(data, []byte("[DONE]")):
			r.end()
		default:
			d, err := r.reader.Read(data)
			if err != nil {
				return r.unread(err)
			}
			d.Usage = r.usage
			if !d.IsEmpty() || d.Finish != inference.FinishNone {
				r.buf = r.Encoder.AppendDelta(r.buf, d)
			}
		}
	}
	return nil
}

// unread ends the request at a server that writes what is no chat.
func (r *TranslatedStream) unread(err error) *api.Error {
	r.chat.over = true
	fault := r.chat.exchange.broken(err)
	r.chat.exchange.Cancel(err)
	return fault
}

// broken ends the stream with an error event.
func (r *TranslatedStream) broken(fault *api.Error) {
	r.over, r.failed = true, fault
	r.buf = r.Encoder.AppendFault(r.buf, fault)
}

// end writes the end of the answer, once.
func (r *TranslatedStream) end() {
	if r.over {
		return
	}
	r.over = true
	if !r.reader.over {
		r.buf = r.Encoder.AppendDelta(r.buf, r.reader.close())
	}
	r.buf = r.Encoder.AppendEnd(r.buf, r.chat.exchange.Used())
}

// Failure is the error whose event ended the stream, nil where none did.
func (r *TranslatedStream) Failure() *api.Error { return r.failed }

// IsComplete reports whether the last byte was read.
func (r *TranslatedStream) IsComplete() bool { return r.over && r.read == len(r.buf) }

// Close is called by the HTTP server after the last byte, or when the connection broke.
func (r *TranslatedStream) Close() error { return r.chat.Close() }

// Used is the usage that the servers told, or else what was counted here.
func (p *Exchange) Used() answer.Usage {
	if !p.Account.told {
		p.Estimate()
	}
	f := &p.Result
	return answer.Usage{Prompt: f.PromptTokens, Output: f.OutputTokens, Cached: f.CachedTokens, Reasoning: p.reasoned, Thinks: p.reasoned > 0,
		Times: answer.Times{FirstToken: f.FirstToken, LastToken: f.LastToken}}
}

// rewordedBytes is what an answer of any API has beside its texts.
const rewordedBytes = 1 << 10

// rewordWhole writes a whole chat in the form that the client asked for.
func (p *Exchange) rewordWhole(j *job.Job) ([]byte, *api.Error) {
	size := rewordedBytes + 2*len(p.Answer.Whole) // the texts that are read once more, and what is written
	dst, ok := p.Answer.Memory.Buffer(size)
	switch {
	case !ok && p.Answer.Memory.NeverFits(size):
		return nil, p.broken(router.ErrOversized)
	case !ok:
		return nil, p.broken(router.ErrNoMemory)
	}
	var reader ChatReader
	d, err := reader.Read(p.Answer.Whole)
	if err != nil {
		return nil, p.broken(err)
	}
	if !reader.over {
		last := reader.close()
		d.Finish, d.Called = last.Finish, last.Called
	}
	return j.Encoder().AppendWhole(dst[:0], []answer.Delta{*d}, p.Used()), nil
}
