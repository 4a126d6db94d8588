package openai

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/api"
	"weir/internal/inference"
)

// leastLogprob stands for the logarithm of 0, which JSON cannot say.
const leastLogprob = -9999

// appendLogprob appends a logprob; NaN, where there is none, is null.
func appendLogprob(dst []byte, v float32) []byte {
	if v != v {
		return append(dst, "null"...)
	}
	if math.IsInf(float64(v), 0) || v < leastLogprob {
		v = leastLogprob
	}
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

// appendChatLogprobs appends {"content":[…],"refusal":null} for records.
func (g *generation) appendChatLogprobs(dst []byte, records []tokenRecord) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range records {
		r := &records[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = g.appendTokenLogprob(dst, r.id, r.logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, alt := range r.top {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(g.appendTokenLogprob(append(dst, '{'), alt.ID, alt.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

// appendTokenLogprob appends the fields token, logprob and bytes. token is for
// people: bytes that are no whole rune show as U+FFFD; bytes has them.
func (g *generation) appendTokenLogprob(dst []byte, id inference.TokenID, logprob float32) []byte {
	g.piece = g.job.model.Tokenizer.AppendPiece(g.piece[:0], id, true)
	dst = append(dst, `"token":`...)
	dst = api.AppendString(dst, g.piece)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, logprob)
	dst = append(dst, `,"bytes":[`...)
	for i, b := range g.piece {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}

// appendTextLogprobs appends the legacy shape {"tokens","token_logprobs",
// "top_logprobs","text_offset"}. Offsets count Unicode code points from the
// beginning of the choice's text.
func (g *generation) appendTextLogprobs(dst []byte, records []tokenRecord) []byte {
	dst = append(dst, `{"tokens":[`...)
	for i := range records {
		dst = g.appendTokenName(comma(dst, i), records[i].id)
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range records {
		dst = appendLogprob(comma(dst, i), records[i].logprob)
	}
	dst = append(dst, `],"top_logprobs":`...)
	dst = g.appendTopLogprobs(dst, records)
	dst = append(dst, `,"text_offset":[`...)
	for i := range records {
		dst = strconv.AppendInt(comma(dst, i), int64(records[i].start.runes), 10)
	}
	return append(dst, "]}"...)
}

// appendTopLogprobs appends one object per token, or null when no
// alternatives were asked for. The token itself is always among them.
func (g *generation) appendTopLogprobs(dst []byte, records []tokenRecord) []byte {
	if g.job.params.sampling.Logprobs < 1 {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range records {
		r := &records[i]
		dst = comma(dst, i)
		if r.logprob != r.logprob {
			dst = append(dst, "null"...)
			continue
		}
		dst = g.appendTopOf(dst, r)
	}
	return append(dst, ']')
}

// appendTopOf appends {"name":logprob,…}, best first. Where two tokens have
// one name, as a byte token and the letter it spells, the better one counts.
func (g *generation) appendTopOf(dst []byte, r *tokenRecord) []byte {
	dst = append(dst, '{')
	own, n := false, 0
	for k, alt := range r.top {
		own = own || g.sameName(alt.ID, r.id)
		if !g.named(r.top[:k], alt.ID) {
			dst = g.appendTopLogprob(comma(dst, n), alt.ID, alt.Logprob)
			n++
		}
	}
	if !own {
		dst = g.appendTopLogprob(comma(dst, n), r.id, r.logprob)
	}
	return append(dst, '}')
}

func (g *generation) named(earlier []inference.TokenLogprob, id inference.TokenID) bool {
	return slices.ContainsFunc(earlier, func(e inference.TokenLogprob) bool { return g.sameName(e.ID, id) })
}

func (g *generation) sameName(a, b inference.TokenID) bool {
	if a == b {
		return true
	}
	t := g.job.model.Tokenizer
	g.piece = t.AppendPiece(g.piece[:0], a, true)
	n := len(g.piece)
	g.piece = t.AppendPiece(g.piece, b, true)
	return string(g.piece[:n]) == string(g.piece[n:])
}

func (g *generation) appendTopLogprob(dst []byte, id inference.TokenID, logprob float32) []byte {
	return appendLogprob(append(g.appendTokenName(dst, id), ':'), logprob)
}

// appendTokenName appends a token as the legacy shape names it: its text, or
// "bytes:\xNN…" where it is no valid UTF-8, so that different tokens stay
// different names.
func (g *generation) appendTokenName(dst []byte, id inference.TokenID) []byte {
	g.piece = g.job.model.Tokenizer.AppendPiece(g.piece[:0], id, true)
	if utf8.Valid(g.piece) {
		return api.AppendString(dst, g.piece)
	}
	name := []byte("bytes:")
	for _, b := range g.piece {
		const digits = "0123456789abcdef"
		name = append(name, '\\', 'x', digits[b>>4], digits[b&15])
	}
	return api.AppendString(dst, name)
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendTokens(dst []byte, ids []inference.TokenID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		dst = strconv.AppendInt(comma(dst, i), int64(id), 10)
	}
	return append(dst, ']')
}
