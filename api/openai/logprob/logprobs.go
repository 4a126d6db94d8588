// Package logprob writes log-probabilities and the names of tokens as clients read them.
//
//	names := logprob.Names{Tokenizer: tok}
//	dst = names.AppendRecords(dst, records) // {"token":" weir","logprob":-0.25,…}
package logprob

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/api"
	"weir/api/openai/answer"
	"weir/internal/inference"
	"weir/tokenizer"
)

// leastLogprob stands for the logarithm of 0, which JSON cannot say.
const leastLogprob = -9999

// AppendLogprob appends a logprob; NaN, where there is none, is null.
func AppendLogprob(dst []byte, v float32) []byte {
	if v != v {
		return append(dst, "null"...)
	}
	if math.IsInf(float64(v), 0) || v < leastLogprob {
		v = leastLogprob
	}
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

// Names writes tokens as clients read them.
type Names struct {
	Tokenizer *tokenizer.Tokenizer
	AsIDs     bool   // as "token_id:N", which tells all tokens apart
	piece     []byte // scratch: the bytes of one token
}

// appendTokenLogprob appends the fields token, logprob and bytes. token is for
// people: bytes that are no whole rune show as U+FFFD; bytes has them.
func (n *Names) appendTokenLogprob(dst []byte, id inference.TokenID, logprob float32) []byte {
	n.piece = n.Tokenizer.AppendPiece(n.piece[:0], id, true)
	dst = append(dst, `"token":`...)
	if n.AsIDs {
		dst = appendTokenID(dst, id)
	} else {
		dst = api.AppendString(dst, n.piece)
	}
	dst = append(dst, `,"logprob":`...)
	dst = AppendLogprob(dst, logprob)
	dst = append(dst, `,"bytes":[`...)
	for i, b := range n.piece {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}

// AppendRecords appends the objects of tokens, with their alternatives, separated by commas.
func (n *Names) AppendRecords(dst []byte, tokens []answer.TokenRecord) []byte {
	for i := range tokens {
		r := &tokens[i]
		dst = append(api.AppendComma(dst, i), '{')
		dst = n.appendTokenLogprob(dst, r.ID, r.Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, alt := range r.Top {
			dst = append(n.appendTokenLogprob(append(api.AppendComma(dst, k), '{'), alt.ID, alt.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return dst
}

// AppendTopOf appends {"name":logprob,…}: the token itself, then its
// alternatives, best first. Where two tokens have one name, as a byte token and
// the letter it spells, the earlier one counts.
func (n *Names) AppendTopOf(dst []byte, r *answer.TokenRecord) []byte {
	dst = n.appendTopLogprob(append(dst, '{'), r.ID, r.Logprob)
	for k, alt := range r.Top {
		if !n.sameName(alt.ID, r.ID) && !n.named(r.Top[:k], alt.ID) {
			dst = n.appendTopLogprob(append(dst, ','), alt.ID, alt.Logprob)
		}
	}
	return append(dst, '}')
}

func (n *Names) named(earlier []inference.TokenLogprob, id inference.TokenID) bool {
	return slices.ContainsFunc(earlier, func(e inference.TokenLogprob) bool { return n.sameName(e.ID, id) })
}

func (n *Names) sameName(a, b inference.TokenID) bool {
	if a == b || n.AsIDs {
		return a == b
	}
	n.piece = n.Tokenizer.AppendPiece(n.piece[:0], a, true)
	cut := len(n.piece)
	n.piece = n.Tokenizer.AppendPiece(n.piece, b, true)
	return string(n.piece[:cut]) == string(n.piece[cut:])
}

func (n *Names) appendTopLogprob(dst []byte, id inference.TokenID, logprob float32) []byte {
	return AppendLogprob(append(n.AppendName(dst, id), ':'), logprob)
}

// AppendName appends a token as the legacy shape names it: its text, or
// "bytes:\xNN…" where it is no valid UTF-8, so that different tokens stay
// different names.
func (n *Names) AppendName(dst []byte, id inference.TokenID) []byte {
	if n.AsIDs {
		return appendTokenID(dst, id)
	}
	n.piece = n.Tokenizer.AppendPiece(n.piece[:0], id, true)
	if utf8.Valid(n.piece) {
		return api.AppendString(dst, n.piece)
	}
	name := []byte("bytes:")
	for _, b := range n.piece {
		const digits = "0123456789abcdef"
		name = append(name, '\\', 'x', digits[b>>4], digits[b&15])
	}
	return api.AppendString(dst, name)
}

func appendTokenID(dst []byte, id inference.TokenID) []byte {
	dst = append(dst, `"token_id:`...)
	return append(strconv.AppendInt(dst, int64(id), 10), '"')
}

// AppendRanked appends {"id":{"logprob","rank","decoded_token"},…}: the token
// itself and its alternatives. A rank that is not known is null.
func (n *Names) AppendRanked(dst []byte, r *answer.TokenRecord) []byte {
	rank := 1 + slices.IndexFunc(r.Top, func(e inference.TokenLogprob) bool { return e.ID == r.ID })
	if rank == 0 {
		rank = int(r.Rank)
	}
	dst = n.appendRank(append(dst, '{'), inference.TokenLogprob{ID: r.ID, Logprob: r.Logprob}, rank)
	for k, alt := range r.Top {
		if alt.ID != r.ID {
			dst = n.appendRank(append(dst, ','), alt, k+1)
		}
	}
	return append(dst, '}')
}

// appendRank appends one entry; rank 0 is not known.
func (n *Names) appendRank(dst []byte, t inference.TokenLogprob, rank int) []byte {
	dst = strconv.AppendInt(append(dst, '"'), int64(t.ID), 10)
	dst = AppendLogprob(append(dst, `":{"logprob":`...), t.Logprob)
	dst = append(dst, `,"rank":`...)
	if rank > 0 {
		dst = strconv.AppendInt(dst, int64(rank), 10)
	} else {
		dst = append(dst, "null"...)
	}
	n.piece = n.Tokenizer.AppendPiece(n.piece[:0], t.ID, true)
	dst = api.AppendString(append(dst, `,"decoded_token":`...), n.piece)
	return append(dst, '}')
}
