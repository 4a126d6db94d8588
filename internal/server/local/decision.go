package local

import (
	"fmt"
	"math"
	"strings"

	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// Keys of text encoders with a decision head; the last two are behind the architecture's name.
const (
	decisionTemplateKey = "tokenizer.chat_template.systemone"
	decisionMarkKey     = "tokenizer.ggml.mask_token_id"
	decisionSepKey      = "tokenizer.ggml.seperator_token_id" // spelt so in GGUF
	decisionTypeKey     = ".decision.type"
	decisionTokensKey   = ".decision.max_head_tokens"
	decisionHeatKey     = ".decision.temperature."
)

// Decision is how a decision head is asked, as the file says; see models.Decision.
type Decision struct {
	Template     *chat.Template
	Mark         int32
	Separator    int32
	HeadTokens   int
	Temperatures map[string]float64
}

// readDecision reads how the decision head of a file is asked; nil where it has none.
func readDecision(f *gguf.File, t *tokenizer.Tokenizer) (*Decision, error) {
	arch, _, _ := f.String("general.architecture")
	if _, ok := f.Value(arch + decisionTypeKey); !ok {
		return nil, nil
	}
	d := &Decision{Temperatures: map[string]float64{}}
	source, ok, err := f.String(decisionTemplateKey)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s is missing, which says how questions are written for its decision head", llm.ErrModel, decisionTemplateKey)
	}
	if err != nil {
		return nil, err
	}
	if d.Template, err = chat.Parse(source, chat.Options{}); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", llm.ErrModel, decisionTemplateKey, err)
	}
	for key, id := range map[string]*int32{decisionMarkKey: &d.Mark, decisionSepKey: &d.Separator} {
		n, ok, err := f.Uint(key)
		if err != nil || !ok || n >= uint64(t.Size()) {
			return nil, fmt.Errorf("%w: %s is %d, which must be a token of the vocabulary of %d: the decision head is asked with it", llm.ErrModel, key, n, t.Size())
		}
		*id = int32(n) //nolint:gosec // below the size of the vocabulary
	}
	n, _, err := f.Uint(arch + decisionTokensKey)
	if err != nil || n < 1 || n > 1<<20 {
		return nil, fmt.Errorf("%w: %s%s is %d, must be from 1 to %d", llm.ErrModel, arch, decisionTokensKey, n, 1<<20)
	}
	d.HeadTokens = int(n)
	for _, kv := range f.KV {
		kind, ok := strings.CutPrefix(kv.Key, arch+decisionHeatKey)
		if !ok {
			continue
		}
		v, _, err := f.Float(kv.Key)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: %s is %v, must be positive", llm.ErrModel, kv.Key, v)
		}
		d.Temperatures[kind] = v
	}
	return d, nil
}
