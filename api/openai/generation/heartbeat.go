package generation

import (
	"strconv"
	"time"

	"weir/api/openai/answer"
	"weir/internal/inference"
)

// While no token is generated a stream sends heartbeats, so that proxies and
// clients keep it open. A request with stream_options.include_progress also gets
// its place in the waiting queue and the number of prefilled prompt tokens. Both
// are comments, which the SSE standard tells clients to skip.

// untilTimer is the time to the next heartbeat or look at the progress.
func (r *EventStream) untilTimer() time.Duration {
	d := time.Until(r.beat)
	if r.wantsProgress() {
		d = min(d, r.g.runner.ProgressEvery)
	}
	return max(d, 0)
}

func (r *EventStream) wantsProgress() bool {
	return r.g.Job.Params.IncludeProgress && !r.g.Job.Lines && r.g.Result.FirstToken.IsZero()
}

// tick writes the progress or the heartbeat that is due.
func (r *EventStream) tick() {
	if r.wantsProgress() {
		r.reportProgress()
	}
	if len(r.buf) == 0 && !time.Now().Before(r.beat) {
		r.pulse()
	}
	if len(r.buf) > 0 || !time.Now().Before(r.beat) {
		r.rest()
	}
}

func (r *EventStream) pulse() {
	switch kind := r.g.runner.Heartbeat; {
	case kind == HeartbeatOff:
	case kind == HeartbeatChunk || r.g.Job.Lines:
		r.buf = r.Encoder.AppendPulse(r.buf)
	default:
		r.buf = append(r.buf, answer.Heartbeat...)
	}
}

// reportProgress writes a comment when something has changed.
func (r *EventStream) reportProgress() {
	p := r.g.progress()
	if p == r.progress {
		return
	}
	r.progress = p
	if p.Position > 0 {
		r.buf = append(r.buf, ": queue position="...)
		r.buf = strconv.AppendInt(r.buf, int64(p.Position), 10)
	} else {
		r.buf = append(r.buf, ": prefill "...)
		r.buf = strconv.AppendInt(r.buf, int64(p.PrefillTokens), 10)
		r.buf = append(r.buf, '/')
		r.buf = strconv.AppendInt(r.buf, int64(r.g.Result.PromptTokens), 10)
		r.buf = append(r.buf, " cached="...)
		r.buf = strconv.AppendInt(r.buf, int64(p.CachedTokens), 10)
	}
	r.buf = append(r.buf, '\n')
}

// progress is that of all prompts together: the last one's place in the
// queue, and sums.
func (g *Generation) progress() inference.Progress {
	var all inference.Progress
	for _, st := range g.streams {
		p := st.Progress()
		all.Position = max(all.Position, p.Position)
		all.PrefillTokens += p.PrefillTokens
		all.CachedTokens += p.CachedTokens
	}
	return all
}
