package params

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
)

const maxBiases = 1024 // entries of logit_bias

var (
	temperatureRange = jsonbody.Interval{Low: 0, High: 2}
	topPRange        = jsonbody.Interval{Low: 0, High: 1, OpenLow: true}
	minPRange        = jsonbody.Interval{Low: 0, High: 1}
	repetitionRange  = jsonbody.Interval{Low: 0, High: 10, OpenLow: true}
	penaltyRange     = jsonbody.Interval{Low: -2, High: 2}
	biasRange        = jsonbody.Interval{Low: -100, High: 100}
)

// readSampling reads the sampler's parameters; names and ranges are those of
// the OpenAI API and, for what it lacks, of vLLM. seeded: the client set the seed.
func readSampling(o *jsonbody.Object, m *models.Model, fault **api.Error) (s inference.Sampling, seeded bool) {
	s = inference.DefaultSampling()
	s.Temperature = o.Number("temperature", temperatureRange, s.Temperature, fault)
	s.TopP = o.Number("top_p", topPRange, s.TopP, fault)
	s.TopK = max(0, o.Count("top_k", -1, math.MaxInt32, 0, fault))
	s.MinP = o.Number("min_p", minPRange, s.MinP, fault)
	s.TypicalP = o.Number("typical_p", topPRange, s.TypicalP, fault)
	s.RepetitionPenalty = readRepetition(o, s.RepetitionPenalty, fault)
	s.PresencePenalty = o.Number("presence_penalty", penaltyRange, s.PresencePenalty, fault)
	s.FrequencyPenalty = o.Number("frequency_penalty", penaltyRange, s.FrequencyPenalty, fault)
	s.LogitBias = readLogitBias(o, m, fault)
	s.AllowedTokens = readAllowed(o, m, fault)
	s.BadWords = readBadWords(o, m, fault)
	s.Seed, seeded = seed(o, fault)
	return s, seeded
}

// readRepetition reads repetition_penalty under its own name and under
// llama-server's, repeat_penalty; both given must agree.
func readRepetition(o *jsonbody.Object, otherwise float32, fault **api.Error) float32 {
	const unset = 0
	own := o.Number("repetition_penalty", repetitionRange, unset, fault)
	other := o.Number("repeat_penalty", repetitionRange, unset, fault)
	if own != unset && other != unset && own != other {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "repeat_penalty",
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
func readBadWords(o *jsonbody.Object, m *models.Model, fault **api.Error) [][]inference.TokenID {
	raw, ok := o.Take("bad_words")
	if !ok {
		return nil
	}
	list, err := jsonbody.Array("bad_words", raw, maxBadWords)
	jsonbody.Keep(fault, err)
	var words [][]inference.TokenID
	for i, item := range list {
		path := jsonbody.At("bad_words", i)
		word, err := jsonbody.String(path, item)
		switch {
		case err != nil:
			jsonbody.Keep(fault, err)
			return nil
		case word == "" || len(word) > maxBadWordBytes:
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s has %d bytes; a bad word has 1 to %d", path, len(word), maxBadWordBytes))
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
func readAllowed(o *jsonbody.Object, m *models.Model, fault **api.Error) []inference.TokenID {
	raw, ok := o.Take("allowed_token_ids")
	if !ok {
		return nil
	}
	ids, err := ParseTokens("allowed_token_ids", raw, m.Tokenizer.Size(), m.Tokenizer.Size())
	if jsonbody.Keep(fault, err); err == nil && len(ids) == 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "allowed_token_ids",
			"allowed_token_ids is empty, so no answer could be given; leave it out to allow all"))
	}
	return ids
}

// readLogitBias reads a map of token ids, written as strings, to biases.
func readLogitBias(o *jsonbody.Object, m *models.Model, fault **api.Error) []inference.TokenBias {
	raw, ok := o.Take("logit_bias")
	if !ok {
		return nil
	}
	entries, err := jsonbody.ParseObject("logit_bias", raw, maxBiases)
	if err != nil {
		jsonbody.Keep(fault, err)
		return nil
	}
	biases := make([]inference.TokenBias, 0, len(entries.Fields))
	for _, f := range entries.Fields {
		b, err := parseBias(f, m.Tokenizer.Size())
		if err != nil {
			jsonbody.Keep(fault, err)
			return nil
		}
		biases = append(biases, b)
	}
	return biases
}

func parseBias(f jsonbody.Field, size int) (inference.TokenBias, *api.Error) {
	path := jsonbody.Join("logit_bias", f.Name)
	id, err := strconv.ParseUint(f.Name, 10, 31)
	if err != nil || int(id) >= size || strconv.FormatUint(id, 10) != f.Name {
		return inference.TokenBias{}, api.RefuseParam("invalid_value", "logit_bias",
			"logit_bias has the key %s; keys are token ids from 0 to %d", strconv.Quote(jsonbody.Quote([]byte(f.Name))), size-1)
	}
	v, fault := jsonbody.Number(path, f.Raw, biasRange)
	return inference.TokenBias{ID: inference.TokenID(id), Bias: float32(v)}, fault
}
