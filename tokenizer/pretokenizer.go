package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// stage cuts text one piece at a time: it returns the length in bytes, at
// least 1, of the first piece of a text that is not empty and is valid UTF-8.
// It does not look before the text, and the end of the text is an end to every
// look-ahead.
type stage func(t *classTable, text string) int

// preTokenizer says how a byte-level BPE vocabulary was trained to see text:
// as pieces, across whose borders nothing merges. Each stage cuts the pieces
// of the stage before.
type preTokenizer struct {
	stages      []stage
	wholePieces bool // a piece that is an entry is that token, whatever the merges say
	addsBOS     bool // default of add_bos_token
}

// maxStages bounds the stages of one pre-tokenizer.
const maxStages = 6

// pieceCursor walks the pieces of a text.
type pieceCursor struct {
	text string
	at   int
	ends [maxStages]int // end of the current piece of each stage
}

// next returns an empty piece at the end.
func (c *pieceCursor) next(t *classTable, stages []stage) string {
	limit := len(c.text)
	if c.at == limit {
		return ""
	}
	for i, cut := range stages {
		if c.ends[i] <= c.at {
			c.ends[i] = c.at + cut(t, c.text[c.at:limit])
		}
		limit = c.ends[i]
	}
	piece := c.text[c.at:limit]
	c.at = limit
	return piece
}

// preTokenizerSet lists the values of tokenizer.ggml.pre that share one
// pre-tokenizer. Names and grouping are those of llama.cpp; the expressions,
// where llama.cpp approximates them, are those of the models' tokenizer.json.
type preTokenizerSet struct {
	names []string
	preTokenizer
}

func preTokenizers() []preTokenizerSet {
	return []preTokenizerSet{
		{[]string{"default"}, preTokenizer{stages: []stage{
			isolate(runOf(isDefaultPunctuation)), cutGPT2, isolate(runOfClass(numeral)), isolate(threeDigits)}}},
		{[]string{
			"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe",
			"gigachat", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4",
		}, preTokenizer{stages: []stage{cutGPT2}}},
		{[]string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
			preTokenizer{stages: []stage{wordRules{letters: letter, digits: 3}.cut}, wholePieces: true, addsBOS: true}},
		{[]string{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"},
			preTokenizer{stages: []stage{wordRules{letters: letter, digits: 3}.cut}}},
		{[]string{"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "grok-2",
			"bailingmoe", "bailingmoe2", "llada-moe", // whose \s*[\r\n] takes as much as \s*[\r\n]+
		},
			preTokenizer{stages: []stage{wordRules{letters: letter, digits: 1}.cut}}},
		{[]string{"seed-coder"}, preTokenizer{stages: []stage{wordRules{letters: letter, digits: 1, bare: true}.cut}}},
		{[]string{"qwen35"},
			preTokenizer{stages: []stage{wordRules{letters: letter | mark, digits: 1}.cut}}},
		{[]string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
			preTokenizer{stages: []stage{caseRules{contractions: true, digits: 3}.cut}}},
		{[]string{"tekken"},
			preTokenizer{stages: []stage{caseRules{digits: 1}.cut}, wholePieces: true, addsBOS: true}},
		{[]string{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
			preTokenizer{stages: []stage{isolate(oneOfClass(numeral)), cutGPT2}}},
		{[]string{"falcon"}, preTokenizer{stages: []stage{
			isolate(runOf(isFalconPunctuation)), cutGPT2, isolate(threeDigits)}}},
		{[]string{"deepseek-llm"}, preTokenizer{stages: []stage{
			isolate(oneLineBreak), isolate(spacedRunOf(isDeepseekLetter)), isolate(spacedRunOf(isDeepseekPunctuation)),
			cutTrailingSpace, isolate(runOf(isDeepseekEastAsian)), isolate(oneOfClass(numeral))}}},
		{[]string{"deepseek-coder"}, preTokenizer{stages: []stage{
			isolate(oneLineBreak), isolate(spacedRunOfClass(letter)), isolate(spacedRunOfClass(punctuation)),
			isolate(runOf(isDeepseekEastAsian)), isolate(oneOfClass(numeral))}}},
		{[]string{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, preTokenizer{stages: []stage{
			isolate(upToThreeNumerals), isolate(runOf(isHanOrKana)), isolate(matchDeepseekV3)}}},
	}
}

// preTokenizerFor finds a pre-tokenizer by name. Files from before the key
// existed have none, and get the default as in llama.cpp.
func preTokenizerFor(name string) (preTokenizer, error) {
	if name == "" {
		name = "default"
	}
	var known []string
	for _, s := range preTokenizers() {
		if slices.Contains(s.names, name) {
			return s.preTokenizer, nil
		}
		known = append(known, s.names...)
	}
	slices.Sort(known)
	return preTokenizer{}, fmt.Errorf("read tokenizer.ggml.pre: pre-tokenizer %q is not supported; known are %s",
		name, strings.Join(known, ", "))
}

// isolate makes a stage of a matcher: each match is a piece, and so is each
// stretch between matches. match returns 0 where nothing matches at the
// start of the text, and must find that out in constant time.
func isolate(match func(t *classTable, text string) int) stage {
	return func(t *classTable, text string) int {
		if n := match(t, text); n > 0 {
			return n
		}
		_, i := t.at(text, 0)
		for i < len(text) && match(t, text[i:]) == 0 {
			_, n := t.at(text, i)
			i += n
		}
		return i
	}
}
