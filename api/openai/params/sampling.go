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
	s.LogprobTokens = readLogprobTokens(o, m, fault)
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

// maxLogprobTokens of one request; vLLM's limit.
const maxLogprobTokens = 128

// readLogprobTokens reads the ids whose log-probabilities are told instead of the likeliest's.
func readLogprobTokens(o *jsonbody.Object, m *models.Model, fault **api.Error) []inference.TokenID {
	raw, ok := o.Take("logprob_token_ids")
	if !ok {
		return nil
	}
	ids, err := ParseTokens("logprob_token_ids", raw, m.Tokenizer.Size(), maxLogprobTokens)
	jsonbody.Keep(fault, err)
	return unique(ids)
}

// RefuseNamed refuses names of tokens for log-probabilities that are not asked for; with says how they are.
func (p *Params) RefuseNamed(with string, fault **api.Error) {
	if len(p.Sampling.LogprobTokens) > 0 && !p.Logprobs {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "logprob_token_ids", "logprob_token_ids is allowed only together with logprobs; send logprobs: %s", with))
	}
}

// unique is a list without what was there before.
func unique(ids []inference.TokenID) (list []inference.TokenID) {
	for _, id := range ids {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
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
	size := m.Tokenizer.Size()
	if jsonbody.Keep(fault, refuseKeys(entries.Fields, size)); *fault != nil {
		return nil
	}
	biases := make([]inference.TokenBias, 0, len(entries.Fields))
	for _, f := range entries.Fields {
		b, err := parseBias(f)
		if err != nil {
			jsonbody.Keep(fault, err)
			return nil
		}
		biases = append(biases, b)
	}
	return biases
}

// refuseKeys names all keys that are no tokens of a vocabulary.
func refuseKeys(fields []jsonbody.Field, size int) *api.Error {
	var wrong []string
	for _, f := range fields {
		if id, err := strconv.ParseUint(f.Name, 10, 31); err != nil || int(id) >= size || strconv.FormatUint(id, 10) != f.Name {
			wrong = append(wrong, strconv.Quote(jsonbody.Quote([]byte(f.Name))))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	const most = 8
	if more := len(wrong) - most; more > 0 {
		wrong = append(wrong[:most], "and "+strconv.Itoa(more)+" more")
	}
	what := "the key "
	if len(wrong) > 1 {
		what = "the keys "
	}
	return api.RefuseParam("invalid_value", "logit_bias", "logit_bias has %s; keys are token ids below the size of the vocabulary, %d", what+strings.Join(wrong, ", "), size)
}

func parseBias(f jsonbody.Field) (inference.TokenBias, *api.Error) {
	id, _ := strconv.ParseUint(f.Name, 10, 31)
	v, fault := jsonbody.Number(jsonbody.Join("logit_bias", f.Name), f.Raw, biasRange)
	return inference.TokenBias{ID: inference.TokenID(id), Bias: float32(v)}, fault
}
