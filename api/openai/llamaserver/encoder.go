package llamaserver

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// Encoder writes the answers of POST /completion and POST /infill, whole or as events.
type Encoder struct {
	job     *job.Job
	request *Request
	times   answer.Times // of a stream those of its deltas
	lines   map[int]bool
}

// NewEncoder writes the answer of a job.
func NewEncoder(j *job.Job) answer.Encoder {
	return &Encoder{job: j, request: RequestOf(j), lines: map[int]bool{}}
}

var _ answer.Encoder = (*Encoder)(nil)

// AppendDelta implements answer.Encoder: an event for each piece, and one at each choice's end.
func (e *Encoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	if e.times.LastToken = time.Now(); e.times.FirstToken.IsZero() {
		e.times.FirstToken = e.times.LastToken
	}
	e.lines[d.Choice] = e.lines[d.Choice] || bytes.IndexByte(d.Content, '\n') >= 0
	dst = append(dst, "data: "...)
	if d.Finish != inference.FinishNone {
		return append(e.appendEnd(dst, d, true), "\n\n"...)
	}
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Choice), 10)
	dst = api.AppendString(append(dst, `,"content":`...), d.Content)
	dst = e.appendIDs(append(dst, `,"tokens":`...), d.IDs)
	dst = append(dst, `,"stop":false,"id_slot":0,"tokens_predicted":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Output), 10)
	dst = append(dst, `,"tokens_evaluated":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Prompt), 10)
	return append(e.appendProbs(dst, d), "}\n\n"...)
}

// AppendPulse implements answer.Encoder.
func (e *Encoder) AppendPulse(dst []byte) []byte { return append(dst, answer.Heartbeat...) }

// AppendEnd implements answer.Encoder: the last choice's end was the last event.
func (e *Encoder) AppendEnd(dst []byte, _ answer.Usage) []byte { return dst }

// AppendFault implements answer.Encoder.
func (e *Encoder) AppendFault(dst []byte, fault *api.Error) []byte {
	return append(AppendFault(append(dst, "data: "...), fault), "\n\n"...)
}

// AppendWhole implements answer.Encoder: an object, or an array of them where there are several prompts or choices.
func (e *Encoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	e.times = u.Times
	for i := range choices {
		e.lines[choices[i].Choice] = bytes.IndexByte(choices[i].Content, '\n') >= 0
	}
	if len(choices) == 1 {
		return e.appendEnd(dst, &choices[0], false)
	}
	dst = append(dst, '[')
	for i := range choices {
		dst = e.appendEnd(api.AppendComma(dst, i), &choices[i], false)
	}
	return append(dst, ']')
}

// appendEnd appends a choice that has ended.
func (e *Encoder) appendEnd(dst []byte, d *answer.Delta, streamed bool) []byte {
	from := len(dst)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Choice), 10)
	dst = api.AppendString(append(dst, `,"content":`...), d.Content)
	ids := d.IDs
	if !e.request.Tokens || streamed {
		ids = nil
	}
	dst = e.appendIDs(append(dst, `,"tokens":`...), ids)
	dst = append(dst, `,"id_slot":0,"stop":true,"model":`...)
	dst = api.AppendString(dst, e.job.Model.ID)
	dst = append(dst, `,"tokens_predicted":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Output), 10)
	dst = append(dst, `,"tokens_evaluated":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Prompt), 10)
	dst = e.appendSettings(append(dst, `,"generation_settings":`...))
	dst = append(dst, `,"prompt":`...)
	dst = api.AppendString(dst, e.job.Model.Tokenizer.Decode(e.job.Prompts[d.Prompt].IDs, true))
	dst = append(dst, `,"has_new_line":`...)
	dst = strconv.AppendBool(dst, e.lines[d.Choice])
	dst = append(dst, `,"truncated":`...)
	dst = strconv.AppendBool(dst, d.Finish == inference.FinishLength && d.Usage.Prompt+d.Usage.Output >= e.job.Model.MaxModelLen)
	dst = e.appendStop(dst, d)
	dst = append(dst, `,"tokens_cached":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Cached), 10)
	dst = e.appendTimings(append(dst, `,"timings":`...), d)
	if !streamed || len(d.Tokens) > 0 {
		dst = e.appendProbs(dst, d)
	}
	dst = append(dst, '}')
	if e.request.Fields == nil {
		return dst
	}
	return append(dst[:from], pick(dst[from:], e.request.Fields)...)
}

// appendStop appends why a choice ended.
func (e *Encoder) appendStop(dst []byte, d *answer.Delta) []byte {
	kind := "eos"
	switch {
	case d.Finish == inference.FinishLength:
		kind = "limit"
	case d.Stopped.Text != "" || d.Stopped.IsToken:
		kind = "word"
	}
	dst = append(append(append(dst, `,"stop_type":"`...), kind...), `","stopping_word":`...)
	return api.AppendString(dst, d.Stopped.Text)
}

func (e *Encoder) appendIDs(dst []byte, ids []inference.TokenID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		dst = strconv.AppendInt(api.AppendComma(dst, i), int64(id), 10)
	}
	return append(dst, ']')
}

// appendProbs appends the log-probabilities of tokens, where they were asked for.
func (e *Encoder) appendProbs(dst []byte, d *answer.Delta) []byte {
	if !e.request.Probs {
		return dst
	}
	dst = append(dst, `,"completion_probabilities":[`...)
	for i := range d.Tokens {
		t := &d.Tokens[i]
		dst = e.appendToken(api.AppendComma(dst, i), t.ID, t.Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, top := range t.Top {
			dst = append(e.appendToken(api.AppendComma(dst, k), top.ID, top.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// appendToken appends {"id","token","bytes","logprob" without its end.
func (e *Encoder) appendToken(dst []byte, id inference.TokenID, logprob float32) []byte {
	text := e.job.Model.Tokenizer.AppendPiece(nil, id, true)
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, int64(id), 10)
	dst = api.AppendString(append(dst, `,"token":`...), text)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(text) {
		dst = strconv.AppendUint(api.AppendComma(dst, i), uint64(text[i]), 10)
	}
	dst = append(dst, `],"logprob":`...)
	return strconv.AppendFloat(dst, float64(logprob), 'g', -1, 32)
}

// pick is an object of some values of another one, by their paths.
func pick(text []byte, paths []string) []byte {
	out := []byte{'{'}
	for _, path := range paths {
		at := json.RawMessage(text)
		for name := range strings.SplitSeq(path, "/") {
			var inner map[string]json.RawMessage
			if json.Unmarshal(at, &inner) != nil {
				inner = nil
			}
			at = inner[name]
		}
		if at == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(api.AppendString(out, path), ':'), at...)
	}
	return append(out, '}')
}
