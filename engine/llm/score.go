package llm

import (
	"errors"
	"fmt"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
)

// Scorer computes the logits of every position of a text, to measure how good a
// model's answers are. It has no step loop: one goroutine uses it. Its products are
// those of an Engine with the same options, so their bits are, too.
type Scorer struct {
	model *model
	cpu   *kernel.CPU
	kv    *attend.Pages
	shape cacheShape
	b     batch
	rows  []float32 // logits of one piece, [scoreRows][vocab]

	stopped func() error // asked before each piece; its error ends a text early
}

// scoreRows is how many rows of a text go through the model at a time, and how many
// rows of logits are held.
const scoreRows = 64

// OpenScorer reads a model. Matrices whose tensors exact names are held as float32, as
// the file's weights are, and multiply activations that nothing has rounded; nil names
// none, so that the model is computed as it is served. opts.MaxModelLen is the longest
// text. The caller closes the scorer; the file may be closed before.
func OpenScorer(f *gguf.File, opts Options, exact func(tensor string) bool, progress func(done, total int64)) (*Scorer, error) {
	opts.exact = exact
	opts.keepAll = true
	o, err := readOutline(f, &opts)
	if err != nil {
		return nil, err
	}
	if o.embeds() {
		return nil, fmt.Errorf("%w: it is a text encoder (%s), which predicts no tokens", ErrModel, o.arch.name)
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	s := &Scorer{stopped: opts.stopped}
	if s.model, err = o.load(progress, opts.stopped); err != nil {
		return nil, err
	}
	s.cpu = opts.compute()
	if err = o.chooseCache(s.model, &opts); err == nil {
		s.shape = o.budget.shape
		s.kv, err = attend.NewPages(s.shape.Tables)
	}
	if err != nil {
		s.cpu.Close()
		return nil, errors.Join(err, s.model.release())
	}
	s.model.formKeys(s.cpu, s.kv, s.MaxTokens())
	return s, nil
}

// MaxTokens is the length of the longest text.
func (s *Scorer) MaxTokens() int {
	return (s.shape.blocks() - 1) / len(s.shape.Tables) * s.shape.blockTokens()
}

// KVType is the type of the cache.
func (s *Scorer) KVType() string { return s.shape.Tables[0].Type.String() }

// Vocabulary is the number of logits of a position.
func (s *Scorer) Vocabulary() int { return s.model.vocab }

// Score calls yield for each position of a text from the given one on, with the logits
// of the token that follows the position, [Vocabulary]. yield must keep no reference.
func (s *Scorer) Score(tokens []int32, from int, yield func(position int, logits []float32)) (err error) {
	defer recoverTable(&err)
	if len(tokens) == 0 || len(tokens) > s.MaxTokens() {
		return fmt.Errorf("a text of %d tokens; the scorer takes 1 to %d", len(tokens), s.MaxTokens())
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= s.model.vocab {
			return fmt.Errorf("token %d is %d, outside of the vocabulary of %d", i, id, s.model.vocab)
		}
	}
	if s.b.store == nil {
		if s.b.store, err = newStates(s.model.states, 1); err != nil {
			return err
		}
	}
	tables := s.shape.wholeTables(len(tokens))
	grow(&s.rows, scoreRows*s.model.vocab)
	for lo := 0; lo < len(tokens); lo += scoreRows {
		if err := s.stopped(); err != nil {
			return err
		}
		part := tokens[lo:min(lo+scoreRows, len(tokens))]
		s.b.reset()
		s.b.add(part, lo, s.shape.blockTokens(), tables...)
		s.b.carryText(lo)
		for i := max(from-lo, 0); i < len(part); i++ {
			s.b.output = append(s.b.output, i)
		}
		s.model.forward(s.cpu, s.kv, &s.b)
		n := len(s.b.output)
		if n == 0 {
			continue
		}
		s.model.logits(s.cpu, s.rows, s.b.hidden, n)
		for i, row := range s.b.output {
			yield(lo+row, s.rows[i*s.model.vocab:(i+1)*s.model.vocab])
		}
	}
	return nil
}

// Close frees the model.
func (s *Scorer) Close() error {
	s.cpu.Close()
	return errors.Join(s.model.release(), s.kv.Close(), s.b.store.close())
}
