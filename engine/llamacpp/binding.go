//go:build llamacpp

package llamacpp

import (
	"cmp"
	"fmt"

	llama "github.com/go-skynet/go-llama.cpp"

	"weir/internal/inference"
)

// Linked says whether this build has llama.cpp.
const Linked = true

// room is the library's context for sequences of so many tokens of ours: its own tokenizer may find more of them in a prompt.
func room(maxModelLen int) int { return maxModelLen + maxModelLen/8 + 8 }

// Open loads a model into llama.cpp.
func Open(path string, o Options) (*Engine, error) {
	m, err := llama.New(path, llama.SetContext(room(cmp.Or(o.MaxModelLen, DefaultModelLen))), llama.EnableF16Memory, llama.SetMMap(true),
		llama.WithRopeFreqBase(cmp.Or(o.RopeFreqBase, 10000)), llama.WithRopeFreqScale(1/cmp.Or(o.RopeScale, 1)))
	if err != nil {
		return nil, fmt.Errorf("llama.cpp cannot load %s (what it says is on standard error): %w", path, err)
	}
	b := &binding{model: m, threads: cmp.Or(o.Threads, 4)}
	e, err := newEngine(b, o)
	if err != nil {
		b.close()
	}
	return e, err
}

// binding is a loaded model.
type binding struct {
	model   *llama.LLama
	threads int
}

// The binding writes prompt and answer into a buffer of as many bytes as it is asked for tokens, without a check. So it is
// asked for as many as both can have bytes, and ended by the callback: a piece of output has at most maxPieceBytes, and the
// prompt, tokenised and put together again, a few more bytes than before.
const (
	maxPieceBytes = 1 << 10
	promptSlack   = 4 << 10
)

func (b *binding) generate(c call, token func(piece string) bool) error {
	s := c.sampling
	buffer := 2*len(c.prompt) + promptSlack + (c.maxTokens+1)*maxPieceBytes
	options := []llama.PredictOption{
		llama.SetTokens(buffer), llama.SetThreads(b.threads), llama.SetSeed(int(s.Seed & 0x7fffffff)),
		llama.SetTemperature(s.Temperature), llama.SetTopK(max(s.TopK, 0)), llama.SetTopP(s.TopP), llama.SetTypicalP(s.TypicalP),
		llama.SetPenalty(s.RepetitionPenalty), llama.SetPresencePenalty(s.PresencePenalty), llama.SetFrequencyPenalty(s.FrequencyPenalty),
		llama.SetNKeep(-1), llama.SetTokenCallback(func(piece string) bool { return len(piece) <= maxPieceBytes && token(piece) }),
	}
	if c.ignoreEOS {
		options = append(options, llama.IgnoreEOS)
	}
	if _, err := b.model.Predict(c.prompt, options...); err != nil {
		return fmt.Errorf("%w: llama.cpp: %w", inference.ErrInternal, err)
	}
	return nil
}

func (b *binding) close() { b.model.Free() }
