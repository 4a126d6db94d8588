package local

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// Keys of models that decide, and of their heads; the last three are behind the architecture's name.
const (
	decisionTemplateKey = "tokenizer.chat_template.systemone"
	decisionMarkKey     = "tokenizer.ggml.mask_token_id"
	decisionSepKey      = "tokenizer.ggml.seperator_token_id" // spelt so in GGUF
	decisionTypeKey     = ".decision.type"
	decisionTokensKey   = ".decision.max_head_tokens"
	decisionHeatKey     = ".decision.temperature."
)

// decisionMarkText ends options in the prompts of language models with a decision head.
const decisionMarkText = "<|box_end|>"

// Decision is how a model is asked for decisions, as its file says; see models.Decision.
type Decision struct {
	Type         string
	Template     *chat.Template
	Mark         int32
	Separator    int32
	HeadTokens   int
	Temperatures map[string]float64
}

// readDecision reads how a model is asked for decisions; nil where its file does not say it.
func readDecision(f *gguf.File, t *tokenizer.Tokenizer) (*Decision, error) {
	arch, _, _ := f.String("general.architecture")
	if _, ok := f.Value(arch + decisionTypeKey); !ok {
		return nil, nil
	}
	d := &Decision{Temperatures: map[string]float64{}}
	var err error
	if d.Type, _, err = f.String(arch + decisionTypeKey); err != nil {
		return nil, err
	}
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
	if err := errors.Join(d.readHead(f, t, arch), d.readTemperatures(f, arch)); err != nil {
		return nil, err
	}
	return d, nil
}

// readHead reads what the prompts of a model with a head need: marks, and of text encoders separators and the length.
func (d *Decision) readHead(f *gguf.File, t *tokenizer.Tokenizer, arch string) error {
	switch {
	case slices.Contains(llm.DecisionLabels, d.Type):
		return nil
	case d.Type == llm.DecisionPointer:
		var ok bool
		if d.Mark, ok = t.FindControl(decisionMarkText); !ok {
			return fmt.Errorf("%w: the vocabulary has no token %s, which its decision head reads behind each option", llm.ErrModel, decisionMarkText)
		}
		return nil
	case d.Type != llm.DecisionLaya:
		return nil // the engine says why it is refused
	}
	for key, id := range map[string]*int32{decisionMarkKey: &d.Mark, decisionSepKey: &d.Separator} {
		n, ok, err := f.Uint(key)
		if err != nil || !ok || n >= uint64(t.Size()) {
			return fmt.Errorf("%w: %s is %d, which must be a token of the vocabulary of %d: the decision head is asked with it", llm.ErrModel, key, n, t.Size())
		}
		*id = int32(n) //nolint:gosec // below the size of the vocabulary
	}
	n, _, err := f.Uint(arch + decisionTokensKey)
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("%w: %s%s is %d, must be from 1 to %d", llm.ErrModel, arch, decisionTokensKey, n, 1<<20)
	}
	d.HeadTokens = int(n)
	return nil
}

// readTemperatures reads what scores are divided by.
func (d *Decision) readTemperatures(f *gguf.File, arch string) error {
	for _, kv := range f.KV {
		kind, ok := strings.CutPrefix(kv.Key, arch+decisionHeatKey)
		if !ok {
			continue
		}
		v, _, err := f.Float(kv.Key)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %s is %v, must be positive", llm.ErrModel, kv.Key, v)
		}
		d.Temperatures[kind] = v
	}
	return nil
}
