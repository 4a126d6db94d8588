package job

import (
	"math/rand/v2"

	"weir/api/openai/digest"
	"weir/api/openai/toolset"
	"weir/tokenizer/family"
)

// Reading says how the answers of a job are taken apart: what of them is thought, what is
// text and what is a call. A job without one has text as it comes.
type Reading struct {
	Family  *family.Family
	Options family.Options
	Thinks  bool // the family marks thoughts
	Hidden  bool // thoughts are not told
	Tools   toolset.Set
	Budget  int // tokens of a thought at most; -1 is as many as the model likes
}

// WriteReading hashes how answers are taken apart, which decides where stop strings are looked
// for, and whether an answer ends with its first call.
func WriteReading(d digest.Writer, r *Reading) {
	d.Flag(r != nil)
	if r == nil {
		return
	}
	d.Integer(r.Budget)
	c := &r.Options.Choice
	d.Integer(int(c.Mode))
	d.Integer(len(c.Names))
	for _, name := range c.Names {
		d.Text(name)
	}
	d.Flag(c.Parallel)
}

// letters are those of ids that servers make up for calls.
const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// RandomLetters makes up the end of the id of a call.
func RandomLetters(n int) string {
	id := make([]byte, n)
	for i := range id {
		id[i] = letters[rand.IntN(len(letters))]
	}
	return string(id)
}
