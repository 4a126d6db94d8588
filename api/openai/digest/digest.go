// Package digest hashes what decides on an answer: the parameters of a request, one after the other.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"

	"weir/internal/inference"
)

// Writer hashes values, each with its length or in a fixed size.
type Writer struct{ hash.Hash }

// New is a writer without values.
func New() Writer { return Writer{sha256.New()} }

// Number adds a number in a fixed size.
func (d Writer) Number(n uint64) { _, _ = d.Write(binary.LittleEndian.AppendUint64(nil, n)) } // a hash takes all

// Text adds a string with its length.
func (d Writer) Text(s string) {
	d.Number(uint64(len(s)))
	_, _ = d.Write([]byte(s))
}

// Flag adds true or false.
func (d Writer) Flag(b bool) {
	if b {
		d.Number(1)
		return
	}
	d.Number(0)
}

// IDs adds a list of tokens with its length.
func (d Writer) IDs(ids []inference.TokenID) {
	d.Number(uint64(len(ids)))
	buf := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(id)) //nolint:gosec // any bits
	}
	_, _ = d.Write(buf)
}

// Integer adds a number in a fixed size.
func (d Writer) Integer(n int) { d.Number(uint64(n)) } //nolint:gosec // any bits

func (d Writer) float(f float32) { d.Number(uint64(math.Float32bits(f))) }

// Request adds the fields that decide on the tokens. A test fails when a field of
// inference.Request is neither here nor listed there as one that does not.
func (d Writer) Request(r *inference.Request) {
	d.IDs(r.Prompt)
	d.Integer(r.MaxTokens)
	d.Integer(r.MinTokens)
	d.IDs(r.StopTokens)
	d.Flag(r.IgnoreEOS)
	d.Integer(len(r.Given))
	for _, given := range r.Given {
		d.IDs(given)
	}
	s := &r.Sampling
	for _, f := range []float32{
		s.Temperature, s.TopP, s.MinP, s.TypicalP, s.RepetitionPenalty, s.PresencePenalty, s.FrequencyPenalty,
	} {
		d.float(f)
	}
	d.Integer(s.TopK)
	d.Integer(len(s.LogitBias))
	for _, b := range s.LogitBias {
		d.Integer(int(b.ID))
		d.float(b.Bias)
	}
	d.IDs(s.AllowedTokens)
	d.Integer(len(s.BadWords))
	for _, w := range s.BadWords {
		d.IDs(w)
	}
	if s.Temperature > 0 { // a greedy answer draws nothing
		d.Number(s.Seed)
	}
	for _, m := range r.Marks { // requests without any keep the digests that stores have of them
		d.Integer(m)
	}
}
