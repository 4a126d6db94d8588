package local

import (
	"fmt"
	"strings"

	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/unit"
)

// FullSequences is the number of sequences of full length that the cache holds
// at once, and states of.
func FullSequences(i llm.Info) int {
	n := i.KVTokens / max(i.MaxModelLen, 1)
	if i.StateBytes > 0 {
		n = min(n, i.States/2)
	}
	return n
}

// States says what recurrent layers keep of sequences; "" of models without such layers.
func States(i llm.Info) string {
	if i.StateBytes == 0 {
		return ""
	}
	return fmt.Sprintf("%s for a sequence of any length; room for %d in %s: two for each that runs, the others are checkpoints of the prefix cache",
		unit.Bytes(i.StateBytes), i.States, unit.Bytes(i.StateBytes*int64(i.States)))
}

// Memory says what a language model takes: weights, and what shares the memory of the cache.
func Memory(i llm.Info) string {
	text := unit.Bytes(i.WeightBytes) + " of weights"
	if n := i.DraftBytes - i.DraftKVBytes; n > 0 {
		text += ", " + unit.Bytes(n) + " of a draft model's"
	}
	text += " and " + unit.Bytes(i.CacheBytes()) + " of KV cache"
	var of []string
	if i.DraftKVBytes > 0 {
		of = append(of, unit.Bytes(i.DraftKVBytes)+" for draft tokens")
	}
	if i.StateBytes > 0 {
		of = append(of, unit.Bytes(i.StateBytes*int64(i.States))+" for states")
	}
	if len(of) > 0 {
		text += ", of these " + strings.Join(of, " and ")
	}
	return text
}

// Sequences says how many sequences of a length there is room for.
func Sequences(n, tokens int) string {
	if n == 1 {
		return fmt.Sprintf("1 sequence of %d tokens", tokens)
	}
	return fmt.Sprintf("%d sequences of %d tokens", n, tokens)
}

// Gives says what an encoder answers a text with.
func Gives(i llm.Info) string {
	switch {
	case i.Decides:
		return "probabilities of the options of questions about texts: /v1/decisions"
	case i.Scores == 0:
		return fmt.Sprintf("vectors of %d values, pooling %s: /v1/embeddings", i.Dimensions, i.Pooling)
	case !i.Ranks():
		return fmt.Sprintf("probabilities of %d labels (%.200s): /v1/classify, /v1/decisions", i.Scores, console.Printable(strings.Join(i.Labels, ", ")))
	}
	text := "scores of pairs of texts: /v1/rerank"
	if len(i.Labels) > 0 {
		text = fmt.Sprintf("scores (%s) of pairs of texts: /v1/rerank", console.Printable(strings.Join(i.Labels, ", ")))
	}
	return text
}
