package llamaserver

import (
	"strconv"
	"time"

	"weir/api/openai/answer"
)

// appendTimings appends how many tokens a choice's parts had and how long they took. The first token comes with the prompt, so that the pace of
// the others is that of the steps behind it, and 0 where there is none.
func (e *Encoder) appendTimings(dst []byte, d *answer.Delta) []byte {
	computed := d.Usage.Prompt - d.Usage.Cached
	dst = append(dst, `{"cache_n":`...)
	dst = strconv.AppendInt(dst, int64(d.Usage.Cached), 10)
	begun := e.times.Admitted
	if begun.IsZero() {
		begun = e.job.Arrived
	}
	dst = appendPace(dst, "prompt", computed, computed, e.times.FirstToken.Sub(begun))
	dst = appendPace(dst, "predicted", d.Usage.Output, d.Usage.Output-1, e.times.LastToken.Sub(e.times.FirstToken))
	return append(dst, '}')
}

// appendPace appends that n tokens came in a time, and the pace of so many steps.
func appendPace(dst []byte, what string, n, steps int, took time.Duration) []byte {
	ms := max(float64(took)/float64(time.Millisecond), 0)
	add := func(name string, v float64) {
		dst = append(append(append(append(append(dst, `,"`...), what...), '_'), name...), `":`...)
		dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	add("n", float64(n))
	add("ms", ms)
	if steps < 1 || ms == 0 {
		add("per_token_ms", 0)
		add("per_second", 0)
		return dst
	}
	add("per_token_ms", ms/float64(steps))
	add("per_second", float64(steps)*1000/ms)
	return dst
}
