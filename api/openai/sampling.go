package openai

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/inference"
	"weir/tokenizer"
)

var (
	temperatureRange = interval{low: 0, high: 2}
	topPRange        = interval{low: 0, high: 1, openLow: true}
	minPRange        = interval{low: 0, high: 1}
	repetitionRange  = interval{low: 0, high: 10, openLow: true}
	penaltyRange     = interval{low: -2, high: 2}
	biasRange        = interval{low: -100, high: 100}
)

// readSampling reads the sampler's parameters; names and ranges are those of
// the OpenAI API and, for what it lacks, of vLLM. seeded: the client set the seed.
func readSampling(o *object, m *Model, fault **api.Error) (s inference.Sampling, seeded bool) {
	s = inference.DefaultSampling()
	s.Temperature = o.number("temperature", temperatureRange, s.Temperature, fault)
	s.TopP = o.number("top_p", topPRange, s.TopP, fault)
	s.TopK = max(0, o.count("top_k", -1, maxInt32, 0, fault))
	s.MinP = o.number("min_p", minPRange, s.MinP, fault)
	s.TypicalP = o.number("typical_p", topPRange, s.TypicalP, fault)
	s.RepetitionPenalty = readRepetition(o, s.RepetitionPenalty, fault)
	s.PresencePenalty = o.number("presence_penalty", penaltyRange, s.PresencePenalty, fault)
	s.FrequencyPenalty = o.number("frequency_penalty", penaltyRange, s.FrequencyPenalty, fault)
	s.LogitBias = readLogitBias(o, m, fault)
	s.AllowedTokens = readAllowed(o, m, fault)
	s.BadWords = readBadWords(o, m, fault)
	s.Seed, seeded = seed(o, fault)
	return s, seeded
}

// readRepetition reads repetition_penalty under its own name and under
// llama-server's, repeat_penalty; both given must agree.
func readRepetition(o *object, otherwise float32, fault **api.Error) float32 {
	const unset = 0
	own := o.number("repetition_penalty", repetitionRange, unset, fault)
	other := o.number("repeat_penalty", repetitionRange, unset, fault)
	if own != unset && other != unset && own != other {
		keep(fault, badRequest("invalid_value", "repeat_penalty",
			"repeat_penalty and repetition_penalty are the same penalty and differ: %g and %g; send one", other, own))
	}
	return cmp.Or(own, other, otherwise)
}

const (
	maxBadWords     = 256 // entries of bad_words
	maxBadWordBytes = 256 // of each
)

// readBadWords reads the words that an answer must not contain, as sequences
// of token ids: as they stand at the beginning of an answer and as they stand
// behind a space, which tokenisers write otherwise (vLLM does the same). A
// word that the model spells with other tokens is not found.
func readBadWords(o *object, m *Model, fault **api.Error) [][]inference.TokenID {
	raw, ok := o.take("bad_words")
	if !ok {
		return nil
	}
	list, err := parseArray("bad_words", raw, maxBadWords)
	keep(fault, err)
	var words [][]inference.TokenID
	for i, item := range list {
		path := at("bad_words", i)
		word, err := parseString(path, item)
		switch {
		case err != nil:
			keep(fault, err)
			return nil
		case word == "" || len(word) > maxBadWordBytes:
			keep(fault, badRequest("invalid_value", path, "%s has %d bytes; a bad word has 1 to %d", path, len(word), maxBadWordBytes))
			return nil
		}
		word = strings.TrimLeft(word, " ")
		for _, text := range []string{word, " " + word} {
			ids := m.Tokenizer.AppendEncode(nil, text, tokenizer.EncodeOptions{})
			if len(ids) > 0 && !slices.ContainsFunc(words, func(w []inference.TokenID) bool { return slices.Equal(w, ids) }) {
				words = append(words, ids)
			}
		}
	}
	return words
}

// readAllowed reads the only tokens that an answer may have. Ends of an answer
// count among them: without one it goes on to its limit.
func readAllowed(o *object, m *Model, fault **api.Error) []inference.TokenID {
	raw, ok := o.take("allowed_token_ids")
	if !ok {
		return nil
	}
	ids, err := parseTokens("allowed_token_ids", raw, m.Tokenizer.Size(), m.Tokenizer.Size())
	if keep(fault, err); err == nil && len(ids) == 0 {
		keep(fault, badRequest("invalid_value", "allowed_token_ids",
			"allowed_token_ids is empty, so no answer could be given; leave it out to allow all"))
	}
	return ids
}

// readLogitBias reads a map of token ids, written as strings, to biases.
func readLogitBias(o *object, m *Model, fault **api.Error) []inference.TokenBias {
	raw, ok := o.take("logit_bias")
	if !ok {
		return nil
	}
	entries, err := parseObject("logit_bias", raw, maxBiases)
	if err != nil {
		keep(fault, err)
		return nil
	}
	biases := make([]inference.TokenBias, 0, len(entries.fields))
	for _, f := range entries.fields {
		b, err := parseBias(f, m.Tokenizer.Size())
		if err != nil {
			keep(fault, err)
			return nil
		}
		biases = append(biases, b)
	}
	return biases
}

func parseBias(f field, size int) (inference.TokenBias, *api.Error) {
	path := join("logit_bias", f.name)
	id, err := strconv.ParseUint(f.name, 10, 31)
	if err != nil || int(id) >= size || strconv.FormatUint(id, 10) != f.name {
		return inference.TokenBias{}, badRequest("invalid_value", "logit_bias",
			"logit_bias has the key %s; keys are token ids from 0 to %d", strconv.Quote(quote([]byte(f.name))), size-1)
	}
	v, fault := parseNumber(path, f.raw, biasRange)
	return inference.TokenBias{ID: inference.TokenID(id), Bias: float32(v)}, fault
}
